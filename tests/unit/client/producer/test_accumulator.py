"""Batches open, fill, close and wait in order, within the memory given; a batch in hand is never touched by another."""

from __future__ import annotations

from types import SimpleNamespace

from penstock.client.producer.accumulator import Accumulator
from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.future import RecordFuture
from penstock.client.producer.memory import Holder, MemoryPool
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.partition_queues import AccumulatorConfig
from penstock.client.producer.pending_record import NotAppended, PendingRecord
from penstock.record.codecs import Codec
from penstock.record.reader import read_records
from penstock.types import TopicPartition
from tests.support.client_environment import pool_of, stepped_threads

TP = TopicPartition("t", 0)
NOW_MS, WALL_MS = 1_000, 1_700_000_000_000


def accumulator(batch_size: int = 100_000, linger_ms: int = 5, memory: int = 1 << 20) -> Accumulator:
    return Accumulator(AccumulatorConfig(batch_size, linger_ms, Codec.NONE), pool_of(memory), stepped_threads())


def record(value: bytes = b"v", key: bytes | None = None, timestamp_ms: int | None = None) -> PendingRecord:
    return PendingRecord.of(key, value, (("h", b"1"),) if key else (), timestamp_ms)


def append(acc: Accumulator, queue: PartitionQueue, item: PendingRecord, now_ms: int = NOW_MS) -> object:
    return acc.try_append(queue, item, now_ms, WALL_MS)


def values_of(batch: ProducerBatch) -> list[bytes | None]:
    return [r.value for r in read_records(batch.encoded or b"")]


def test_a_batch_closes_when_the_next_record_does_not_fit() -> None:
    acc = accumulator(batch_size=300)
    queue = acc.partitions.queue(TP)
    assert isinstance(append(acc, queue, record(b"a" * 150)), RecordFuture)
    assert append(acc, queue, record(b"b" * 150)) is NotAppended.BATCH_CLOSED
    assert isinstance(append(acc, queue, record(b"b" * 150)), RecordFuture)
    assert [values_of(batch) for batch in queue.ready] == [[b"a" * 150]]


def test_a_record_larger_than_a_batch_has_one_to_itself() -> None:
    acc = accumulator(batch_size=100)
    queue = acc.partitions.queue(TP)
    assert isinstance(append(acc, queue, record(b"x" * 5_000)), RecordFuture)
    assert append(acc, queue, record(b"y")) is NotAppended.BATCH_CLOSED
    assert values_of(queue.ready[0]) == [b"x" * 5_000]


def test_a_batch_is_due_after_linger_and_not_before() -> None:
    acc = accumulator(linger_ms=5)
    queue = acc.partitions.queue(TP)
    append(acc, queue, record())
    assert acc.close_due(NOW_MS + 4) == NOW_MS + 5
    assert not queue.ready
    assert acc.close_due(NOW_MS + 5) is None
    assert len(queue.ready) == 1


def test_a_flush_and_a_wait_for_memory_close_at_once() -> None:
    for hurry in (lambda acc: acc.flush(), lambda acc: acc.memory.waiting()):
        acc = accumulator(linger_ms=60_000)
        queue = acc.partitions.queue(TP)
        append(acc, queue, record())
        assert acc.memory.try_take(SimpleNamespace(granted_bytes=0), acc.memory.total_bytes // 2)
        with hurry(acc):
            acc.close_due(NOW_MS)
        assert len(queue.ready) == 1
        append(acc, acc.partitions.queue(TopicPartition("t", 1)), record())
        assert acc.close_due(NOW_MS) is not None, "when it is over, batches linger again"


def test_a_batch_grows_while_the_one_before_is_in_flight() -> None:
    acc = accumulator(linger_ms=0)
    queue = acc.partitions.queue(TP)
    queue.in_flight = [ProducerBatch(TP, WALL_MS, NOW_MS, stepped_threads())]
    append(acc, queue, record())
    acc.close_due(NOW_MS + 1_000)
    assert not queue.ready and queue.open is not None


def test_a_batch_that_a_caller_has_in_hand_is_left_for_a_moment_later() -> None:
    acc = accumulator(linger_ms=0)
    queue = acc.partitions.queue(TP)
    append(acc, queue, record())
    in_hand = queue.slot.pop()
    assert acc.close_due(NOW_MS) == NOW_MS + 1
    queue.slot.append(in_hand)
    assert acc.close_due(NOW_MS + 1) is None
    assert queue.ready[0] is in_hand


def test_memory_is_taken_by_batches_and_given_back_when_they_are_done() -> None:
    acc = accumulator(batch_size=100_000, memory=100_000)
    first, second = acc.partitions.queue(TP), acc.partitions.queue(TopicPartition("t", 1))
    assert isinstance(append(acc, first, record(b"x" * 60_000)), RecordFuture)
    assert append(acc, second, record(b"y" * 60_000)) is NotAppended.NO_MEMORY
    assert second.open is None
    acc.close_due(NOW_MS + 5)
    acc.memory.give_back(first.ready[0])
    assert acc.memory.used_bytes == 0
    assert isinstance(append(acc, second, record(b"y" * 60_000)), RecordFuture)


def test_a_record_larger_than_all_memory_waits_until_it_is_alone() -> None:
    acc = accumulator(batch_size=100, memory=1_000)
    queue = acc.partitions.queue(TP)
    assert isinstance(append(acc, queue, record(b"x" * 5_000)), RecordFuture)
    other = acc.partitions.queue(TopicPartition("t", 1))
    assert append(acc, other, record()) is NotAppended.NO_MEMORY


def test_keys_headers_and_times_may_join_a_batch_late() -> None:
    acc = accumulator(linger_ms=0)
    queue = acc.partitions.queue(TP)
    append(acc, queue, record(b"1"))
    batch = queue.slot[0]
    batch.append(b"2")  # as the short way of send does
    batch.next_future()
    append(acc, queue, record(b"3", key=b"k", timestamp_ms=WALL_MS + 7))
    batch.append(b"4")
    acc.close_due(NOW_MS)
    found = read_records(queue.ready[0].encoded or b"")
    assert [(r.key, r.value, r.timestamp_ms, r.headers) for r in found] == [
        (None, b"1", WALL_MS, ()),
        (None, b"2", WALL_MS, ()),
        (b"k", b"3", WALL_MS + 7, (("h", b"1"),)),
        (None, b"4", WALL_MS, ()),
    ]


def test_records_without_a_key_stick_to_one_partition_until_its_batch_closes() -> None:
    acc = accumulator(linger_ms=0)
    first = acc.partitions.sticky_queue("t", [0, 1, 2], None)
    append(acc, first, record())
    assert acc.partitions.sticky_queue("t", [0, 1, 2], None) is first
    acc.close_due(NOW_MS)
    assert acc.partitions.sticky_queue("t", [0, 1, 2], None) is not first


def test_a_bulk_batch_goes_behind_what_was_sent_before() -> None:
    acc = accumulator()
    queue = acc.partitions.queue(TP)
    append(acc, queue, record(b"first"))
    bulk = ProducerBatch(TP, WALL_MS, NOW_MS, stepped_threads())
    bulk.set_encoded(b"bulk", 1)
    acc.append_bulk(queue, bulk)
    assert values_of(queue.ready[0]) == [b"first"]
    assert queue.ready[1] is bulk


def test_the_topics_own_limit_bounds_a_batch() -> None:
    acc = accumulator(batch_size=100_000)
    assert acc.partitions.queue(TP, 1_000).limit_bytes < 1_000


def test_unfinished_sees_open_closed_and_in_flight() -> None:
    acc = accumulator(linger_ms=0)
    queue = acc.partitions.queue(TP)
    for _ in range(3):
        append(acc, queue, record())
        batch = queue.open
        if not queue.in_flight:
            acc.close_due(NOW_MS)
            queue.in_flight = [queue.ready.popleft()]
            assert queue.in_flight == [batch]
    assert len(acc.partitions.unfinished()) == 2
    for batch in acc.partitions.unfinished():
        batch.finish(0, -1)
    assert acc.partitions.unfinished() == []


def test_a_flush_waits_for_no_batch_that_its_caller_drops_for_lack_of_memory() -> None:
    found: list[ProducerBatch] = []

    class PoolMeanwhile(MemoryPool):
        """While it is asked for memory, another thread flushes."""

        def try_take(self, holder: Holder, size_bytes: int, *, must: bool = True) -> bool:
            found.extend(acc.partitions.unfinished())
            return super().try_take(holder, size_bytes, must=must)

    threads = stepped_threads()
    acc = Accumulator(AccumulatorConfig(100_000, 5, Codec.NONE), PoolMeanwhile(100_000, threads), threads)
    assert isinstance(append(acc, acc.partitions.queue(TP), record(b"x" * 60_000)), RecordFuture)
    other = acc.partitions.queue(TopicPartition("t", 1))
    assert append(acc, other, record(b"y" * 60_000)) is NotAppended.NO_MEMORY
    assert {batch.topic_partition for batch in found} == {TP}


def test_an_idle_partition_is_not_looked_at() -> None:
    acc = accumulator(linger_ms=0)
    queue = acc.partitions.queue(TP)
    assert acc.partitions.queues() == ()
    append(acc, queue, record())
    acc.close_due(NOW_MS)
    assert acc.partitions.queues() == (queue,)
    queue.ready.clear()
    acc.close_due(NOW_MS)
    assert acc.partitions.queues() == ()
    append(acc, queue, record())
    assert acc.partitions.queues() == (queue,)


def test_a_partition_is_not_taken_for_idle_while_somebody_may_be_opening_a_batch() -> None:
    acc = accumulator(linger_ms=0)
    queue = acc.partitions.queue(TP)
    append(acc, queue, record())
    acc.close_due(NOW_MS)
    queue.ready.clear()
    with acc._opening:  # a caller's thread is here
        acc.close_due(NOW_MS)
        assert acc.partitions.queues() == (queue,), "the flush of that caller has to find its batch"
    acc.close_due(NOW_MS)
    assert acc.partitions.queues() == ()
