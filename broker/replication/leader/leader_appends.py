"""Appends to partitions that this broker leads, and word of when their records are as durable as was asked for.

The only way of new records into a led partition: of clients (apis/producing/produce.py), and of the parts of this
broker that keep their state in a log. An append that is refused raises, and nothing was written. After one that was
made, `waiter` is called once:

    None     acks=1: this broker's disk has the records; acks=all: they are committed, which no clean election undoes
    error    nobody knows yet whether they will be. The lead was lost, or the topic deleted: NOT_ENOUGH_REPLICAS_AFTER_
             APPEND with the new leader if it is known, because an error that says "nothing was written" would be wrong.
             The ISR is too small for acks=all: the same without a leader. The disk failed: KAFKA_STORAGE_ERROR

`waiter` must not raise, and may be called before `when_acked` returns: a duplicate's records may be committed already.
Not here: time-outs (a caller takes `waiter` out of `waiters_of`), and the rule which topics a client may write to.
"""

from __future__ import annotations

from typing import Final, Protocol

from broker.replication.leader.purgatory import OffsetWaiters, Waiter
from broker.replication.partition import Partition
from broker.replication.replica_statistics import Traffic
from penstock.clock import Clock
from penstock.record.batch import Buffer
from storage.append.append_info import AppendInfo
from storage.append.append_origin import AppendOrigin

ACKS_ALL: Final = -1


class Flushes(Protocol):
    """Makes appended records durable; see durability.py."""

    def request_flush(self, partition: Partition) -> None: ...


def waiters_of(partition: Partition, acks: int) -> OffsetWaiters:
    """The waiters for an append with these acks, 1 or all."""
    return partition.acks_all if acks == ACKS_ALL else partition.acks_one


class LeaderAppends:
    """Appends to led partitions. There is one per user of logs, on the event loop."""

    def __init__(self, flushes: Flushes, traffic: Traffic, clock: Clock) -> None:
        """`traffic` counts appended records and bytes."""
        self._flushes, self._traffic, self._clock = flushes, traffic, clock

    def append(self, partition: Partition, records: Buffer, acks: int, origin: AppendOrigin) -> AppendInfo:
        """Append to the page cache, or answer a duplicate; `when_acked` must follow. Raises if nothing was written."""
        info = partition.append_as_leader(records, acks, self._clock.now_ms(), self._clock.wall_ms(), origin)
        if not info.is_duplicate:
            self._traffic.count_in(partition.topic_partition.topic, info.size_bytes, info.record_count)
        return info

    def answer_duplicate(self, partition: Partition, records: Buffer, acks: int) -> AppendInfo | None:
        """The answer to records that were refused before, as `append` gives it; None if they are no duplicate."""
        leading = partition.leader_state()
        info = partition.log.producers.answer_duplicate(records)
        if info is not None:
            partition.must_have_enough(leading, acks)
        return info

    def when_acked(self, partition: Partition, info: AppendInfo, acks: int, waiter: Waiter | None) -> None:
        """Have the records flushed, and call `waiter` as the module says; None with acks=0."""
        if waiter is not None:
            waiters_of(partition, acks).add(info.last_offset + 1, waiter)
            if info.is_duplicate:  # its records may have been acked before
                partition.acks_one.reached(partition.log.flushed_offset)
                partition.acks_all.reached(partition.high_watermark)
        self._flushes.request_flush(partition)

    def __repr__(self) -> str:
        return f"LeaderAppends({self._traffic!r})"
