"""One request per broker, one batch per partition in flight, order kept under retries, every error answered."""

from __future__ import annotations

from random import Random

import pytest

from penstock.backoff import Backoff
from penstock.client.cluster.metadata_cache import MetadataCache
from penstock.client.producer.accumulator import Accumulator
from penstock.client.producer.future import RecordFuture
from penstock.client.producer.partition_queues import AccumulatorConfig
from penstock.client.producer.pending_record import PendingRecord
from penstock.client.producer.sending.dispatcher import BatchDispatcher
from penstock.client.producer.sending.failed_batches import DispatchLimits
from penstock.client.producer.sending.given_up_batches import abandon, give_up
from penstock.client.producer.sending.outcomes import Acked, Again, Failed, OutboundRequest
from penstock.errors import (
    ApiError,
    LeaderNotAvailableError,
    MessageTooLargeError,
    NetworkError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RecordListTooLargeError,
    RequestTimedOutError,
    ResourceExhaustedError,
    TimedOutError,
    UnknownServerError,
)
from penstock.messages.metadata import BrokerInfo, MetadataResponse, PartitionInfo, TopicInfo
from penstock.messages.produce import PartitionProduceResult, ProduceResponse
from penstock.record.codecs import Codec
from penstock.types import Endpoint, LeaderHint, TopicPartition
from tests.support.client_environment import pool_of, stepped_threads

NOW_MS = 1_000


class Bench:
    """Partitions 0 and 2 are led by node 1, partition 1 by node 2, partition 3 by nobody."""

    def __init__(self, delivery_timeout_ms: int = 10_000, retries: int = 1_000) -> None:
        self.cache = MetadataCache()
        leaders = (1, 2, 1, -1)
        offline = LeaderNotAvailableError("no leader: start broker 7")
        partitions = tuple(
            PartitionInfo(p, leader, 0, 0, (leader,), (), offline if leader < 0 else None)
            for p, leader in enumerate(leaders)
        )
        brokers = (BrokerInfo(1, "a", 1), BrokerInfo(2, "b", 2))
        self.cache.update(MetadataResponse("c", 1, brokers, (TopicInfo("t", "id", partitions),), 0), 0)
        self.accumulator = Accumulator(AccumulatorConfig(10_000, 0, Codec.NONE), pool_of(1 << 30), stepped_threads())
        limits = DispatchLimits(delivery_timeout_ms, 1_000, retries, Backoff(100, 1_000, Random(0)))
        self.dispatcher = BatchDispatcher(self.accumulator, self.cache, limits)

    def add(self, partition: int, value: bytes = b"v") -> None:
        queue = self.accumulator.partitions.queue(TopicPartition("t", partition))
        self.accumulator.try_append(queue, PendingRecord.of(None, value, (), None), NOW_MS, 0)
        busy, queue.in_flight = queue.in_flight, []
        ready = list(queue.ready)
        queue.ready.clear()
        self.accumulator.close_due(NOW_MS)
        queue.ready.extendleft(reversed(ready))
        queue.in_flight = busy

    def elect(self, partition: int, leader: int, epoch: int) -> None:
        elected = tuple(
            PartitionInfo(p.partition, leader, epoch, 0, p.replicas, ()) if p.partition == partition else p
            for p in self.cache.topic("t").partitions  # type: ignore[union-attr]
        )
        snapshot = MetadataResponse("c", 1, self.cache.brokers, (TopicInfo("t", "id", elected),), 0)
        self.cache.update(snapshot, NOW_MS)

    def drain(self, now_ms: int = NOW_MS) -> list[OutboundRequest]:
        return self.dispatcher.drain(now_ms, lambda node: True)


def parts(request: OutboundRequest) -> list[int]:
    return [queue.topic_partition.partition for queue, _ in request.entries]


def answer(request: OutboundRequest, *errors: ApiError | None) -> ProduceResponse:
    results = tuple(
        PartitionProduceResult(queue.topic_partition, error, 40)
        for (queue, _), error in zip(request.entries, errors, strict=True)
    )
    return ProduceResponse(results)


def test_one_request_carries_every_partition_of_its_broker() -> None:
    bench = Bench()
    for partition in (0, 1, 2):
        bench.add(partition)
    requests = {request.node_id: parts(request) for request in bench.drain()}
    assert requests == {1: [0, 2], 2: [1]}


def test_a_second_batch_of_a_partition_waits_for_the_first() -> None:
    bench = Bench()
    bench.add(0, b"1")
    (first,) = bench.drain()
    bench.add(0, b"2")
    assert bench.drain() == []
    (acked,) = bench.dispatcher.on_answer(first, answer(first, None), NOW_MS)
    assert isinstance(acked, Acked) and acked.base_offset == 40
    (second,) = bench.drain()
    assert second.entries[0][1] is not first.entries[0][1]


def test_a_retried_batch_goes_before_the_ones_behind_it_and_after_its_back_off() -> None:
    bench = Bench()
    bench.add(0, b"1")
    (first,) = bench.drain()
    bench.add(0, b"2")
    (again,) = bench.dispatcher.on_answer(first, answer(first, NotEnoughReplicasError()), NOW_MS)
    assert isinstance(again, Again)
    assert bench.drain(NOW_MS) == []
    assert bench.dispatcher.next_ms is not None and bench.dispatcher.next_ms > NOW_MS
    (retry,) = bench.drain(bench.dispatcher.next_ms)
    assert retry.entries[0][1] is again.batch
    assert again.batch.unknown_attempts == 0


def test_a_leader_hint_is_followed_at_once() -> None:
    bench = Bench()
    bench.add(0)
    (first,) = bench.drain()
    error = NotLeaderOrFollowerError("moved", leader=LeaderHint(2, 1, Endpoint("b", 2), "id"))
    bench.dispatcher.on_answer(first, answer(first, error), NOW_MS)
    assert not bench.dispatcher.wishes.take_metadata()
    (retry,) = bench.drain(NOW_MS)
    assert retry.node_id == 2


def test_without_a_hint_metadata_is_wanted() -> None:
    bench = Bench()
    bench.add(0)
    (first,) = bench.drain()
    bench.dispatcher.on_answer(first, answer(first, NotLeaderOrFollowerError()), NOW_MS)
    assert bench.dispatcher.wishes.take_metadata()


def test_a_back_off_ends_when_another_leader_is_known() -> None:
    bench = Bench()
    bench.add(0)
    (first,) = bench.drain()
    bench.dispatcher.on_error(first, NetworkError(), NOW_MS)
    assert bench.drain(NOW_MS) == []
    bench.elect(0, leader=2, epoch=1)
    (retry,) = bench.drain(NOW_MS)
    assert retry.node_id == 2
    bench.dispatcher.on_error(retry, NetworkError(), NOW_MS)
    assert bench.drain(NOW_MS) == [], "the new leader has its back-off too"


def test_while_the_leader_may_be_gone_metadata_is_asked_for_during_the_back_off() -> None:
    bench = Bench()
    bench.add(0)
    (attempt,) = bench.drain()
    bench.dispatcher.on_error(attempt, NetworkError(), NOW_MS)
    for _ in range(3):  # a third back-off is longer than the first, by which metadata is asked for
        queue, _ = attempt.entries[0]
        (attempt,) = bench.drain(queue.not_before_ms)
        bench.dispatcher.on_error(attempt, NetworkError(), NOW_MS)
    bench.dispatcher.wishes.take_metadata()
    assert bench.drain(NOW_MS) == []
    assert bench.dispatcher.wishes.take_metadata()
    assert bench.dispatcher.next_ms == NOW_MS + 100


def test_a_partition_without_leader_waits_and_asks_for_metadata() -> None:
    bench = Bench()
    bench.add(3)
    assert bench.drain() == []
    assert bench.dispatcher.wishes.take_metadata()


def test_an_error_that_no_retry_mends_fails_its_batch_alone() -> None:
    bench = Bench()
    bench.add(0)
    bench.add(2)
    (request,) = bench.drain()
    failed, acked = bench.dispatcher.on_answer(request, answer(request, MessageTooLargeError(), None), NOW_MS)
    assert isinstance(failed, Failed) and isinstance(failed.error, MessageTooLargeError)
    assert isinstance(acked, Acked)


@pytest.mark.parametrize(
    "error", [NetworkError("broken"), RequestTimedOutError("slow"), ResourceExhaustedError("full")]
)
def test_a_broken_connection_retries_and_counts_as_maybe_written(error: ApiError) -> None:
    bench = Bench()
    bench.add(0)
    (request,) = bench.drain()
    (again,) = bench.dispatcher.on_broken([request], error, NOW_MS)
    assert isinstance(again, Again) and again.batch.unknown_attempts == 1


def test_a_request_that_is_too_large_for_the_broker_is_sent_in_smaller_ones_and_fails_no_batch() -> None:
    bench = Bench()
    bench.add(0, b"x" * 1_000)
    bench.add(2, b"x" * 1_000)
    (request,) = bench.drain()
    outcomes = bench.dispatcher.on_broken([request], MessageTooLargeError("larger than max"), NOW_MS)
    assert [type(outcome) for outcome in outcomes] == [Again, Again]
    (smaller,) = bench.drain(NOW_MS + 1_000)
    (other,) = bench.drain(NOW_MS + 1_000)
    assert len(smaller.entries) == len(other.entries) == 1


def test_a_batch_that_is_too_large_for_the_broker_takes_no_other_request_of_the_connection_with_it() -> None:
    bench = Bench()
    bench.add(0, b"x" * 1_000)
    (large,) = bench.drain()
    bench.add(2, b"x")
    (small,) = bench.drain()
    outcomes = bench.dispatcher.on_broken([large, small], MessageTooLargeError("larger than max"), NOW_MS)
    assert [type(outcome) for outcome in outcomes] == [Failed, Again]


def test_retries_end_with_the_delivery_time_out_and_tell_the_last_error() -> None:
    bench = Bench(delivery_timeout_ms=1_000)
    bench.add(0)
    (request,) = bench.drain()
    (again,) = bench.dispatcher.on_error(request, NetworkError("node a is down"), NOW_MS + 990)
    assert isinstance(again, Again), "not before its time is over, though the back-off would end later"
    assert bench.drain(NOW_MS + 999) == [] and bench.dispatcher.failures.expire(NOW_MS + 999) == []
    (failed,) = bench.dispatcher.failures.expire(NOW_MS + 1_000)
    assert isinstance(failed, Failed) and isinstance(failed.error, TimedOutError)
    assert "delivery_timeout_ms=1000" in str(failed.error) and "node a is down" in str(failed.error)
    assert "may be written" in str(failed.error) and not failed.error.nothing_written


def test_why_a_broker_refused_is_told_when_it_has_not_answered_the_last_attempt() -> None:
    bench = Bench(delivery_timeout_ms=900)
    bench.add(0)
    (request,) = bench.drain()
    bench.dispatcher.on_answer(request, answer(request, NotEnoughReplicasError("the disk is full")), NOW_MS)
    bench.drain(NOW_MS + 500)
    (failed,) = bench.dispatcher.failures.expire(NOW_MS + 900)
    assert isinstance(failed, Failed) and isinstance(failed.error, TimedOutError)
    message = "the last error: the disk is full; the last attempt had no answer: broker 1 at a:1 has not answered"
    assert message in str(failed.error) and not failed.error.nothing_written


@pytest.mark.parametrize("first", [NetworkError("broken"), NotEnoughReplicasError("few")])
def test_a_record_is_said_to_be_unwritten_only_if_no_attempt_may_have_written_it(first: ApiError) -> None:
    bench = Bench()
    bench.add(0)
    (request,) = bench.drain()
    bench.dispatcher.on_answer(request, answer(request, first), NOW_MS)
    (request,) = bench.drain(NOW_MS + 1_000)
    (failed,) = bench.dispatcher.on_answer(request, answer(request, MessageTooLargeError("too large")), NOW_MS + 1_000)
    assert isinstance(failed, Failed) and isinstance(failed.error, MessageTooLargeError)
    assert failed.error.nothing_written is first.nothing_written
    assert ("may have written" in str(failed.error)) is not first.nothing_written


def test_retries_are_bounded_by_their_number_too() -> None:
    bench = Bench(retries=0)
    bench.add(0)
    (request,) = bench.drain()
    (failed,) = bench.dispatcher.on_error(request, NetworkError("x"), NOW_MS)
    assert isinstance(failed, Failed) and isinstance(failed.error, NetworkError)


def test_what_waits_too_long_without_a_leader_fails() -> None:
    bench = Bench(delivery_timeout_ms=1_000)
    bench.add(3)
    assert bench.dispatcher.failures.expire(NOW_MS + 999) == []
    (failed,) = bench.dispatcher.failures.expire(NOW_MS + 1_000)
    assert isinstance(failed, Failed) and "was not written" in str(failed.error) and failed.error.nothing_written
    assert "start broker 7" in str(failed.error)


def test_what_is_not_answered_fails_at_the_delivery_time_out_and_the_next_batch_follows() -> None:
    bench = Bench(delivery_timeout_ms=900)  # the limit of the request is later: 1,000 ms
    bench.add(0, b"1")
    (request,) = bench.drain()
    assert bench.dispatcher.failures.expire(NOW_MS + 899) == []
    (failed,) = bench.dispatcher.failures.expire(NOW_MS + 900)
    assert isinstance(failed, Failed) and isinstance(failed.error, TimedOutError)
    assert "the batch may be written); the last error: broker 1 at a:1 has not answered" in str(failed.error)
    bench.add(0, b"2")
    (second,) = bench.drain(NOW_MS + 900)
    assert bench.dispatcher.on_answer(request, answer(request, None), NOW_MS + 901) == []
    assert [type(o) for o in bench.dispatcher.on_answer(second, answer(second, None), NOW_MS + 902)] == [Acked]


@pytest.mark.parametrize("error", [MessageTooLargeError("of the topic"), RecordListTooLargeError("of a segment")])
def test_a_batch_that_is_too_large_is_halved_in_place(error: ApiError) -> None:
    bench = Bench()
    queue = bench.accumulator.partitions.queue(TopicPartition("t", 0))
    futures = []
    for n in range(5):
        record = PendingRecord.of(b"k%d" % n, b"%d" % n, (("h", b"1"),), 100 + n)
        futures.append(bench.accumulator.try_append(queue, record, NOW_MS, 0))
    bench.accumulator.close_due(NOW_MS)
    (request,) = bench.drain()
    bench.add(0, b"behind")
    (again,) = bench.dispatcher.on_answer(request, answer(request, error), NOW_MS)
    assert isinstance(again, Again)
    sizes = []
    while requests := bench.drain():
        sizes.append(requests[0].entries[0][1].record_count)
        (acked,) = bench.dispatcher.on_answer(requests[0], answer(requests[0], None), NOW_MS)
        assert isinstance(acked, Acked)
        acked.batch.finish(sum(sizes[:-1]), -1)
    assert sizes == [2, 3, 1]
    found = [future.result(0) for future in futures if isinstance(future, RecordFuture)]
    assert [(m.offset, m.timestamp_ms) for m in found] == [(n, 100 + n) for n in range(5)]


def test_the_halves_of_a_batch_may_fare_differently() -> None:
    bench = Bench()
    queue = bench.accumulator.partitions.queue(TopicPartition("t", 0))
    item = PendingRecord.of(None, b"v", (), None)
    first, second = (bench.accumulator.try_append(queue, item, NOW_MS, 0) for _ in range(2))
    assert isinstance(first, RecordFuture) and isinstance(second, RecordFuture)
    bench.accumulator.close_due(NOW_MS)
    (request,) = bench.drain()
    bench.dispatcher.on_answer(request, answer(request, MessageTooLargeError()), NOW_MS)
    queue.ready[0].finish(7, -1)
    assert not first.done()
    queue.ready[1].fail(MessageTooLargeError("one record is too large"))
    assert first.result(0).offset == 7 and isinstance(second.exception(0), MessageTooLargeError)


def test_a_broker_that_is_full_gets_nothing_more() -> None:
    bench = Bench()
    bench.add(0)
    assert bench.dispatcher.drain(NOW_MS, lambda node: False) == []
    assert len(bench.drain()) == 1


def test_an_answer_of_the_wrong_shape_is_an_error() -> None:
    bench = Bench()
    bench.add(0)
    (request,) = bench.drain()
    (failed,) = bench.dispatcher.on_answer(request, ProduceResponse(), NOW_MS)
    assert isinstance(failed, Failed) and isinstance(failed.error, UnknownServerError)


def test_an_answer_about_other_partitions_acks_nothing() -> None:
    bench = Bench()
    bench.add(0)
    bench.add(2)
    (request,) = bench.drain()
    right = answer(request, None, None)
    outcomes = bench.dispatcher.on_answer(request, ProduceResponse(right.partitions[::-1]), NOW_MS)
    assert [isinstance(outcome, Failed) and str(outcome.error) for outcome in outcomes] == [
        "the answer speaks of 2 partitions from t-2 on, the request of 2 partitions from t-0 on"
    ] * 2


def test_closing_fails_what_is_left_and_says_whether_it_may_be_written() -> None:
    bench = Bench()
    bench.add(0)
    (request,) = bench.drain()
    bench.add(3)
    (asked,), (left,) = give_up(request), abandon(bench.accumulator.partitions.queues())
    assert isinstance(asked, Failed) and isinstance(left, Failed)
    assert "closed before 1 records were acked (1 attempts; the batch may be written)" in str(asked.error)
    assert "closed before 1 records were acked (0 attempts; the batch was not written)" in str(left.error)
    assert (asked.error.nothing_written, left.error.nothing_written) == (False, True)


def test_a_request_names_no_more_partitions_than_a_broker_takes() -> None:
    bench = Bench()
    partitions = tuple(PartitionInfo(p, 1, 0, 0, (1,), ()) for p in range(2_001))
    snapshot = MetadataResponse("c", 1, (BrokerInfo(1, "a", 1),), (TopicInfo("wide", "id2", partitions),), 1)
    bench.cache.update(snapshot, 0)
    for partition in range(2_001):
        queue = bench.accumulator.partitions.queue(TopicPartition("wide", partition))
        bench.accumulator.try_append(queue, PendingRecord.of(None, b"v", (), None), NOW_MS, 0)
    bench.accumulator.close_due(NOW_MS)
    assert [len(request.entries) for request in bench.drain()] == [2_000]
    assert [len(request.entries) for request in bench.drain()] == [1]


def part(request: OutboundRequest, *partitions: int, more_follows: bool = True) -> ProduceResponse:
    """Acks of these partitions."""
    results = tuple(PartitionProduceResult(TopicPartition("t", partition), None, 40) for partition in partitions)
    return ProduceResponse(results, more_follows)


def test_parts_of_an_answer_ack_what_they_name_in_any_order() -> None:
    bench = Bench()
    bench.add(0)
    bench.add(2)
    (request,) = bench.drain()
    assert bench.dispatcher.on_answer(request, part(request), NOW_MS) == []
    (acked,) = bench.dispatcher.on_answer(request, part(request, 2), NOW_MS)
    assert isinstance(acked, Acked) and acked.batch.topic_partition.partition == 2
    assert [batch.topic_partition.partition for _, batch in request.pending()] == [0]
    (acked,) = bench.dispatcher.on_answer(request, part(request, 0, more_follows=False), NOW_MS)
    assert isinstance(acked, Acked) and not request.pending()


@pytest.mark.parametrize(
    ("partitions", "more_follows"),
    [((1,), True), ((0, 0), True), ((2,), True), ((), False), ((0, 1), False)],
    ids=["not asked", "twice", "told before", "the rest is missing", "more than asked"],
)
def test_a_part_that_does_not_fit_fails_what_is_open(partitions: tuple[int, ...], more_follows: bool) -> None:
    bench = Bench()
    bench.add(0)
    bench.add(2)
    (request,) = bench.drain()
    bench.dispatcher.on_answer(request, part(request, 2), NOW_MS)
    bad = part(request, *partitions, more_follows=more_follows)
    (failed,) = bench.dispatcher.on_answer(request, bad, NOW_MS)
    assert isinstance(failed, Failed) and isinstance(failed.error, UnknownServerError)
    assert failed.batch.topic_partition.partition == 0


def test_a_request_that_was_answered_in_part_is_not_the_one_that_was_too_large() -> None:
    bench = Bench()
    bench.add(0, b"v" * 500)
    (first,) = bench.drain()
    bench.dispatcher.on_answer(first, part(first), NOW_MS)
    bench.add(2)
    (second,) = bench.drain()
    outcomes = bench.dispatcher.on_broken([first, second], MessageTooLargeError("over the limit"), NOW_MS)
    assert [type(outcome) for outcome in outcomes] == [Again, Failed]
