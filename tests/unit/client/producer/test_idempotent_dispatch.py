"""The dispatcher and the batches of an idempotent producer, beyond their sequences."""

from __future__ import annotations

from random import Random

import pytest

from penstock.backoff import Backoff
from penstock.client.cluster.metadata_cache import MetadataCache
from penstock.client.producer.accumulator import Accumulator
from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.partition_queues import AccumulatorConfig
from penstock.client.producer.sending.dispatcher import BatchDispatcher
from penstock.client.producer.sending.failed_batches import DispatchLimits
from penstock.client.producer.sending.outcomes import Acked, Again, Failed, OutboundRequest
from penstock.client.producer.stalled import producer_waits
from penstock.errors import (
    ApiError,
    InvalidProducerEpochError,
    InvalidRecordError,
    MessageTooLargeError,
    NetworkError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceError,
    RequestTimedOutError,
    TimedOutError,
    UnsupportedVersionError,
)
from penstock.messages.metadata import BrokerInfo, MetadataResponse, PartitionInfo, TopicInfo
from penstock.messages.produce import PartitionProduceResult, ProduceResponse
from penstock.record.batch import read_header, verify_crc
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.types import ProducerIdAndEpoch, TopicPartition
from tests.support.client_environment import pool_of, stepped_threads

NOW_MS = 1_000
ID = 7


class Bench:
    """Partitions 0 and 1, led by node 1; node 2 may lead later."""

    def __init__(self, retries: int = 1_000, producer_id: int | None = ID) -> None:
        self.cache = MetadataCache()
        self.metadata_offset = 0
        self.lead(1, 0)
        config = AccumulatorConfig(10_000, 0, Codec.NONE, idempotent_in_flight_max=5)
        self.accumulator = Accumulator(config, pool_of(1 << 30), stepped_threads())
        limits = DispatchLimits(10_000, 1_000, retries, Backoff(100, 1_000, Random(0)))
        self.dispatcher = BatchDispatcher(self.accumulator, self.cache, limits)
        if producer_id is not None:
            self.dispatcher.on_producer_id(ProducerIdAndEpoch(producer_id, 0))

    def lead(self, node: int, epoch: int) -> None:
        self.metadata_offset += 1
        partitions = tuple(PartitionInfo(p, node, epoch, 0, (1, 2), ()) for p in range(2))
        brokers = (BrokerInfo(1, "a", 1), BrokerInfo(2, "b", 2))
        topic = TopicInfo("t", "id", partitions)
        self.cache.update(MetadataResponse("c", 1, brokers, (topic,), self.metadata_offset), 0)

    def add(self, count: int = 1, partition: int = 0, created_ms: int = NOW_MS) -> ProducerBatch:
        tp = TopicPartition("t", partition)
        batch = ProducerBatch(tp, 0, created_ms, stepped_threads())
        batch.set_encoded(build_batch([b"v"] * count, timestamps_ms=0), count)
        self.accumulator.append_bulk(self.accumulator.partitions.queue(tp), batch)
        return batch

    def drain(self, now_ms: int = NOW_MS) -> list[OutboundRequest]:
        """All that may be sent now."""
        found: list[OutboundRequest] = []
        while requests := self.dispatcher.drain(now_ms, lambda node: True):
            found += requests
        return found

    def answer(self, request: OutboundRequest, error: ApiError | None = None) -> Acked | Failed | Again:
        (queue, _) = request.entries[0]
        result = PartitionProduceResult(queue.topic_partition, error, 40)
        (outcome,) = self.dispatcher.on_answer(request, ProduceResponse([result]), NOW_MS)
        return outcome


def triple(batch: ProducerBatch) -> tuple[int, int, int]:
    """Producer id, epoch and sequence of the bytes."""
    data = batch.encoded or b""
    header = read_header(data)
    assert verify_crc(data, 0, header)
    return header.producer_id, header.producer_epoch, header.base_sequence


def test_five_batches_of_a_partition_go_out_each_in_a_request_of_its_own() -> None:
    bench = Bench()
    batches = [bench.add(2) for _ in range(6)]
    requests = bench.drain()
    assert [[batch for _, batch in request.entries] for request in requests] == [[batch] for batch in batches[:5]]
    assert [triple(batch) for batch in batches[:5]] == [(ID, 0, 2 * n) for n in range(5)]
    bench.answer(requests[0])
    assert bench.drain()[0].entries[0][1] is batches[5]


def test_partitions_share_requests() -> None:
    bench = Bench()
    for partition in (0, 1, 0):
        bench.add(partition=partition)
    assert [len(request.entries) for request in bench.drain()] == [2, 1]


def test_without_a_producer_id_a_batch_waits_and_says_so() -> None:
    bench = Bench(producer_id=None)
    batch = bench.add()
    assert bench.drain() == [] and bench.dispatcher.wishes.take_producer_id()
    (wait,) = producer_waits(bench.accumulator.partitions.queues(), bench.cache, -1)
    assert wait.reason == "a producer id, which brokers get from the controller"
    bench.dispatcher.on_no_producer_id(NetworkError("refused"), is_final=False)
    (failed,) = bench.dispatcher.failures.expire(NOW_MS + 10_000)
    assert isinstance(failed, Failed) and "has given no producer id: refused" in str(failed.error)
    assert failed.batch is batch


def test_a_producer_id_that_is_refused_for_good_fails_what_waits_for_it() -> None:
    bench = Bench(producer_id=None)
    bench.add()
    bench.add(partition=1)
    bench.drain()
    error = UnsupportedVersionError("an older broker")
    assert [outcome.error for outcome in bench.dispatcher.on_no_producer_id(error, is_final=True)] == [error] * 2  # type: ignore[union-attr]
    bench.dispatcher.on_producer_id(ProducerIdAndEpoch(ID, 0))
    bench.add()
    assert len(bench.drain()) == 1


def test_no_further_producer_id_does_not_say_that_an_earlier_attempt_wrote_nothing() -> None:
    bench = Bench()
    batch = bench.add()
    (request,) = bench.drain()
    bench.dispatcher.on_broken([request], NetworkError("broken"), NOW_MS)
    (request,) = bench.drain(NOW_MS + 1_000)
    bench.answer(request, InvalidProducerEpochError("another producer has the id"))
    assert not bench.drain(NOW_MS + 2_000) and bench.dispatcher.wishes.take_producer_id()
    older = UnsupportedVersionError("the broker is older")
    (failed,) = bench.dispatcher.on_no_producer_id(older, is_final=True)
    assert isinstance(failed, Failed) and failed.batch is batch and isinstance(failed.error, UnsupportedVersionError)
    assert older.nothing_written and not failed.error.nothing_written


def test_batches_that_failed_together_go_back_in_their_order_and_are_sent_one_by_one() -> None:
    bench = Bench()
    batches = [bench.add() for _ in range(3)]
    requests = bench.drain()
    bench.answer(requests[1], NotEnoughReplicasError())
    bench.dispatcher.on_broken((requests[2], requests[0]), NetworkError(), NOW_MS)
    for batch in batches:
        (request,) = bench.drain(NOW_MS + 1_000)
        assert request.entries[0][1] is batch
        assert isinstance(bench.answer(request), Acked)
    assert [triple(batch)[2] for batch in batches] == [0, 1, 2]
    assert all(batch.possible_duplicates(is_acked=True) == 0 for batch in batches)


def test_a_new_leader_gets_nothing_while_the_old_one_has_a_batch() -> None:
    bench = Bench()
    bench.add()
    (request,) = bench.drain()
    bench.lead(2, 1)
    bench.add()
    assert bench.drain() == []
    bench.dispatcher.take_back(request, NOW_MS)
    (again,) = bench.drain()
    assert again.node_id == 2 and again.entries == request.entries
    bench.answer(again)
    assert [request.node_id for request in bench.drain()] == [2]


def test_a_batch_that_waits_for_an_older_one_has_used_no_attempt() -> None:
    bench = Bench(retries=1)
    first, second = bench.add(), bench.add()
    requests = bench.drain()
    bench.answer(requests[0], NotLeaderOrFollowerError())
    assert isinstance(bench.answer(requests[1], OutOfOrderSequenceError()), Again)
    assert (first.attempts, second.attempts) == (1, 0)


def test_the_back_off_is_that_of_the_oldest_batch() -> None:
    bench = Bench()
    for _ in range(2):
        bench.add()
    requests = bench.drain()
    bench.answer(requests[0], NotEnoughReplicasError())
    queue, _ = requests[0].entries[0]
    until_ms = queue.not_before_ms
    bench.answer(requests[1], OutOfOrderSequenceError())
    assert queue.not_before_ms == until_ms > NOW_MS


def test_a_first_new_epoch_begins_at_once_and_the_next_one_after_a_back_off() -> None:
    bench = Bench()
    batch = bench.add()
    for epoch in (0, 1):
        (request,) = bench.drain()
        assert triple(batch) == (ID, epoch, 0)
        assert isinstance(bench.answer(request, OutOfOrderSequenceError()), Again)
    assert bench.drain() == []
    bench.drain(NOW_MS + 1_000)
    assert triple(batch) == (ID, 2, 0)


def test_retries_bound_new_epochs() -> None:
    bench = Bench(retries=1)
    bench.add()
    (request,) = bench.drain()
    bench.answer(request, OutOfOrderSequenceError())
    (request,) = bench.drain()
    assert isinstance(bench.answer(request, OutOfOrderSequenceError()), Failed)


def test_what_a_partition_has_left_follows_a_refused_record_in_a_new_epoch() -> None:
    bench = Bench()
    batches = [bench.add() for _ in range(3)]
    requests = bench.drain()
    assert isinstance(bench.answer(requests[0], InvalidRecordError()), Failed)
    assert bench.drain() == [], "the others are with the broker"
    for request in requests[1:]:
        assert isinstance(bench.answer(request, OutOfOrderSequenceError()), Again)
    for sequence, batch in enumerate(batches[1:]):
        (request,) = bench.drain()
        assert request.entries[0][1] is batch and triple(batch) == (ID, 1, sequence)
        bench.answer(request)


def test_the_halves_of_a_batch_keep_its_sequences() -> None:
    bench = Bench()
    bench.add(2)
    bench.add(5)
    behind = bench.add()
    first, large, last = bench.drain()
    bench.answer(first)
    bench.answer(large, MessageTooLargeError())
    bench.answer(last, OutOfOrderSequenceError())
    found = []
    while requests := bench.drain():
        batch = requests[0].entries[0][1]
        found.append((triple(batch), batch.record_count))
        bench.answer(requests[0])
    assert found == [((ID, 0, 2), 2), ((ID, 0, 4), 3), ((ID, 0, 7), 1)]
    assert triple(behind) == (ID, 0, 7)


def test_what_is_written_in_two_epochs_is_counted() -> None:
    bench = Bench()
    batch = bench.add(3)
    (request,) = bench.drain()
    bench.dispatcher.on_broken((request,), NetworkError(), NOW_MS)
    for now_ms in (NOW_MS + 1_000, NOW_MS + 2_000):
        bench.dispatcher.wishes.take_metadata()
        (request,) = bench.drain(now_ms)
        bench.answer(request, OutOfOrderSequenceError())
        assert bench.dispatcher.wishes.take_metadata() is (now_ms == NOW_MS + 1_000), "who leads now is asked for"
    bench.drain(NOW_MS + 3_000)
    assert batch.possible_duplicates(is_acked=True) == 1 and batch.possible_duplicates(is_acked=False) == 0


@pytest.mark.parametrize("expired", [1, 2])
def test_a_batch_that_times_out_is_overtaken_by_nothing(expired: int) -> None:
    """The batches behind it are asked for in the old epoch first: if the batch was written, they follow it."""
    bench = Bench()
    batches = [bench.add(created_ms=0 if n < expired else NOW_MS) for n in range(3)]
    requests = bench.drain()
    failed = bench.dispatcher.failures.expire(10_000)
    assert [type(outcome.error) for outcome in failed] == [TimedOutError] * expired  # type: ignore[union-attr]
    for request, batch in list(zip(requests, batches, strict=True))[expired:]:
        assert isinstance(bench.answer(request, OutOfOrderSequenceError()), Again)
        assert triple(batch)[1] == 0
    (request,) = bench.drain()
    assert request.entries[0][1] is batches[expired] and triple(batches[expired])[1] == 0
    bench.answer(request, OutOfOrderSequenceError())
    bench.drain()
    assert triple(batches[expired]) == (ID, 1, 0)


def test_a_batch_that_is_sent_again_behind_younger_ones_expires_in_time() -> None:
    bench = Bench()
    bench.add()
    bench.add(created_ms=NOW_MS + 5_000)
    first, _ = bench.drain()
    bench.answer(first, NotEnoughReplicasError())
    bench.drain(NOW_MS + 5_000)
    bench.dispatcher.failures.expire(NOW_MS + 5_000)
    assert bench.dispatcher.failures.expiry_ms == NOW_MS + 10_000


@pytest.mark.parametrize("named", [{}, {0: "a key is missing"}])
def test_a_refusal_does_not_write_the_batch_before_it_a_second_time(named: dict[int, str]) -> None:
    """The first waits for a slow follower and times out, but is written; the second has a bad record."""
    bench = Bench()
    first, second = bench.add(2), bench.add(2)
    waiting, refused = bench.drain()
    error = InvalidRecordError("bad")
    error.record_errors = tuple(named.items())
    error.nothing_written = True
    bench.answer(refused, error)
    assert isinstance(bench.answer(waiting, RequestTimedOutError()), Again)
    (again,) = bench.drain(NOW_MS + 200)
    assert again.entries[0][1] is first and triple(first) == (ID, 0, 0), "the broker knows it again"
    assert isinstance(bench.answer(again), Acked) and not first.possible_duplicates(is_acked=True)
    follower = second.halves[0] if named else bench.add()
    bench.drain(NOW_MS + 200)
    assert triple(follower) == (ID, 1, 0)
