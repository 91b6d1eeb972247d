"""Promises of the look at last stable offsets: which lag, by how much, and for how long one has stood still."""

from __future__ import annotations

import asyncio
from pathlib import Path

from broker.jobs.stable_offsets import StableOffsets, StableOffsetStatistics
from broker.replication.partition import Partition
from penstock.clock import ManualClock
from penstock.errors import UnknownTopicOrPartitionError
from penstock.types import TopicPartition
from tests.support.partitions import NOBODY, batch, flush, make_log, state
from tests.support.undecided_log import said_transactions

OPEN = 2**60


def led(path: Path, number: int) -> Partition:
    partition = Partition(1, make_log(path, partition=TopicPartition("t", number)), 0, 1)
    partition.become_leader(state(isr=(1,)), 0)
    for _ in range(10):
        partition.append_as_leader(batch(), -1, 0, 1_700_000_000_000)
    flush(partition)
    return partition


def test_what_lags_is_counted_and_timed(tmp_path: Path) -> None:
    first, second, clock = led(tmp_path, 0), led(tmp_path, 1), ManualClock()
    offsets = StableOffsets(lambda: (first, second), clock)

    def looked(seconds: float = 0) -> StableOffsetStatistics:
        clock.advance(int(seconds * 1000))
        asyncio.run(offsets.look())
        return offsets.statistics()

    assert looked() == StableOffsetStatistics(0, 0, 0)
    of_first, of_second = said_transactions(first), said_transactions(second)
    of_first.undecided[4] = OPEN
    assert looked(10) == StableOffsetStatistics(1, 6, 0)
    of_second.undecided[8] = OPEN
    assert looked(10) == StableOffsetStatistics(2, 6, 10_000)
    of_first.undecided.clear()
    of_first.undecided[5] = OPEN
    assert looked(10) == StableOffsetStatistics(2, 5, 10_000), "the first one moved, the second one stands still"
    of_second.undecided.clear()
    assert looked(10) == StableOffsetStatistics(1, 5, 10_000)
    first.become_follower(state(leader_id=2, leader_epoch=6), NOBODY)
    assert looked(10) == StableOffsetStatistics(0, 0, 0)
    of_second.undecided[0] = OPEN
    second.stop(UnknownTopicOrPartitionError("gone"))
    assert looked(10) == StableOffsetStatistics(0, 0, 0)


def test_those_that_stand_still_are_named_the_longest_first(tmp_path: Path) -> None:
    first, second, clock = led(tmp_path, 0), led(tmp_path, 1), ManualClock()
    offsets = StableOffsets(lambda: (first, second), clock)
    said_transactions(second).undecided[8] = OPEN
    asyncio.run(offsets.look())
    clock.advance(10_000)
    said_transactions(first).undecided[4] = OPEN
    asyncio.run(offsets.look())
    clock.advance(5_000)
    assert offsets.held_up(5_000) == [(second, 15_000), (first, 5_000)]
    assert offsets.held_up(5_001) == [(second, 15_000)] and offsets.held_up(15_001) == []


def test_records_that_are_deleted_do_not_lag(tmp_path: Path) -> None:
    partition = led(tmp_path, 0)
    said_transactions(partition).undecided[2] = OPEN
    partition.log.advance_log_start(6)
    offsets = StableOffsets(lambda: (partition,), ManualClock())
    asyncio.run(offsets.look())
    assert offsets.statistics().lag_max == 4
