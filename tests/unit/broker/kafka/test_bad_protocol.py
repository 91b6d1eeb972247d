"""Bad input at a listener of Kafka's protocol, a test a row: the exact answer or the end of the connection, one line in
the log and no traceback, and every other client served as before."""

from __future__ import annotations

import asyncio
import logging
import random
import struct
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker.kafka.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.kafka.schemas.metadata import MetadataRequest
from broker.kafka.schemas.produce import ProduceRequest
from broker.kafka_codec.headers import HeaderStart, request_header
from broker.network.request_channel import Request
from tests.support.kafka_listener import (
    LIMITS,
    VERSION,
    FarSide,
    ListenerBench,
    answer_in,
    answers,
    bench_of,
    frame,
    metadata,
    run_to_the_end,
)

TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + b"\x00" * 200
SILENT, MEASURED = 3_000, 100
KIB = 1024


@pytest.fixture(autouse=True)
def no_traceback(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.WARNING):
        yield
    assert not [record for record in caplog.records if record.exc_info]


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def head(version: int = VERSION, key: int = 3) -> bytes:
    return request_header(HeaderStart(key, version, 1), "somebody", flexible=True)


async def is_refused(bench: ListenerBench, data: bytes) -> bool:
    """A connection that sends this is closed without an answer, while another one is served."""
    far, other = bench.connect(port=1), bench.connect(port=2)
    far.send(data)
    other.send(metadata(1, "a"))
    await bench.settle()
    served = answers(other) == [(1, "a")] and not other.is_closed
    refused = far.is_closed and not far.written
    for one in (far, other):
        if not one.is_closed:
            one.reset()
    await bench.settle()
    return served and refused


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(sized(head(key=97)), id="unknown API"),
        pytest.param(sized(head(version=99)), id="unknown version"),
        pytest.param(sized(head(version=-1)), id="negative version"),
        pytest.param(sized(head()), id="missing fields"),
        pytest.param(sized(head()[:9]), id="missing header"),
        pytest.param(sized(b""), id="empty"),
        pytest.param(struct.pack(">i", LIMITS.message_bytes_max + 1), id="oversize"),
        pytest.param(struct.pack(">i", -(2**31)), id="negative size"),
        pytest.param(sized(head() + b"\xff\xff\xff\xff\x7f"), id="a list of 2^34 elements"),
        pytest.param(sized(head() + b"\xff" * 10), id="a length without end"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: node\r\n\r\n", id="HTTP/1"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="HTTP/2"),
        pytest.param(TLS_HELLO, id="TLS to plain text"),
    ],
)
def test_what_is_no_request_ends_its_connection(data: bytes) -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        assert await is_refused(bench, data)
        assert bench.listener.statistics().closed_for_bytes == 1
        return bench

    run_to_the_end(scenario)


def test_an_unknown_tagged_field_is_skipped() -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        far = bench.connect()
        known = frame(ApiVersionsRequest(client_software_name="kcat", client_software_version="1"), 3)
        assert known.endswith(b"\0"), "the section of tagged fields, empty"
        far.send(sized(known[4:-1] + b"\1\x63\3abc"))
        await bench.settle()
        (answer,) = far.frames()
        assert answer_in(answer, ApiVersionsResponse, 3)[1].error_code == 0
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_a_software_name_that_cannot_be_a_label_is_an_invalid_request() -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        for name in ("", "a b", "-x", 'x"', "x" * 300 + "\n"):
            far = bench.connect()
            far.send(frame(ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3))
            await bench.settle()
            (answer,) = far.frames()
            assert answer_in(answer, ApiVersionsResponse, 3)[1].error_code == 42
            far.reset()
        await bench.settle()
        assert set(bench.service.names.software.statistics()) == {("(others)", "")}
        return bench

    run_to_the_end(scenario)


def test_an_empty_list_and_a_deadline_of_0_are_requests_like_others() -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of(lambda request: request.complete(None))
        far = bench.connect()
        far.send(metadata(1) + frame(ProduceRequest(acks=-1, timeout_ms=0, topic_data=[]), VERSION, 2))
        await bench.settle()
        assert len(far.frames()) == 2 and not far.is_closed
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_a_connection_that_ends_in_the_middle_of_an_append_leaves_the_append_whole() -> None:
    """The request was taken as a whole frame, so it is handled as a whole; only its answer goes nowhere."""

    async def scenario() -> ListenerBench:
        taken: list[Request] = []
        bench = await bench_of(taken.append)
        far = bench.connect()
        whole = frame(ProduceRequest(acks=-1, topic_data=[]), VERSION, 1)
        far.send(whole + whole[:-1])
        await bench.settle()
        far.reset()
        await bench.settle()
        assert len(taken) == 1 and taken[0].is_abandoned
        taken[0].complete(None)
        return bench

    run_to_the_end(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_garbage_ends_its_connection_or_waits_for_more(seed: int) -> None:
    async def scenario() -> ListenerBench:
        drawn = random.Random(seed)
        bench = await bench_of()
        for _ in range(60):
            data = bytearray(metadata(1, "a", "b") + drawn.randbytes(40))
            for _ in range(drawn.randint(1, 6)):
                data[drawn.randrange(len(data))] = drawn.randrange(256)
            far = bench.connect()
            far.send(bytes(data) if drawn.random() < 0.5 else sized(head() + drawn.randbytes(drawn.randint(0, 200))))
            far.end()
            await bench.settle()
            assert far.is_closed, "a half-closed connection ends with what it is owed"
        return bench

    run_to_the_end(scenario)


def test_one_byte_a_second_holds_nobody_up_and_ends_when_its_time_is_over() -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        slow, other = bench.connect(port=1), bench.connect(port=2)
        sent = metadata(1, "x" * 2_000)
        for second in range(LIMITS.idle_ms_max // 1_000 + 2):
            slow.send(sent[second : second + 1])
            if second % 100 == 0:
                other.send(metadata(second, "a"))
            await bench.settle()
            bench.clock.advance(1_000)
            bench.listener.sweep(bench.clock.now_ms())
        await bench.settle()
        assert slow.is_closed and not slow.written and len(other.frames()) == 7
        other.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_thousands_of_silent_connections_cost_little_and_nobody_else_anything() -> None:
    async def scenario() -> ListenerBench:
        limits = replace(LIMITS, connections_max=SILENT + 1, connections_max_per_ip=SILENT)
        bench = await bench_of(limits=limits)
        bench.shared.connections_max = SILENT + 1
        far = bench.connect()
        far.send(metadata(1, "warm"))
        await bench.settle()
        timers = len(asyncio.get_running_loop()._scheduled)  # type: ignore[attr-defined]
        tracemalloc.start()
        silent = [bench.connect("10.0.0.2", port) for port in range(MEASURED)]
        await bench.settle()
        each = tracemalloc.get_traced_memory()[0] / MEASURED
        tracemalloc.stop()
        silent += [bench.connect("10.0.0.2", port) for port in range(MEASURED, SILENT)]
        await bench.settle()
        assert each < 14 * KIB, f"{each:.0f} bytes; the loop's own part of a connection is some 3 KiB more"
        assert len(asyncio.get_running_loop()._scheduled) == timers, "none has a timer of its own"  # type: ignore[attr-defined]
        late = bench.connect("10.0.0.2", SILENT)
        await bench.settle()
        assert late.is_closed and not any(one.is_closed for one in silent)
        far.send(metadata(2, "a"))
        await bench.settle()
        assert answers(far)[-1] == (2, "a")
        bench.clock.advance(limits.idle_ms_max + 1)
        bench.listener.sweep(bench.clock.now_ms())
        await bench.settle()
        assert all(one.is_closed for one in (far, *silent))
        return bench

    run_to_the_end(scenario)


def test_a_consumer_that_never_reads_is_cut_and_its_memory_is_free() -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        stuck, other = bench.connect(port=1), bench.connect(port=2)
        stuck.takes = False
        stuck.send(metadata(1, "a") * 1_000)
        await bench.settle()
        assert len(stuck.written) == 1 and not stuck.is_reading
        _sweep(bench)
        bench.clock.advance(LIMITS.write_stall_ms_max + 1)
        other.send(metadata(1, "a"))
        _sweep(bench)
        await bench.settle()
        assert stuck.is_closed and bench.listener.statistics().cut_stalled == 1
        assert answers(other) == [(1, "a")]
        other.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def _sweep(bench: ListenerBench) -> None:
    bench.listener.sweep(bench.clock.now_ms())


def test_a_flood_of_strangers_writes_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        for port in range(50):
            far: FarSide = bench.connect(port=port)
            far.send(sized(head(key=97)))
            await bench.settle()
            assert far.is_closed
        return bench

    run_to_the_end(scenario)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == "KAFKA: closed the connection of 10.0.0.1:0: version 9 of API key 97 is not served"


def test_a_request_of_an_unserved_version_names_its_client(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        far = bench.connect()
        far.send(metadata(1, client_id="payments") + frame(MetadataRequest(), 13, 2))
        await bench.settle()
        return bench

    run_to_the_end(scenario)
    assert "of 10.0.0.1:4711 (client.id payments): version 13 of Metadata" in caplog.text
