"""A node that the suite forks is the process that would have been executed (tests/support/nursery.py)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from penstock.client.admin.admin import Admin
from penstock.local_nodes import node_process as process
from penstock.local_nodes.node_process import NodeFailedError
from penstock.testing import Cluster
from tests.integration.test_cluster import wait_until
from tests.support import nursery
from tests.support.nursery import ForkedNode

pytestmark = pytest.mark.skipif(not nursery.is_wanted(), reason="nodes are executed here")

HOLDS_A_CLUSTER = """
import signal
from penstock.local_nodes import node_process as process
from penstock.testing import Cluster
from tests.support import nursery
process.start_process = nursery.start_process
cluster = Cluster().open()
print(cluster.pid(0), flush=True)
signal.pause()
"""


@pytest.fixture(params=["forked", "executed"])
def started(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[process.Child]:
    """The processes that are started, one way or the other."""
    found: list[process.Child] = []
    start = nursery.start_process if request.param == "forked" else nursery.executed

    def noted(*arguments: object) -> process.Child:
        found.append(start(*arguments))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(process, "start_process", noted)
    return found


def test_a_node_is_a_child_with_a_session_a_log_and_an_end_of_its_own(started: list[process.Child]) -> None:
    before = nursery.is_subreaper()
    with Cluster() as cluster:
        pid = cluster.pid(0)
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        assert (int(fields[1]), int(fields[3])) == (os.getpid(), pid)
        assert [os.readlink(f"/proc/{pid}/fd/{number}") for number in (0, 1, 2)] == [
            os.devnull,
            *[str(cluster.log_path(0))] * 2,
        ]
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("t", 1)
        cluster.restart(0)
        with Admin(cluster.bootstrap) as admin:
            assert list(admin.list_topics()) == ["t"]
        cluster.kill(0)
        cluster.start(0)
        assert cluster.stop(0) == 0
    assert [child.returncode for child in started] == [0, -signal.SIGKILL, 0]
    assert nursery.is_subreaper() == before


def test_a_start_that_is_refused_ends_with_its_code_and_its_line(started: list[process.Child]) -> None:
    with pytest.raises(NodeFailedError, match=r"(?s)ended with code 2.*did you mean log\.segment\.bytes\?"):
        Cluster(config={"log.segment.byte": 1}).open()
    assert [child.returncode for child in started] == [2]


def test_a_forked_node_does_not_outlive_the_process_that_started_it() -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDS_A_CLUSTER], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        node = int(holder.stdout.readline())
        nurseries = [pid for pid in children_of(holder.pid) if pid != node]
        assert len(nurseries) == 1
        holder.kill()
    wait_until(lambda: not any(map(lives, (node, *nurseries))))


def children_of(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    "other",
    [
        lambda command, environ: (["true"], environ),
        lambda command, environ: (command, {**environ, "PYTHONPATH": "/nowhere"}),
    ],
    ids=["another program", "another path"],
)
def test_what_the_nursery_is_not_is_executed(
    tmp_path: Path, other: Callable[[Sequence[str], dict[str, str]], tuple[list[str], dict[str, str]]]
) -> None:
    command, environ = other(process.node_command("start", "--config", "none"), dict(os.environ))
    with (tmp_path / "log").open("ab") as log:
        child = nursery.start_process(command, environ, log)
    child.wait(60)
    assert not isinstance(child, ForkedNode)
