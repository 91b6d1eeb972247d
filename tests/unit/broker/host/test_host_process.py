"""One node that cannot be started, or ends at any moment, costs no other node of the host."""

from __future__ import annotations

import errno
import selectors
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.host.host_control import HostControl
from broker.host.host_core import NodeState
from broker.host.host_file import load_host_file
from broker.host.host_process import Host, _Pages
from broker.host.node_files import node_files
from penstock.local_nodes import node_process

TEXT = """[host]
nodes = 2
address = "a"
directory = "{directory}"
[node]
controller.quorum.voters = "1@a:9292"
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Any]:
    path = tmp_path / "host.toml"
    path.write_text(TEXT.format(directory=tmp_path), encoding="utf-8")
    file = load_host_file(str(path))
    with selectors.DefaultSelector() as selector:
        control = HostControl(str(tmp_path / "control"), selector)
        made = Host(file, node_files(file), control, selector, _Pages())
        yield made
        control.close()
        for node in made._nodes.values():
            node._close_notifications()


def test_a_process_that_cannot_be_made_leaves_its_node_waiting(
    host: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(node_process, "start_process", refuse)
    host._perform(host._core.start_all(0))
    assert [host._core.state_of(one) for one in (1, 2)] == [NodeState.WAITING, NodeState.WAITING]
    assert [one["pid"] for one in host._answer("status", None)["nodes"]] == [None, None]
    assert "node 2 cannot be started: Resource temporarily unavailable" in capsys.readouterr().err


class EndsAfterALook:
    """A process that runs at the first look, and has ended at the next."""

    pid = 4_000_000_000
    returncode: int | None = None

    def __init__(self, code: int = 0) -> None:
        self.looks = 0
        self.code = code

    def poll(self) -> int | None:
        self.looks += 1
        return None if self.looks == 1 else self.code

    def wait(self, _timeout: float | None = None) -> int:
        return self.code


def test_a_node_that_ends_while_it_is_shown_is_no_error(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_process, "start_process", lambda *_: EndsAfterALook())
    host._perform(host._core.start_all(0))
    assert [one["pid"] for one in host._answer("status", None)["nodes"]] == [EndsAfterALook.pid] * 2
    assert [one["pid"] for one in host._answer("status", None)["nodes"]] == [None] * 2


@pytest.mark.parametrize(("code", "bad_ends"), [(0, 0), (-15, 0), (1, 2), (-9, 2)])
def test_a_node_that_sigterm_itself_ends_has_stopped_in_order(
    host: Any, monkeypatch: pytest.MonkeyPatch, code: int, bad_ends: int
) -> None:
    monkeypatch.setattr(node_process, "start_process", lambda *_: EndsAfterALook(code))
    sent: list[int] = []
    monkeypatch.setattr(node_process.os, "kill", lambda _pid, number: sent.append(number))
    host._perform(host._core.start_all(0))
    host._perform(host._core.stop_all(1))
    host._turn()
    assert sent == [15, 15] and host._core.is_over
    assert host._bad_ends == bad_ends
