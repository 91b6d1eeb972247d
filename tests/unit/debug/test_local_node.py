"""A bundle has what there is of a node on this machine, also of one whose file or disk is damaged."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from penstock.debug.local_node import (
    LOCK,
    ask_for_stacks,
    files_text,
    journal_text,
    local_node,
    process_of,
    process_text,
)
from penstock.errors import ConfigError


def node_of(tmp_path: Path, text: str, name: str = "7.toml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "node_id", "log_dirs", "metrics"),
    [
        ('node.id = 3\nlog.dirs = "/a, /b"\nmetrics.listener = "h:1"', "3", ("/a", "/b"), "h:1"),
        ('"node.id" = "4"\n"log.dirs" = ["/a"]', "4", ("/a",), ""),
        ('node.id = "../../x9"', "9", (), ""),
        ("this is = no toml = at all", "7", (), ""),
        ("", "7", (), ""),
        ("a = " + "[" * 100_000, "7", (), ""),
    ],
)
def test_a_configuration_is_taken_as_far_as_it_goes(
    tmp_path: Path, text: str, node_id: str, log_dirs: tuple[str, ...], metrics: str
) -> None:
    node = local_node(node_of(tmp_path, text))
    assert (node.node_id, tuple(map(str, node.log_dirs)), node.metrics) == (node_id, log_dirs, metrics)
    assert node.folder == f"nodes/{node_id}"


def test_a_file_that_is_not_there_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        local_node(tmp_path / "none.toml")


def test_the_process_that_holds_a_log_dir_is_found(tmp_path: Path) -> None:
    node = local_node(node_of(tmp_path, f'log.dirs = "{tmp_path}/gone,{tmp_path}"'))
    assert process_of(node) is None
    with (tmp_path / LOCK).open("w") as lock:
        assert process_of(node) is None
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert process_of(node) == os.getpid()


def test_a_process_is_shown_with_its_threads_and_without_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "abcdefg")
    shown = process_text(os.getpid())
    assert f"Pid:\t{os.getpid()}" in shown and "== threads" in shown and "Max open files" in shown
    assert any(line.startswith(f"{os.getpid()}\t") for line in shown.splitlines())
    assert "abcdefg" not in shown
    assert "No such file" in process_text(2**22 + 1)


def test_a_process_that_would_end_is_not_asked_for_its_stacks() -> None:
    paused: list[float] = []
    assert not ask_for_stacks(os.getpid(), paused.append)
    assert not ask_for_stacks(2**22 + 1, paused.append)
    assert paused == []


def test_files_are_listed_and_a_log_dir_that_is_gone_is_said(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "orders-0").mkdir(parents=True)
    (data / "orders-0" / "00.log").write_bytes(b"12345")
    os.utime(data / "orders-0" / "00.log", ns=(0, 5_000_000))
    node = local_node(node_of(tmp_path, f'log.dirs = "{data},{tmp_path}/gone"'))
    head, line, gone = files_text(node).splitlines()
    assert head.startswith(f"== {data}: ") and head.endswith("bytes free")
    assert line == "5\t5\torders-0/00.log"
    assert gone == f"== {tmp_path}/gone: No such file or directory"


def test_the_journal_of_a_hosts_node_is_that_of_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def run(command: tuple[str, ...], **_: object) -> subprocess.CompletedProcess[bytes]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, b"a line\n", b"")

    monkeypatch.setattr(subprocess, "run", run)
    (tmp_path / "11").mkdir()
    for name in ("11/node.toml", "7.toml", "node.toml"):
        assert journal_text(local_node(node_of(tmp_path, "node.id = 11", name))) == "a line\n"
    units = [command[command.index("--unit") + 1 :] for command in asked]
    assert units == [("penstock-host", "--grep", "^node 11:"), ("penstock@7",), ("penstock@node",)]


def test_a_pipe_is_no_configuration_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="is no file"):
        local_node(tmp_path / "pipe")
