"""A broker that refuses a whole fetch for good is heard of: the read raises its error, and may be called again.

What was fetched before the error comes before it; nothing that is fetched after it is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import grpc.aio
import pytest

from penstock import AsyncConsumer, Consumer, TopicPartition
from penstock.client.consumer.arrow_table import ArrowOptions, take_table
from penstock.client.consumer.consumer_core import ConsumerCore
from penstock.client.consumer.fetching.effects import Deliver
from penstock.client.consumer.fetching.fetch_buffer import FetchRefusal
from penstock.client.consumer.fetching.fetch_link import UNKNOWN_ERRORS_MAX
from penstock.client.consumer.raw.raw_buffer import RawBuffer
from penstock.client.wire.channel import GrpcStream
from penstock.errors import (
    InvalidRequestError,
    NetworkError,
    PolicyViolationError,
    UnknownServerError,
    UnsupportedVersionError,
)
from penstock.record.builder import build_batch
from penstock.types import Endpoint
from penstock.wire.error_trailer import trailer_of
from tests.support.client_environment import nothing, still_environment
from tests.support.fake_broker import FakeCluster
from tests.support.scripted_fetch import ScriptedCluster, batch_at, raw_fetch
from tests.support.virtual_time import run_virtual

TP = TopicPartition("t", 0)
OPTIONS: dict[str, Any] = {"fetch_max_wait_ms": 10, "retry_backoff_ms": 1, "auto_offset_reset": "earliest"}


def append(cluster: FakeCluster, value: bytes) -> None:
    cluster.append("t", 0, build_batch([value], timestamps_ms=1_700_000_000_000))


def test_poll_and_poll_arrow_raise_each_refusal_and_read_on() -> None:
    with FakeCluster(1) as cluster, Consumer(cluster.bootstrap, **OPTIONS) as consumer:
        cluster.create_topic("t")
        append(cluster, b"before")
        consumer.assign([TP])
        assert [record.value for record in consumer.poll(timeout_ms=30_000)] == [b"before"]
        cluster.refuse_fetches(InvalidRequestError("too many partitions"))
        with pytest.raises(InvalidRequestError, match="too many partitions"):
            consumer.poll(timeout_ms=30_000)
        cluster.refuse_fetches(PolicyViolationError("not from here"))
        with pytest.raises(PolicyViolationError, match="not from here"):
            consumer.poll_arrow(timeout_ms=30_000)
        append(cluster, b"after")
        assert [record.value for record in consumer.poll(timeout_ms=30_000)] == [b"after"]
        assert consumer.poll(timeout_ms=0) == []


def test_the_async_consumer_raises_it_too() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        async with AsyncConsumer(cluster.bootstrap, **OPTIONS) as consumer:
            await consumer.assign([TP])
            with pytest.raises(InvalidRequestError, match="too many partitions"):
                await consumer.poll(timeout_ms=30_000)
            assert [record.value for record in await consumer.poll(timeout_ms=30_000)] == [b"after"]

    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        append(cluster, b"after")
        cluster.refuse_fetches(InvalidRequestError("too many partitions"))
        asyncio.run(scenario(cluster))


def range_of(*faults: Exception) -> AsyncGenerator[RawBuffer]:
    """A range of which the second fetch, and those after it, end the stream with these errors."""
    cluster = ScriptedCluster(faults={("read", number): fault for number, fault in enumerate(faults, 2)})
    return raw_fetch(cluster, 50, request_timeout_ms=20_000).buffers()


async def read(buffers: AsyncGenerator[RawBuffer]) -> list[int]:
    return [buffer.next_offset async for buffer in buffers]


def test_a_range_ends_with_the_error_behind_what_was_fetched() -> None:
    async def scenario() -> None:
        buffers = range_of(UnsupportedVersionError("no such call"))
        assert (await anext(buffers)).next_offset == 10
        with pytest.raises(UnsupportedVersionError, match="no such call"):
            await anext(buffers)

    run_virtual(scenario())


@pytest.mark.parametrize("error", [NetworkError("gone"), UnknownServerError("RST of some kind")])
def test_what_asking_again_mends_is_no_ones_to_hear(error: Exception) -> None:
    assert run_virtual(read(range_of(*[error] * UNKNOWN_ERRORS_MAX))) == [10, 20, 30, 40, 50]


def test_an_error_of_unknown_cause_is_heard_of_when_it_stays() -> None:
    with pytest.raises(UnknownServerError, match="a bug"):
        run_virtual(read(range_of(*[UnknownServerError("a bug")] * (UNKNOWN_ERRORS_MAX + 1))))


def test_a_write_to_a_stream_that_was_refused_says_why() -> None:
    class EndedCall:
        """A call that the broker has ended before the write."""

        async def wait_for_connection(self) -> None:
            pass

        async def write(self, request: object) -> None:
            raise asyncio.InvalidStateError

        async def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.FAILED_PRECONDITION

        async def details(self) -> str:
            return "not from here"

        async def trailing_metadata(self) -> grpc.aio.Metadata:
            return grpc.aio.Metadata(*trailer_of(PolicyViolationError()))

    with pytest.raises(PolicyViolationError, match="not from here"):
        asyncio.run(GrpcStream(EndedCall(), Endpoint("host", 1)).write(b""))


# -- the order of taking -----------------------------------------------------------------------------------------------


def as_records(core: ConsumerCore) -> list[int]:
    return [record.offset for record in core.take_records(None)]


def as_table(core: ConsumerCore) -> list[int]:
    return list(take_table(core, ArrowOptions(None))["offset"].to_pylist())


def reader_of(*items: int | FetchRefusal) -> ConsumerCore:
    """A consumer whose buffer holds batches of ten records at these offsets, and refusals between them."""
    core = ConsumerCore("127.0.0.1:1", {"auto_offset_reset": "none"}, still_environment(), nothing)
    core.positions.assign([TP])
    core.positions.seek(TP, 0)
    generation = core.positions.states[TP].generation
    for item in items:
        core.buffer.put(
            item if isinstance(item, FetchRefusal) else Deliver(TP, generation, batch_at(item), item, item + 10)
        )
    return core


@pytest.mark.parametrize("take", [as_records, as_table])
def test_a_refusal_is_raised_once_and_costs_no_record(take: Any) -> None:
    core = reader_of(0, FetchRefusal(InvalidRequestError("no"), queued=True), 10)
    assert take(core) == list(range(20))
    with pytest.raises(InvalidRequestError):
        take(core)
    core.reader.raise_waiting()
    assert take(core) == [] and core.positions.states[TP].position == 20


def test_a_refusal_that_is_over_is_not_raised() -> None:
    refusal = FetchRefusal(None, queued=True)
    core = reader_of(refusal, 0)
    assert as_records(core) == list(range(10))
    assert as_records(core) == [] and not refusal.queued


def test_a_turn_that_fails_gives_the_refusal_back() -> None:
    core = reader_of(FetchRefusal(InvalidRequestError("no"), queued=True))
    with pytest.raises(KeyboardInterrupt), core.reader.turn():
        assert core.reader.next_piece() is None
        raise KeyboardInterrupt
    with pytest.raises(InvalidRequestError):
        as_records(core)
