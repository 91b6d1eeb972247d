"""Promises of a log of one's own: told once, at the commit, or with an error that does not say "nothing was written".

They hold for every origin: a coordinator's state is as safe as a client's records.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.replication.leader.follower_fetch import note_follower_fetch
from broker.replication.leader.leader_appends import ACKS_ALL, LeaderAppends, waiters_of
from broker.replication.leader.leader_state import ReplicaPosition
from broker.replication.partition import Partition
from broker.replication.replica_statistics import Traffic
from penstock.clock import ManualClock
from penstock.errors import (
    ApiError,
    KafkaStorageError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    UnknownTopicOrPartitionError,
)
from penstock.record.builder import build_batch
from penstock.types import Endpoint, LeaderHint
from storage.append.append_origin import COORDINATOR, PRODUCER, AppendOrigin
from tests.support.partitions import TOPIC_ID, batch, flush, make_partition, state

NEW_LEADER = LeaderHint(2, 6, Endpoint("two", 9192), TOPIC_ID)
MARKER = build_batch([b"\x00" * 6], keys=[b"\x00\x00\x00\x01"], timestamps_ms=0, is_control=True)
RECORDS = {PRODUCER: batch(), COORDINATOR: batch() + MARKER}


class Own:
    """A partition that broker 1 leads with broker 2 in the ISR, and everything that its user is told."""

    def __init__(self, path: Path, origin: AppendOrigin = COORDINATOR, *, flushes_at_once: bool = False) -> None:
        self.partition, self.origin = make_partition(path, min_insync_replicas=2), origin
        self.partition.become_leader(state(isr=(1, 2), replicas=(1, 2)), 0)
        self.flushes: list[Partition] = []
        self.outcomes: list[ApiError | None] = []
        self.traffic = Traffic()
        request: Callable[[Partition], None] = flush if flushes_at_once else self.flushes.append
        flushing: Any = SimpleNamespace(request_flush=request)
        self.logs = LeaderAppends(flushing, self.traffic, ManualClock())

    def append(self, records: bytes = b"", acks: int = ACKS_ALL) -> int:
        """Returns the offset below which the records are."""
        info = self.logs.append(self.partition, records or RECORDS[self.origin], acks, self.origin)
        self.logs.when_acked(self.partition, info, acks, self.outcomes.append)
        return info.last_offset + 1

    def follower_has(self, offset: int) -> None:
        note_follower_fetch(self.partition, 2, 7, ReplicaPosition(offset, 5 if offset else -1), 5, 1)


@pytest.mark.parametrize("origin", AppendOrigin)
def test_it_is_told_at_the_commit_and_not_before(origin: AppendOrigin, tmp_path: Path) -> None:
    own = Own(tmp_path, origin)
    end = own.append()
    assert own.flushes == [own.partition] and own.outcomes == []
    flush(own.partition)
    own.follower_has(end - 1)
    assert own.outcomes == [], "the follower lacks a record"
    own.follower_has(end)
    assert own.outcomes == [None] and own.partition.high_watermark == end
    assert own.traffic.messages_in == end


def test_without_this_brokers_flush_nothing_is_committed(tmp_path: Path) -> None:
    own = Own(tmp_path)
    own.follower_has(own.append())
    assert own.outcomes == []
    flush(own.partition)
    assert own.outcomes == [None]


def test_each_append_is_told_in_the_order_of_the_log(tmp_path: Path) -> None:
    own, order = Own(tmp_path), list[int]()
    for number in range(3):
        info = own.logs.append(own.partition, batch(), ACKS_ALL, COORDINATOR)
        own.logs.when_acked(own.partition, info, ACKS_ALL, lambda error, number=number: order.append(number))
    flush(own.partition)
    own.follower_has(2)
    assert order == [0, 1]
    own.follower_has(3)
    assert order == [0, 1, 2]


def test_with_a_flush_at_once_it_is_told_before_the_call_returns(tmp_path: Path) -> None:
    own = Own(tmp_path, flushes_at_once=True)
    own.append(acks=1)
    assert own.outcomes == [None]


ENDS: dict[str, tuple[Callable[[Partition], object], type[ApiError], LeaderHint | None]] = {
    "another leads": (
        lambda partition: partition.become_follower(state(2, 6, 1, (1, 2), (1, 2)), NEW_LEADER),
        NotEnoughReplicasAfterAppendError,
        NEW_LEADER,
    ),
    "it was moved away": (
        lambda partition: partition.stop(NotLeaderOrFollowerError("moved away", leader=NEW_LEADER)),
        NotEnoughReplicasAfterAppendError,
        NEW_LEADER,
    ),
    "it was deleted": (
        lambda partition: partition.stop(UnknownTopicOrPartitionError("deleted")),
        NotEnoughReplicasAfterAppendError,
        None,
    ),
    "the disk failed": (lambda partition: partition.stop(KafkaStorageError("EIO")), KafkaStorageError, None),
    "too few are in sync": (
        lambda partition: partition.become_leader(state(1, 5, 1, (1,), (1, 2)), 1),
        NotEnoughReplicasAfterAppendError,
        None,
    ),
}


@pytest.mark.parametrize("why", ENDS)
def test_it_is_told_once_that_nobody_knows_and_never_that_nothing_was_written(why: str, tmp_path: Path) -> None:
    end, error, leader = ENDS[why]
    own = Own(tmp_path)
    own.append()
    end(own.partition)
    flush(own.partition)
    (outcome,) = own.outcomes
    assert type(outcome) is error and outcome.leader == leader
    assert outcome.retriable and not outcome.nothing_written


def test_a_lead_that_goes_on_in_a_newer_epoch_keeps_who_waits(tmp_path: Path) -> None:
    own = Own(tmp_path)
    end = own.append()
    own.partition.become_leader(state(1, 6, 1, (1, 2), (1, 2)), 1)
    flush(own.partition)
    note_follower_fetch(own.partition, 2, 7, ReplicaPosition(end, 5), 6, 1)
    assert own.outcomes == [None]


REFUSALS: dict[str, tuple[Callable[[Partition], object], type[ApiError]]] = {
    "another leads": (ENDS["another leads"][0], NotLeaderOrFollowerError),
    "it was deleted": (ENDS["it was deleted"][0], UnknownTopicOrPartitionError),
    "too few are in sync": (ENDS["too few are in sync"][0], NotEnoughReplicasError),
}


@pytest.mark.parametrize("why", REFUSALS)
def test_a_refused_append_raises_and_nobody_is_told_of_it(why: str, tmp_path: Path) -> None:
    begin, error = REFUSALS[why]
    own = Own(tmp_path)
    begin(own.partition)
    with pytest.raises(error) as refused:
        own.append()
    assert refused.value.nothing_written and own.partition.log.log_end_offset == 0
    assert (own.outcomes, own.flushes, own.traffic.messages_in) == ([], [], 0)


def test_who_has_given_up_is_told_nothing(tmp_path: Path) -> None:
    own = Own(tmp_path)
    info = own.logs.append(own.partition, batch(), ACKS_ALL, COORDINATOR)
    waiter = own.outcomes.append
    own.logs.when_acked(own.partition, info, ACKS_ALL, waiter)
    waiters_of(own.partition, ACKS_ALL).discard(waiter)
    flush(own.partition)
    own.follower_has(1)
    assert own.outcomes == []


def test_a_duplicate_of_committed_records_is_told_at_once_and_counts_no_traffic(tmp_path: Path) -> None:
    own = Own(tmp_path, PRODUCER)
    once = build_batch([b"v"], timestamps_ms=0, producer_id=3, producer_epoch=0, base_sequence=0)
    own.append(once)
    flush(own.partition)
    own.follower_has(1)
    own.append(once)
    assert own.outcomes == [None, None]
    assert (own.traffic.messages_in, own.partition.log.log_end_offset) == (1, 1)
