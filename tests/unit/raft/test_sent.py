"""A leader's bound on what it may have sent to the processes of a node but one: never too little, whatever restarts or
is forgotten.

`heard(…, process)` is the end of it: a record at that offset or behind it is unheard of by every other process.
"""

from __future__ import annotations

import pytest

from raft import quorum_replicas
from raft.messages import FetchMetadataRequest, FetchSnapshotRequest, SnapshotsKept
from raft.quorum_state import ElectionState
from tests.support.raft_bench import CLUSTER, Bench, log_of

NODES = pytest.mark.parametrize("node", [2, 9], ids=["voter", "observer"])
START = 3
"""The LeaderChange record of the leader's epoch 5."""


def leader(**config: str) -> Bench:
    bench = Bench(log=log_of(1, 1, 4), stored=ElectionState(4), **config).become_leader()
    assert (bench.core.epoch, bench.core.log_end_offset) == (5, START + 1)
    return bench


def fetch(
    bench: Bench, node: int, process: str, offset: int = START, wait_ms: int = 0, max_bytes: int = 1 << 20
) -> int:
    last_epoch = 4 if offset == START else 5
    return bench.ask(FetchMetadataRequest(CLUSTER, node, 5, offset, last_epoch, wait_ms, max_bytes, process))


def heard(bench: Bench, node: int, process: str) -> int:
    assert bench.core.leadership is not None
    return bench.core.leadership.sent_end_besides(node, process)


def propose(bench: Bench) -> int:
    offset = bench.core.propose([b"made"])
    bench.perform()
    return offset


@NODES
def test_what_comes_after_a_process_died_is_unheard_by_it(node: int) -> None:
    bench = leader()
    fetch(bench, node, "before")
    made = propose(bench)
    assert heard(bench, node, "after") == made


@NODES
def test_what_was_sent_before_it_died_is_heard(node: int) -> None:
    bench = leader()
    made = propose(bench)
    fetch(bench, node, "before")
    assert heard(bench, node, "after") == made + 1
    fetch(bench, node, "after", made + 1)
    assert heard(bench, node, "after") == made + 1


@NODES
def test_fetches_of_the_new_process_itself_are_not_counted(node: int) -> None:
    bench = leader()
    fetch(bench, node, "before")
    made = propose(bench)
    fetch(bench, node, "after")
    assert heard(bench, node, "after") == made
    assert heard(bench, node, "a third") == made + 1, "a new process that was refused heard of it"


@NODES
def test_process_that_comes_back_late_makes_the_answer_no_lower(node: int) -> None:
    bench = leader()
    fetch(bench, node, "after")
    made = propose(bench)
    fetch(bench, node, "before")
    fetch(bench, node, "after")
    assert heard(bench, node, "after") == made + 1


@NODES
def test_processes_of_an_older_release_have_no_name_and_are_never_the_one_that_registers(node: int) -> None:
    bench = leader()
    made = propose(bench)
    fetch(bench, node, "")
    assert heard(bench, node, "after") == heard(bench, node, "") == made + 1


def test_parked_fetch_of_a_dead_process_counts_when_it_is_answered() -> None:
    bench = leader()
    fetch(bench, 9, "before")
    fetch(bench, 9, "before", START + 1, wait_ms=500)
    made = propose(bench)
    assert heard(bench, 9, "after") == made + 1


def test_answer_that_is_too_small_for_all_records_counts_for_all() -> None:
    bench = leader()
    made = propose(bench)
    fetch(bench, 9, "before", max_bytes=1)
    assert heard(bench, 9, "after") == made + 1


def test_snapshot_counts_up_to_its_end() -> None:
    bench = leader()
    made = propose(bench)
    fetch(bench, 2, "voter", made + 1)
    fetch(bench, 2, "voter", made + 1)
    assert bench.core.high_watermark == made + 1
    kept = bench.log.take_snapshot(made + 1)
    bench.core.step(SnapshotsKept((kept,)), bench.now_ms)
    bench.perform()
    bench.ask(FetchSnapshotRequest(CLUSTER, 9, 5, kept, 0, 10, "before"))
    assert heard(bench, 9, "after") == made + 1
    assert heard(bench, 9, "before") == START


@NODES
def test_nothing_below_the_start_of_the_epoch_is_known_to_be_unheard(node: int) -> None:
    """An earlier leader may have sent it, though this one has sent nothing."""
    assert heard(leader(), node, "after") == START


def test_leader_has_heard_of_everything_but_its_own_process_of_nothing_before() -> None:
    bench = leader(incarnation_id="own")
    made = propose(bench)
    assert heard(bench, 1, "own") == START
    assert heard(bench, 1, "another") == heard(bench, 1, "") == made + 1
    assert heard(leader(), 1, "") == START + 1, "a process without a name"


def test_observer_that_was_forgotten_for_others_may_have_heard_what_they_all_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quorum_replicas, "OBSERVERS_MAX", 2)
    bench = leader()
    made = propose(bench)
    fetch(bench, 9, "before")
    for node in (10, 11):
        bench.advance(10)
        fetch(bench, node, "p")
    assert bench.core.leadership is not None
    assert [seen.replica_id for seen in bench.core.leadership.replicas.observers()] == [10, 11]
    assert heard(bench, 9, "after") == made + 1
    fetch(bench, 9, "after", made + 1)
    assert heard(bench, 9, "after") == made + 1


def test_follower_names_its_process_in_every_fetch() -> None:
    bench = Bench(stored=ElectionState(5, 2), incarnation_id="me")
    bench.perform()
    (sent,) = bench.take_sent()
    assert isinstance(sent.request, FetchMetadataRequest) and sent.request.incarnation_id == "me"
