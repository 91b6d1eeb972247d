"""NodeProcess against a stand-in for the node that only speaks the start-up protocol."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.errors import TimedOutError
from penstock.local_nodes import node_process as process
from penstock.local_nodes.node_process import NodeFailedError, NodeProcess, wait_all_ready
from tests.integration.test_cluster import wait_until

READY = """
import os, signal, socket
name = os.environ["NOTIFY_SOCKET"]
speaker = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
speaker.sendto(b"STATUS=recovering", "\\0" + name[1:])
speaker.sendto(b"READY=1", "\\0" + name[1:])
signal.pause()
"""
DIES = "import sys; print('listeners: port 1 is in use'); sys.exit(2)"
NEVER_READY = READY.replace("READY=1", "STATUS=waits for a quorum")

MakeNode = Callable[[str], NodeProcess]


@pytest.fixture
def make_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeNode]:
    made: list[NodeProcess] = []

    def make(program: str) -> NodeProcess:
        monkeypatch.setattr(process, "node_command", lambda *arguments: [sys.executable, "-c", program])
        made.append(NodeProcess(f"node {len(made)}", tmp_path / "node.toml", tmp_path / "node.log", "id"))
        made[-1].spawn()
        return made[-1]

    yield make
    for node in made:
        node.kill()


def test_a_node_is_ready_when_it_says_so(make_node: MakeNode) -> None:
    node = make_node(READY)
    assert node.is_starting
    wait_all_ready([node], timeout_s=60)
    assert not node.is_starting and node.is_running and node.status == "recovering"


def test_a_node_that_ends_instead_shows_its_log(make_node: MakeNode) -> None:
    node = make_node(DIES)
    with pytest.raises(NodeFailedError, match=r"node 0 ended with code 2; the end of .*node\.log:\n.*port 1 is in use"):
        wait_all_ready([node], timeout_s=60)


def test_a_node_that_is_late_tells_what_it_waits_for(make_node: MakeNode) -> None:
    node = make_node(NEVER_READY)

    def has_logged() -> bool:
        node.read_notifications()
        return node.status == "waits for a quorum"

    wait_until(has_logged)  # a process may take a second to begin
    with pytest.raises(TimedOutError, match=r"not ready within 0\.1 s: node 0 \(waits for a quorum\)"):
        wait_all_ready([node], timeout_s=0.1)


def test_a_stopped_node_has_its_exit_code_and_may_start_again(make_node: MakeNode) -> None:
    node = make_node(READY)
    wait_all_ready([node], timeout_s=60)
    first = node.pid
    node.begin_stop()
    assert node.wait_exit(60) == 0 and not node.is_running
    node.spawn()
    wait_all_ready([node], timeout_s=60)
    assert node.pid != first


def test_a_killed_node_is_gone_when_kill_returns(make_node: MakeNode) -> None:
    node = make_node(READY)
    node.kill()
    assert not node.is_running and node.exit_code == -9
    with pytest.raises(NodeFailedError, match="node 0 is not running"):
        _ = node.pid


def test_a_paused_node_is_stopped_in_an_orderly_way_all_the_same(make_node: MakeNode) -> None:
    node = make_node(READY)
    wait_all_ready([node], timeout_s=60)
    node.pause()
    node.begin_stop()
    assert node.wait_exit(60) == 0


def test_a_node_that_runs_is_not_started_twice(make_node: MakeNode) -> None:
    node = make_node(READY)
    with pytest.raises(NodeFailedError, match="runs already"):
        node.spawn()
