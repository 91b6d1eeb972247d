"""A host is asked at its socket; who cannot be asked is told with the reason."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cli.host.asking import ask_host, host_directory
from penstock.errors import ConfigError, PenstockError


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "host.toml"
    path.write_text(f'[host]\nnodes = 1\ndirectory = "{tmp_path}"\n', encoding="utf-8")
    return str(path)


@pytest.fixture
def answering(tmp_path: Path) -> Callable[[bytes], list[bytes]]:
    """A host that gives one answer; the requests that it got."""

    def begin(answer: bytes) -> list[bytes]:
        asked: list[bytes] = []
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(tmp_path / "control"))
        listening.listen(1)

        def run() -> None:
            with listening, listening.accept()[0] as connection:
                asked.append(connection.recv(4_096))
                connection.sendall(answer)

        threading.Thread(target=run, daemon=True).start()
        return asked

    return begin


def test_the_answer_comes_back(config: str, answering: Callable[[bytes], list[bytes]]) -> None:
    asked = answering(b'{"nodes": []}\n')
    assert ask_host(config, "restart", 11) == {"nodes": []}
    assert asked == [b'{"do": "restart", "node": 11}\n']


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (b'{"error": "this host has the nodes 1 to 3"}', ConfigError, "refuses: this host has"),
        (b"", PenstockError, "no answer"),
        (b"nothing", PenstockError, "no answer"),
    ],
)
def test_a_wrong_answer_is_told(
    config: str, answering: Callable[[bytes], list[bytes]], answer: bytes, kind: type[Exception], words: str
) -> None:
    answering(answer)
    with pytest.raises(kind, match=words):
        ask_host(config, "status")


def test_no_host_and_no_right_are_told_apart(config: str, tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match=r"No such file.*penstock host start"):
        ask_host(config, "status")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(tmp_path / "control"))
    with pytest.raises(PenstockError, match="refused"):
        ask_host(config, "status")


@pytest.mark.parametrize(
    ("text", "words"),
    [("[host", "not valid TOML"), ("[host]\ndirectory = 3", "must be a text"), ("host = 3", "a text")],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "host.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        host_directory(str(path))
    with pytest.raises(ConfigError, match="cannot be read"):
        host_directory(str(tmp_path / "none"))


def test_the_directory_has_a_default_and_dotted_keys(tmp_path: Path) -> None:
    path = tmp_path / "host.toml"
    path.write_text("[host]\nnodes = 1\n", encoding="utf-8")
    assert host_directory(str(path)) == "/var/lib/penstock/host"
    path.write_text('host.directory = "/x/"\n', encoding="utf-8")
    assert host_directory(str(path)) == "/x" and os.path.isabs(host_directory(str(path)))
