"""Promises of a connection in Kafka's protocol: however its bytes come, each request is answered once and in order, and
a stranger costs nothing."""

from __future__ import annotations

import logging
import struct
from dataclasses import replace
from typing import Any

import pytest

from broker.connections.draining import BYTES_PER_MS_MIN
from broker.kafka.api_row import ApiRow
from broker.kafka.plan import Plan, asks_nothing
from broker.kafka.schemas.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from broker.kafka.schemas.groups.classic import HeartbeatRequest, HeartbeatResponse
from broker.kafka.schemas.metadata import MetadataRequest, MetadataRequestTopic
from broker.kafka.schemas.produce import ProduceRequest, ProduceResponse
from broker.network.request_channel import Request
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.request_quotas import RequestQuotas
from broker.quotas.sampled_rate import QuotaWindows
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE
from metadata.records import ClientQuotaRecord
from tests.support.kafka_listener import (
    LIMITS,
    MEMORY_BYTES,
    VERSION,
    ListenerBench,
    answer_in,
    answers,
    bench_of,
    frame,
    metadata,
    run_to_the_end,
)

THREE = metadata(1, "a") + metadata(2) + metadata(3, "b", "c")
ANSWERED = [(1, "a"), (2, "none"), (3, "c")]


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 30, 31, 64, len(THREE)])
def test_frames_are_read_however_they_are_cut(piece: int) -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        far = bench.connect()
        for at in range(0, len(THREE), piece):
            far.send(THREE[at : at + piece])
            if at % 5 == 0:
                await bench.settle()
        await bench.settle()
        assert answers(far) == ANSWERED
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_a_frame_is_read_when_it_is_cut_at_any_byte() -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        for cut in range(1, len(THREE)):
            far = bench.connect()
            far.send(THREE[:cut])
            await bench.settle()
            far.send(THREE[cut:])
            await bench.settle()
            assert answers(far) == ANSWERED, cut
            far.reset()
            await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_a_large_frame_is_read_into_a_buffer_of_its_own_when_there_is_memory_for_it() -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        other = bench.memory.large.open("10.9.9.9")
        taken = other.take(1 << 24)
        far = bench.connect()
        name = "x" * 30_000
        topics = [MetadataRequestTopic(name=name) for _ in range(5)]
        large = frame(MetadataRequest(topics=topics), VERSION)
        far.send(large + metadata(2, "next"))
        await bench.settle()
        assert not answers(far) and not far.is_reading and far.unsent > len(large) - 2 * 16 * 1024
        taken.release()
        other.close()
        await bench.settle()
        assert answers(far) == [(1, name), (2, "next")]
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_answers_leave_in_the_order_of_the_requests() -> None:
    async def scenario() -> ListenerBench:
        held: list[Request] = []
        bench = await bench_of(held.append)
        far = bench.connect()
        far.send(metadata(7, "a") + metadata(8) + metadata(9, "b"))
        await bench.settle()
        assert [request.body for request in held] == ["a", "b"] and not far.written
        held[1].complete("second")
        await bench.settle()
        assert not far.written
        held[0].complete("first")
        await bench.settle()
        assert answers(far) == [(7, "first"), (8, "none"), (9, "second")]
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_a_plan_asks_several_times_and_each_question_counts() -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        far = bench.connect()
        far.send(metadata(1, "a", "b", "c"))
        await bench.settle()
        assert answers(far) == [(1, "c")] and bench.sent == ["Metadata"] * 3
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_a_request_without_acks_gets_no_byte() -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of(lambda request: request.complete(None))
        far = bench.connect()
        far.send(frame(ProduceRequest(acks=0), VERSION, 1) + frame(ProduceRequest(acks=0), VERSION, 2))
        await bench.settle()
        assert bench.sent == ["Produce", "Produce"] and not far.written
        far.send(frame(ProduceRequest(acks=1), VERSION, 3))
        await bench.settle()
        assert [number for number, _ in far.answers(ProduceResponse, VERSION)] == [3]
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_a_client_that_sends_no_more_gets_the_answers_that_it_is_owed_and_then_the_end() -> None:
    async def scenario() -> ListenerBench:
        held: list[Request] = []
        bench = await bench_of(held.append)
        far = bench.connect()
        far.send(metadata(1, "a") + metadata(2, "b") + metadata(3, "cut short")[:-1])
        far.end()
        await bench.settle()
        assert len(held) == 2 and not far.is_closed
        for request in held:
            request.complete(request.body)
        await bench.settle()
        assert answers(far) == [(1, "a"), (2, "b")] and far.is_closed
        return bench

    run_to_the_end(scenario)


def test_a_connection_that_ends_abandons_its_requests() -> None:
    async def scenario() -> ListenerBench:
        held: list[Request] = []
        bench = await bench_of(held.append)
        far = bench.connect()
        far.send(metadata(1, "a") + metadata(2, "b"))
        await bench.settle()
        far.reset()
        await bench.settle()
        assert [request.is_abandoned for request in held] == [True, True]
        for request in held:
            request.complete("late")
        return bench

    run_to_the_end(scenario)


def test_a_connection_has_a_bounded_number_of_open_requests() -> None:
    async def scenario() -> ListenerBench:
        held: list[Request] = []
        bench = await bench_of(held.append)
        far = bench.connect()
        far.send(b"".join(metadata(number, "topic") for number in range(500)))
        await bench.settle()
        assert len(held) == 16 and not far.is_reading
        while held:
            held.pop(0).complete("answer")
            await bench.settle()
        assert [number for number, _ in answers(far)] == list(range(500))
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (struct.pack(">i", (1 << 20) + 1), "a frame of 1048577 bytes"),
        (struct.pack(">i", -1), "a frame of -1 bytes"),
        (struct.pack(">i", 0), "a frame of 0 bytes"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\n", "gRPC"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
        (b"\xff\x00" * 40, "a frame of"),
        (struct.pack(">i", 5) + b"12345", "too few for its header"),
        (struct.pack(">ihhih", 10, 3, VERSION, 1, 99), "the client id"),
        (metadata(1, "a")[:24] + b"\xff" * 40, ""),
    ],
)
def test_a_stranger_is_closed_with_one_line(data: bytes, words: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        for _ in range(3):
            far = bench.connect()
            far.send(metadata(1, "before") + data)
            await bench.settle()
            assert answers(far) == [(1, "before")] and far.is_closed
        return bench

    with caplog.at_level(logging.WARNING):
        run_to_the_end(scenario)
    assert len(caplog.records) == 1 and words in caplog.text and "10.0.0.1:4711 (client.id somebody)" in caplog.text
    assert not caplog.records[0].exc_info


def test_an_unknown_api_or_version_ends_the_connection_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        for key, version in ((99, 0), (3, 13), (3, 13)):
            far = bench.connect()
            far.send(metadata(1) + frame(MetadataRequest(), version, 2, key=key) + metadata(3))
            await bench.settle()
            assert answers(far) == [(1, "none")] and far.is_closed
        return bench

    with caplog.at_level(logging.WARNING):
        run_to_the_end(scenario)
    assert [record.getMessage().partition("): ")[2] for record in caplog.records] == [
        "version 0 of API key 99 is not served",
        "version 13 of Metadata (0 to 12 are) is not served",
    ]


def test_api_versions_of_an_unknown_version_is_answered_in_version_0() -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        far = bench.connect()
        body = struct.pack(">hhi", 18, 99, 5) + b"whatever a later version has"
        far.send(struct.pack(">i", len(body)) + body)
        far.send(frame(ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.16.0"), 3, 6))
        await bench.settle()
        first, second = far.frames()
        number, answer = answer_in(first, ApiVersionsResponse, 0)
        assert (number, answer.error_code) == (5, 35)
        correlation_id, newest = answer_in(second, ApiVersionsResponse, 3)
        assert (correlation_id, newest.error_code, newest.api_keys) == (6, 0, answer.api_keys)
        assert newest.finalized_features_epoch == 41
        assert newest.supported_features == [
            SupportedFeatureKey(name="group.version", min_version=0, max_version=1),
            SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1),
            SupportedFeatureKey(name="metadata.version", min_version=1, max_version=2),
            SupportedFeatureKey(name="transaction.version", min_version=0, max_version=2),
        ]
        assert newest.finalized_features == [
            FinalizedFeatureKey(name="group.version", max_version_level=1, min_version_level=1),
            FinalizedFeatureKey(name="metadata.version", max_version_level=1, min_version_level=1),
            FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=2),
        ]
        assert [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys] == [
            (0, 3, 13),
            (3, 0, 12),
            (18, 0, 4),
        ]
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_a_silent_connection_is_closed_and_one_that_waits_for_an_answer_is_not() -> None:
    async def scenario() -> ListenerBench:
        held: list[Request] = []
        bench = await bench_of(held.append)
        silent, waiting, alive, trickling = (bench.connect(port=port) for port in (1, 2, 3, 4))
        trickling.send(struct.pack(">i", 1 << 19))
        waiting.send(metadata(1, "a"))
        await bench.settle()
        bench.clock.advance(LIMITS.idle_ms_max - 1)
        bench.listener.sweep(bench.clock.now_ms())
        alive.send(metadata(1))
        trickling.send(b"\0")
        await bench.settle()
        bench.clock.advance(2)
        bench.listener.sweep(bench.clock.now_ms())
        await bench.settle()
        closed = [far.is_closed for far in (silent, waiting, alive, trickling)]
        assert closed == [True, False, False, True], "nobody may hold memory for a frame by a byte a second"
        held[0].complete("at last")
        await bench.settle()
        assert answers(waiting) == [(1, "at last")]
        for far in (waiting, alive):
            far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def _beat(asked: Any, body: Any) -> Plan:
    return asks_nothing(HeartbeatResponse())


HEARTBEAT = ApiRow(12, "Heartbeat", HeartbeatRequest, HeartbeatResponse, (0, 4), _beat)


def test_a_client_that_reads_nothing_or_a_byte_now_and_then_is_cut_and_one_that_reads_slowly_is_not() -> None:
    look_ms = LIMITS.write_stall_ms_max // 8

    async def scenario() -> ListenerBench:
        bench = await bench_of()
        clients = [bench.connect(port=port) for port in (1, 2, 3)]  # the first one reads nothing
        dripping, slow = clients[1:]
        await bench.settle()
        bench.clock.advance(1)
        bench.listener.sweep(bench.clock.now_ms())
        for far in clients:
            far.takes = False
            far.send(metadata(1, "x" * 30_000) + metadata(2, "b"))
        await bench.settle()
        for _ in range(8):
            bench.listener.sweep(bench.clock.now_ms())
            bench.clock.advance(look_ms)
            dripping.takes_again(1)
            slow.takes_again(look_ms * BYTES_PER_MS_MIN)
            await bench.settle()
        assert not any(far.is_closed for far in clients)
        bench.clock.advance(1)
        slow.takes_again(1)
        bench.listener.sweep(bench.clock.now_ms())
        await bench.settle()
        assert [far.is_closed for far in clients] == [True, True, False]
        assert [len(answers(far)) for far in clients] == [1, 1, 1], "the second answer waits for the first"
        slow.takes_again()
        await bench.settle()
        assert len(answers(slow)) == 2 and bench.listener.statistics().cut_stalled == 2
        slow.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_members_and_producers_go_on_beside_a_client_of_their_party_that_reads_nothing() -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of(rows=[HEARTBEAT])
        full = bench.memory.answers.open("10.0.0.1").take(MEMORY_BYTES)
        member, producer, asking = (bench.connect(port=port) for port in (1, 2, 3))
        heartbeat = frame(HeartbeatRequest(), 0, 1)
        member.send(heartbeat[:4])
        await bench.settle()
        member.send(heartbeat[4:])
        producer.send(frame(ProduceRequest(acks=1), VERSION, 1))
        asking.send(metadata(1, "a"))
        await bench.settle()
        assert [number for number, _ in member.answers(HeartbeatResponse, 0)] == [1]
        assert [number for number, _ in producer.answers(ProduceResponse, VERSION)] == [1]
        assert not asking.written, "its answer may be large"
        full.release()
        await bench.settle()
        assert answers(asking) == [(1, "a")]
        for far in (member, producer, asking):
            far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_a_client_above_its_quota_is_told_and_its_next_request_waits() -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of(lambda request: request.complete("x"))
        quotas = RequestQuotas(ClientQuotas(QuotaWindows()))
        delta = MetadataDelta(EMPTY_IMAGE)
        delta.replay(ClientQuotaRecord("producer_byte_rate", user="ANONYMOUS", value=1.0))
        quotas.published(delta, delta.apply(0, 0))
        bench.service = replace(bench.service, quotas=quotas)
        far = bench.connect()
        far.send(frame(ProduceRequest(acks=1), VERSION, 1) + frame(ProduceRequest(acks=1), VERSION, 2))
        await bench.settle()
        ((number, answer),) = far.answers(ProduceResponse, VERSION)
        assert number == 1 and answer.throttle_time_ms > 5_000
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)
