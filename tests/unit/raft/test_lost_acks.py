"""A leader notices a voter whose disk has lost what it acked: an older copy of it, or one that lied about a flush."""

from __future__ import annotations

import pytest

from raft.messages import FetchMetadataRequest
from raft.quorum_replicas import LostAcks
from raft.quorum_state import ElectionState
from tests.support.raft_bench import CLUSTER, Bench, log_of

START = 3
"""The LeaderChange record of the leader's epoch 5."""
DISK, OTHER_DISK = "disk", "other"


def leader() -> Bench:
    bench = Bench(log=log_of(1, 1, 4), stored=ElectionState(4)).become_leader()
    bench.core.propose([b"a", b"b"])
    bench.perform()
    return bench


def fetch(bench: Bench, process: str, offset: int, node: int = 2, disk: str = DISK) -> None:
    last_epoch = 4 if offset == START else 5
    bench.ask(
        FetchMetadataRequest(CLUSTER, node, 5, offset, last_epoch, 0, 1 << 20, process, replica_directory_id=disk)
    )


def lost(bench: Bench) -> LostAcks | None:
    assert bench.core.leadership is not None
    assert bench.core.statistics().acks_lost == (bench.core.leadership.replicas.lost_acks is not None)
    return bench.core.leadership.replicas.lost_acks


def test_a_new_process_that_fetches_below_what_its_disk_acked_is_noticed_once() -> None:
    bench = leader()
    fetch(bench, "before", START + 3)
    for _ in range(2):
        fetch(bench, "after", START)
    assert lost(bench) == LostAcks(2, DISK, START, START + 3)


@pytest.mark.parametrize(
    ("process", "node", "disk", "offset"),
    [
        ("after", 2, DISK, START + 3),
        ("before", 2, DISK, START),
        ("after", 2, OTHER_DISK, START),
        ("", 2, DISK, START),
        ("after", 9, DISK, START),
    ],
    ids=["all is there", "same process", "another disk", "older node", "observer"],
)
def test_nothing_was_lost(process: str, node: int, disk: str, offset: int) -> None:
    bench = leader()
    fetch(bench, "before", START + 3, node)
    fetch(bench, process, offset, node, disk)
    assert lost(bench) is None


def test_the_late_fetch_of_the_process_before_says_nothing() -> None:
    bench = leader()
    fetch(bench, "before", START)
    fetch(bench, "after", START + 3)
    fetch(bench, "before", START)
    fetch(bench, "after", START + 3)
    assert lost(bench) is None
