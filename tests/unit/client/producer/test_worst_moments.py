"""Callbacks that raise, records that cannot be encoded, and a close while a caller waits: no record waits for ever."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import Producer
from penstock.client.options.typed_options import ProducerOptions
from penstock.client.producer import accumulator
from penstock.client.producer.future import BulkFuture, RecordFuture
from penstock.errors import CalledInCallbackError, ClientClosedError, InvalidRecordError, RecordListTooLargeError
from penstock.record.reader import read_records
from penstock.types import TopicPartition
from tests.support.amount import at_night
from tests.support.fake_broker import FakeCluster
from tests.support.waiting import wait_until

T0 = TopicPartition("t", 0)
INTERRUPTIONS = 60
"""Interruptions of a loop of sends; without the care that is tested here, one in seven hit a moment that mattered."""


def stored(cluster: FakeCluster, tp: TopicPartition) -> list[bytes | None]:
    return [r.value for _, _, data, _ in cluster.logs[tp].batches for r in read_records(data)]


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as found:
        found.create_topic("t", 2)
        yield found


@pytest.mark.parametrize("raised", [ZeroDivisionError, SystemExit, asyncio.CancelledError])
def test_a_callback_that_raises_is_logged_and_keeps_no_other_record_from_its_answer(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, raised: type[BaseException]
) -> None:
    def fail(future: object) -> None:
        raise raised("mine")

    with Producer(cluster.bootstrap, linger_ms=60_000) as producer:
        futures = [producer.send("t", b"v", partition=partition) for partition in (0, 1)]
        for future in futures:
            future.add_done_callback(fail)
        producer.flush(10)
        assert [future.result(60).offset for future in futures] == [0, 0]
        later = producer.send("t", b"w", partition=0)
        producer.flush(10)
        assert later.result(0).offset == 1, "the client's thread goes on"
    logged = [record for record in caplog.records if record.name == "penstock.client.producer.batch"]
    assert [record.exc_info[0] for record in logged if record.exc_info] == [raised, raised]


def test_a_call_in_a_callback_that_would_wait_for_itself_is_refused(cluster: FakeCluster) -> None:
    met: list[Exception] = []

    def wait(future: RecordFuture) -> None:
        for call in (producer.flush, lambda: producer.send("not known yet", b"v"), producer.close):
            try:
                call()
            except CalledInCallbackError as error:
                met.append(error)

    with Producer(cluster.bootstrap) as producer:
        producer.send("t", b"v").add_done_callback(wait)
        producer.flush(10)
        assert [str(error).split(",")[0] for error in met] == ["this call waits for the client's own thread"] * 3
        assert producer.send("t", b"w").result(60).topic == "t", "it is not half closed"


def test_ranges_leave_out_what_another_producer_wrote_between_the_halves_of_a_batch(cluster: FakeCluster) -> None:
    def write_between(node_id: int, request: object) -> None:
        if len(cluster.produced) == 3:
            cluster.logs[T0].append(cluster.logs[T0].batches[0][2])

    cluster.on_produce = write_between
    cluster.fail_produce("t", 0, RecordListTooLargeError())
    with Producer(cluster.bootstrap) as producer:
        ranges = producer.send_many("t", [b"1", b"2", b"3", b"4"], partition=0).ranges(10)
    assert [(found.first_offset, found.last_offset, found.record_count) for found in ranges] == [(0, 1, 2), (4, 5, 2)]


def test_a_batch_that_cannot_be_encoded_fails_alone(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    encode = accumulator.ProducerBatch.encode

    def no_memory_for_the_first_partition(batch: accumulator.ProducerBatch, codec: object) -> None:
        if batch.topic_partition == T0:
            raise MemoryError
        encode(batch, codec)  # type: ignore[arg-type]

    monkeypatch.setattr(accumulator.ProducerBatch, "encode", no_memory_for_the_first_partition)
    with Producer(cluster.bootstrap) as producer:
        bad, good = (producer.send("t", b"v", partition=partition) for partition in (0, 1))
        with pytest.raises(InvalidRecordError, match=r"t-0: the batch of 1 records cannot be made: MemoryError\(\)"):
            bad.result(60)
        assert good.result(60).offset == 0
        assert producer.statistics().buffered_bytes == 0


def test_a_time_that_no_record_can_hold_is_refused(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap) as producer:
        with pytest.raises(ValueError, match=f"timestamp_ms={2**63} is larger than a record can hold"):
            producer.send("t", b"v", timestamp_ms=2**63)
        assert producer.send("t", b"v", timestamp_ms=2**63 - 1).result(60).timestamp_ms == 2**63 - 1


@pytest.mark.parametrize("bulk", [False, True])
def test_a_send_that_waits_for_memory_while_the_producer_closes_is_refused(cluster: FakeCluster, bulk: bool) -> None:
    producer = Producer(cluster.bootstrap, buffer_memory=1_000, linger_ms=0)
    producer.partitions_for("t")
    cluster.silence(1)
    first = producer.send("t", b"x" * 900, partition=0)
    found: list[BaseException | None] = []

    def second() -> None:
        try:
            answer: RecordFuture | BulkFuture = (
                producer.send_many("t", [b"y" * 900], partition=0) if bulk else producer.send("t", b"y" * 900)
            )
            found.append(answer.exception(60))
        except Exception as error:
            found.append(error)

    sending = threading.Thread(target=second)
    sending.start()
    wait_until(lambda: producer._core.memory.is_short)
    producer.close(0.1)
    sending.join(60)
    assert [type(error) for error in (first.exception(0), *found)] == [ClientClosedError, ClientClosedError]
    assert producer.statistics().buffered_bytes == 0


@pytest.mark.parametrize("arguments", [{}, {"key": b"k"}, {"headers": {"h": b"1"}}], ids=["plain", "keyed", "headers"])
@pytest.mark.parametrize("batch_size", at_night([4_000, 1 << 24], [1 << 24]), ids=["small batches", "one batch"])
def test_an_interruption_at_any_moment_of_a_send_costs_no_other_record(
    cluster: FakeCluster, arguments: dict[str, Any], batch_size: int
) -> None:
    """Ctrl-C in a loop of sends: what was sent is written, where its future says, and the producer closes."""
    options: ProducerOptions = {"linger_ms": 600_000, "delivery_timeout_ms": 600_000, "batch_size": batch_size}
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    gc.disable()  # Python drops an interruption that comes while it calls a weak reference back
    try:
        for turn in range(INTERRUPTIONS):
            topic = f"t{turn}"
            cluster.create_topic(topic)
            sent: list[tuple[RecordFuture, bytes]] = []
            with Producer(cluster.bootstrap, compression_type="gzip", **options) as producer:
                producer.partitions_for(topic)
                with pytest.raises(KeyboardInterrupt):
                    signal.setitimer(signal.ITIMER_REAL, 0.002 + turn * 0.000_037)
                    for number in range(1_000_000):
                        value = b"%099d" % number
                        sent.append((producer.send(topic, value, **arguments), value))
                sent += [(producer.send(topic, value, **arguments), value) for value in (b"one", b"two", b"three")]
                producer.flush(10)
            read = stored(cluster, TopicPartition(topic, 0))
            assert [read[future.result(0).offset] for future, _ in sent] == [value for _, value in sent]
    finally:
        gc.enable()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
