"""Promises of the conversion before the queue: off the loop, in the stream's order, and never what decides."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc.aio
import pytest

from broker.apis.producing import produce_conversion
from broker.apis.producing.produce import ProduceApi
from broker.apis.producing.produce_conversion import ProduceConversionStatistics, ProduceConverter
from broker.connections.stream_quotas import StreamQuotas
from broker.grpc.access import ListenerAccess
from broker.grpc.client_streams import StreamHandlers, StreamLimits
from broker.grpc.incoming.request_decoder import RequestDecoders
from broker.load.busy_time import BusyTimes
from broker.network.request_channel import Caller, Request, RequestChannel
from broker.network.request_memory import RequestMemory
from broker.replication.partition import Partition
from broker.replication.replica_statistics import Traffic
from penstock.clock import ManualClock
from penstock.errors import (
    ApiError,
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    NotLeaderOrFollowerError,
    UnknownServerError,
)
from penstock.messages.client_apis import PRODUCE
from penstock.messages.produce import PartitionProduceResult, PartitionRecords, ProduceRequest, ProduceResponse
from penstock.pb import broker_pb2 as pb
from penstock.record.batch import HEADER_BYTES, pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import read_records
from penstock.types import TopicPartition
from storage.append.key_validation import KeyedRecords
from storage.append.record_validation import ReadableRecords
from tests.support.machine import NOW_NS, THREADS
from tests.support.partitions import NOBODY, TOPIC_ID, make_partition, state
from tests.support.sinks import CALLER, Sink
from tests.support.verification import Coordinators, held_by

PLAIN, ZSTD, SNAPPY, ELSEWHERE = (TopicPartition(name, 0) for name in ("plain", "zstd", "snappy", "elsewhere"))
CODECS = {PLAIN: "producer", ZSTD: "zstd", SNAPPY: "snappy"}
VALUES = [b"a value %d" % (row % 5) for row in range(200)]
GZIP = build_batch(VALUES, timestamps_ms=1_700_000_000_000, codec=Codec.GZIP)
ZSTD_BATCH = build_batch(VALUES, timestamps_ms=1_700_000_000_000, codec=Codec.ZSTD)
BROKEN = pack_batch(read_header(GZIP), b"no gzip")
LARGE = build_batch([b"v" * 1_000] * 900, timestamps_ms=1_700_000_000_000)
"""Its records are equal."""
MANY = build_batch([b"v" * (row % 90) for row in range(9_000)], timestamps_ms=1_700_000_000_000)
_THREE = build_batch([b"a", b"b", b"c"], timestamps_ms=1_700_000_000_000)
LYING = pack_batch(read_header(_THREE), _THREE[HEADER_BYTES:].replace(b"\x02b", b"\x04b"))
"""Record 1 says that its value has two bytes."""
LIMIT_BYTES = 1 << 20


def executor() -> Executor:
    return THREADS.executor("produce-conversion", 2)


@pytest.fixture
def partitions(tmp_path: Path) -> dict[TopicPartition, Partition]:
    found = {}
    for key, codec in CODECS.items():
        found[key] = make_partition(tmp_path / key.topic)
        found[key].log.update_config(replace(found[key].log.config, compression_type=codec))
        found[key].become_leader(state(isr=(1,)), 0)
    return found


def produce(*pairs: tuple[TopicPartition, bytes]) -> ProduceRequest:
    return ProduceRequest(1, 60_000, [PartitionRecords(key, TOPIC_ID, records) for key, records in pairs])


def asked(body: ProduceRequest, caller: Caller = CALLER) -> Request:
    return Request("Produce", body, Sink(), caller, NOW_NS)


def convert(converter: ProduceConverter, body: ProduceRequest) -> dict[int, ApiError]:
    """Refusals by the place of their partition."""
    request = asked(body)

    async def scenario() -> None:
        begun = converter.begin(request)
        assert begun is not None
        await begun

    asyncio.run(scenario())
    converter.close()
    return cast("dict[int, ApiError]", request.prepared)


def codec_of(body: ProduceRequest, index: int) -> Codec:
    return read_header(body.partitions[index].records).codec


def test_only_partitions_that_want_another_codec_are_converted(partitions: dict[TopicPartition, Partition]) -> None:
    converter = ProduceConverter(partitions.get, ManualClock(), executor(), 2, LIMIT_BYTES)
    body = produce((PLAIN, GZIP), (ZSTD, GZIP), (SNAPPY, GZIP), (ZSTD, ZSTD_BATCH), (ELSEWHERE, GZIP))

    convert(converter, body)

    assert [codec_of(body, index) for index in range(5)] == [
        Codec.GZIP,
        Codec.ZSTD,
        Codec.SNAPPY,
        Codec.ZSTD,
        Codec.GZIP,
    ]
    assert body.partitions[3].records == ZSTD_BATCH and body.partitions[0].records == GZIP
    assert [part.partition for part in body.partitions] == [PLAIN, ZSTD, SNAPPY, ZSTD, ELSEWHERE]
    assert [record.value for record in read_records(body.partitions[2].records)] == VALUES
    after = len(body.partitions[1].records) + len(body.partitions[2].records)
    assert converter.statistics() == ProduceConversionStatistics(1, 2 * len(GZIP), after, 0)


def test_where_nothing_is_to_be_done_nobody_waits(partitions: dict[TopicPartition, Partition]) -> None:
    converter = ProduceConverter(partitions.get, ManualClock(), executor(), 2, LIMIT_BYTES)
    partitions[SNAPPY].become_follower(state(leader_id=2), NOBODY)

    for records in (GZIP, LARGE, b"", b"garbage" * 5):
        body = produce((PLAIN, records), (SNAPPY, records), (ELSEWHERE, records))
        assert converter.begin(asked(body)) is None
    assert converter.begin(asked(produce((ZSTD, ZSTD_BATCH), (ZSTD, b"garbage")))) is None
    converter.close()


@pytest.mark.parametrize("count", [3, 3_000])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_largest_time_that_is_wrong_is_set_at_once_or_by_a_thread(
    partitions: dict[TopicPartition, Partition], codec: Codec, count: int
) -> None:
    right = build_batch([b"v" * (n % 7) for n in range(count)], timestamps_ms=[5, 9, *[5] * (count - 2)], codec=codec)
    wrong = pack_batch(read_header(right)._replace(max_timestamp_ms=5), right[HEADER_BYTES:])
    converter = ProduceConverter(partitions.get, ManualClock(), executor(), 2, LIMIT_BYTES)
    body = produce((PLAIN, wrong))

    async def scenario() -> None:
        begun = converter.begin(asked(body))
        assert (begun is None) is (count == 3), "a small batch is looked at at once, others in a thread"
        if begun is not None:
            await begun

    asyncio.run(scenario())
    converter.close()
    assert body.partitions[0].records == right and isinstance(body.partitions[0].records, ReadableRecords)


def test_records_are_looked_at_at_once_or_by_a_thread_and_not_again(
    partitions: dict[TopicPartition, Partition],
) -> None:
    converter = ProduceConverter(partitions.get, ManualClock(), executor(), 2, LIMIT_BYTES)
    body = produce((PLAIN, GZIP), (PLAIN, LARGE))
    assert converter.begin(asked(body)) is None, "a short look at both is enough"
    assert all(isinstance(part.records, ReadableRecords) for part in body.partitions)

    body = produce((PLAIN, MANY), (PLAIN, BROKEN), (PLAIN, LYING), (PLAIN, GZIP))
    refused = convert(converter, body)
    assert isinstance(body.partitions[0].records, ReadableRecords) and body.partitions[0].records == MANY
    assert {index: type(error) for index, error in refused.items()} == {1: CorruptMessageError, 2: InvalidRecordError}
    assert [one.batch_index for one in refused[2].record_errors] == [1]


def test_a_topic_whose_producers_are_believed_has_nothing_looked_at(
    partitions: dict[TopicPartition, Partition],
) -> None:
    log = partitions[PLAIN].log
    log.update_config(replace(log.config, record_validation="headers"))
    converter = ProduceConverter(partitions.get, ManualClock(), executor(), 2, LIMIT_BYTES)
    body = produce((PLAIN, LYING), (PLAIN, MANY))
    assert converter.begin(asked(body)) is None
    assert body.partitions[0].records is LYING and body.partitions[1].records is MANY
    converter.close()


def test_the_keys_of_a_compacted_topic_are_looked_at_before_the_queue(
    partitions: dict[TopicPartition, Partition],
) -> None:
    log = partitions[PLAIN].log
    log.update_config(replace(log.config, cleanup_policy="compact"))
    keyed = build_batch(VALUES, timestamps_ms=1_700_000_000_000, keys=VALUES, codec=Codec.GZIP)
    body = produce((PLAIN, keyed), (PLAIN, GZIP))

    refused = convert(ProduceConverter(partitions.get, ManualClock(), executor(), 2, LIMIT_BYTES), body)

    assert isinstance(body.partitions[0].records, KeyedRecords) and body.partitions[0].records == keyed
    assert list(refused) == [1] and isinstance(refused[1], InvalidRecordError)


def test_the_records_of_a_large_batch_whose_times_are_refused_are_named_before_the_queue(
    partitions: dict[TopicPartition, Partition],
) -> None:
    times = [1_700_000_000_000] * 2_000
    times[7] = times[1_500] = 4_000_000_000_000
    values = [b"%d" % n for n in range(2_000)]
    late = [build_batch(values, timestamps_ms=times, codec=codec) for codec in (Codec.NONE, Codec.ZSTD)]
    body = produce((PLAIN, late[0]), (SNAPPY, late[1]), (ZSTD, GZIP))

    refused = convert(ProduceConverter(partitions.get, ManualClock(), executor(), 2, LIMIT_BYTES), body)

    for index in (0, 1):
        assert isinstance(refused[index], InvalidTimestampError)
        assert [bad.batch_index for bad in refused[index].record_errors] == [7, 1_500]
    assert 2 not in refused


def test_no_time_is_spent_on_the_records_of_who_may_not_write(partitions: dict[TopicPartition, Partition]) -> None:
    looked: list[str] = []

    def may_write(request: Request, topic: str) -> bool:
        looked.append(topic)
        return topic == ZSTD.topic

    converter = ProduceConverter(partitions.get, ManualClock(), executor(), 2, LIMIT_BYTES, may_write)
    assert converter.begin(asked(produce((SNAPPY, GZIP), (SNAPPY, b"garbage")))) is None
    body = produce((SNAPPY, GZIP), (ZSTD, GZIP))
    convert(converter, body)
    assert [codec_of(body, index) for index in range(2)] == [Codec.GZIP, Codec.ZSTD]
    assert looked == [SNAPPY.topic, SNAPPY.topic, SNAPPY.topic, ZSTD.topic]


def test_what_is_refused_is_refused_for_its_partition_alone(partitions: dict[TopicPartition, Partition]) -> None:
    body = produce((ZSTD, BROKEN), (SNAPPY, GZIP))

    refused = convert(ProduceConverter(partitions.get, ManualClock(), executor(), 2, LIMIT_BYTES), body)

    assert list(refused) == [0] and isinstance(refused[0], CorruptMessageError)
    assert codec_of(body, 1) == Codec.SNAPPY


def test_a_request_may_not_become_larger_than_it_could_have_come(partitions: dict[TopicPartition, Partition]) -> None:
    size_bytes = len(build_batch(VALUES, timestamps_ms=0))
    body = produce((SNAPPY, GZIP), (ZSTD, GZIP), (ZSTD, GZIP))

    refused = convert(ProduceConverter(partitions.get, ManualClock(), executor(), 2, 2 * size_bytes), body)

    assert list(refused) == [2] and isinstance(refused[2], MessageTooLargeError)


def test_a_bug_answers_its_partition_and_leaves_the_stream_open(
    partitions: dict[TopicPartition, Partition], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(produce_conversion, "prepared", lambda *_, **__: 1 // 0)
    body = produce((ZSTD, GZIP))

    refused = convert(ProduceConverter(partitions.get, ManualClock(), executor(), 2, LIMIT_BYTES), body)

    assert isinstance(refused[0], UnknownServerError) and "ZeroDivisionError" in str(refused[0])
    assert "converting" in caplog.text


def test_a_party_has_half_of_the_threads_and_another_one_waits_for_none_of_its_batches(
    partitions: dict[TopicPartition, Partition], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, may_go_on = produce_conversion.prepared, threading.Event()

    def slow(records: Any, *arguments: Any, **options: Any) -> Any:
        assert records == quick or may_go_on.wait(60), "the other party waits for a thread"
        return real(records, *arguments, **options)

    monkeypatch.setattr(produce_conversion, "prepared", slow)
    converter = ProduceConverter(partitions.get, ManualClock(), executor(), 2, LIMIT_BYTES)
    quick = build_batch([b"quick"], timestamps_ms=1_700_000_000_000, codec=Codec.GZIP)

    def convert_for(user: str, records: bytes) -> asyncio.Future[None]:
        begun = converter.begin(asked(produce((ZSTD, records)), CALLER._replace(principal=f"User:{user}")))
        assert begun is not None
        return asyncio.ensure_future(begun)

    async def scenario() -> None:
        many = [convert_for("many", GZIP) for _ in range(4)]
        await asyncio.sleep(0)
        many[0].cancel()  # its stream has ended; its thread goes on
        many[1].cancel()
        await asyncio.wait_for(convert_for("other", quick), 30)
        assert not many[2].done() and not many[3].done()
        may_go_on.set()
        await asyncio.gather(*many, return_exceptions=True)
        assert many[2].exception() is many[3].exception() is None

    asyncio.run(scenario())
    converter.close()


def test_the_loop_goes_on_while_a_batch_is_compressed(
    partitions: dict[TopicPartition, Partition], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, may_go_on = produce_conversion.prepared, threading.Event()

    def slow(*arguments: Any, **options: Any) -> Any:
        assert may_go_on.wait(60), "the loop waits for the compressor"
        return real(*arguments, **options)

    monkeypatch.setattr(produce_conversion, "prepared", slow)
    converter = ProduceConverter(partitions.get, ManualClock(), executor(), 2, LIMIT_BYTES)
    body = produce((ZSTD, GZIP))

    async def scenario() -> None:
        begun = converter.begin(asked(body))
        assert begun is not None
        waiting = asyncio.ensure_future(begun)
        await asyncio.sleep(0)
        assert not waiting.done()
        may_go_on.set()
        await waiting

    asyncio.run(scenario())
    converter.close()
    assert codec_of(body, 0) == Codec.ZSTD


def handled(
    partitions: dict[TopicPartition, Partition], body: ProduceRequest, refused: Mapping[int, ApiError]
) -> Sequence[PartitionProduceResult]:
    fake: Any = SimpleNamespace(get=lambda key, topic_id: partitions[key], request_flush=lambda partition: None)
    request = asked(body)
    request.prepared = refused

    async def scenario() -> None:
        ProduceApi(fake, fake, Traffic(), ManualClock(), held_by(Coordinators())).handle(request, body)
        for partition in partitions.values():
            partition.log.flush()
            partition.flushed(partition.log.flushed_offset)

    asyncio.run(scenario())
    assert isinstance(request.response, ProduceResponse)
    return request.response.partitions


def test_a_refusal_is_the_answer_and_nothing_is_written(partitions: dict[TopicPartition, Partition]) -> None:
    body = produce((ZSTD, GZIP), (SNAPPY, GZIP))
    refused = {0: InvalidRecordError("found before")}

    first, second = handled(partitions, body, refused)

    assert first.error is refused[0] and second.error is None
    assert (partitions[ZSTD].log.log_end_offset, partitions[SNAPPY].log.log_end_offset) == (0, len(VALUES))


def test_not_leading_any_more_is_the_answer_to_any_records(partitions: dict[TopicPartition, Partition]) -> None:
    body = produce((ZSTD, GZIP))
    refused = {0: InvalidRecordError("found before")}
    partitions[ZSTD].become_follower(state(leader_id=2), NOBODY)

    (result,) = handled(partitions, body, refused)

    assert isinstance(result.error, NotLeaderOrFollowerError)


class Stream:
    """One produce stream: what its client sends, and how much of it the listener has read."""

    def __init__(self, *correlation_ids: int) -> None:
        self._messages = [pb.ProduceRequest(correlation_id=number).SerializeToString() for number in correlation_ids]
        self.reads = 0

    async def read(self) -> Any:
        self.reads += 1
        return self._messages.pop(0) if self._messages else grpc.aio.EOF

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"


def test_a_stream_waits_for_its_own_conversion_in_order_and_no_other_stream_does() -> None:
    limits = StreamLimits(
        decoders=RequestDecoders(1 << 20),
        connections=StreamQuotas(9, 9),
        requests=RequestMemory(1 << 30),
        node_requests=RequestMemory(1 << 30),
    )

    async def scenario() -> None:
        channel, slow = RequestChannel(10, BusyTimes(NOW_NS), NOW_NS), asyncio.get_running_loop().create_future()

        def prepare(request: Request) -> Awaitable[None] | None:
            return slow if request.correlation_id == 1 else None

        access = ListenerAccess("BROKER", "INTERNAL")
        handlers = StreamHandlers(channel, cast(Any, None), limits, access, prepare)
        access.open()
        first, second = Stream(1, 2), Stream(3, 4)
        streams = [asyncio.ensure_future(handlers.streams[PRODUCE](None, cast(Any, one))) for one in (first, second)]

        arrived = [(await channel.receive()).correlation_id for _ in range(2)]
        assert arrived == [3, 4] and first.reads == 1, "the first stream is read no further"
        slow.set_result(None)
        arrived = [(await channel.receive()).correlation_id for _ in range(2)]
        assert arrived == [1, 2]
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)

    asyncio.run(scenario())
