"""A broker names the bad records of a batch: they fail alone, the others are written in order, once (KIP-467)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from penstock import AsyncProducer
from penstock.client.producer.future import RecordFuture
from penstock.errors import InvalidRecordError, NetworkError
from penstock.pb import broker_pb2 as pb
from penstock.record.reader import read_records
from penstock.types import TopicPartition
from tests.support.client_environment import fake_environment
from tests.support.fake_broker import FakeCluster, MemoryHost
from tests.support.fake_network import FakeNetwork
from tests.support.virtual_time import run_virtual

TP = TopicPartition("t", 0)
NAMED_MAX = 3
"""The fake broker names so many records of a batch at a time."""


def bad_ones(records: bytes) -> dict[int, str]:
    """The records whose value begins with x."""
    found = [at for at, record in enumerate(read_records(records)) if (record.value or b"").startswith(b"x")]
    return {at: f"the record at {at} begins with x" for at in found[:NAMED_MAX]}


class Bench:
    """One node with one partition, whose broker does not like an x."""

    def __init__(self) -> None:
        self.network = FakeNetwork()
        self.cluster = FakeCluster(1, host=MemoryHost(self.network)).__enter__()
        self.cluster.create_topic("t")
        self.cluster.bad_records = bad_ones

    def producer(self, **options: Any) -> AsyncProducer:
        return AsyncProducer(self.cluster.bootstrap, environment=fake_environment(self.network), **options)

    def written(self) -> list[bytes | None]:
        return [r.value for _, _, data, _ in self.cluster.logs[TP].batches for r in read_records(data)]


def run(story: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(Bench())

    run_virtual(main())


async def send_all(producer: AsyncProducer, values: list[bytes]) -> list[RecordFuture]:
    return [await producer.send("t", value) for value in values]


async def must_be_right(bench: Bench, values: list[bytes], futures: list[RecordFuture]) -> None:
    await asyncio.gather(*futures, return_exceptions=True)
    good = [value for value in values if not value.startswith(b"x")]
    assert bench.written() == good
    offsets = []
    for value, future in zip(values, futures, strict=True):
        error = future.exception(0)
        if value.startswith(b"x"):
            assert type(error) is InvalidRecordError and "begins with x" in str(error)
            assert error.nothing_written == ("an attempt whose outcome is unknown" not in str(error))
        else:
            assert error is None, error
            offsets.append(future.result(0).offset)
    assert offsets == list(range(len(good)))


@pytest.mark.parametrize("idempotent", [True, False])
def test_the_bad_ones_fail_alone_and_the_others_keep_their_order(idempotent: bool) -> None:
    async def story(bench: Bench) -> None:
        values = [b"x5" if n == 5 else b"%d" % n for n in range(10)]
        async with bench.producer(linger_ms=50, enable_idempotence=idempotent) as producer:
            await must_be_right(bench, values, await send_all(producer, values))
            found = producer.statistics()
            assert (found.records_acked, found.records_failed, found.possible_duplicates) == (9, 1, 0)
            assert found.buffered_bytes == 0
            assert (await (await producer.send("t", b"next"))).offset == 9

    run(story)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_bad_in_whatever_batches_that_are_on_their_way(seed: int) -> None:
    """Batches behind the refused one are with the broker already; more are bad than it names; streams break."""

    async def story(bench: Bench) -> None:
        source = Random(seed)
        share = source.choice((0.1, 0.5, 0.9, 1.0))
        values = [(b"x" if source.random() < share else b"v") + b"%060d" % n for n in range(60)]
        options = {"linger_ms": 0, "batch_size": source.choice((200, 500, 2_000)), "compression_type": "zstd"}
        async with bench.producer(**options) as producer:
            futures = []
            for value in values:
                futures.append(await producer.send("t", value))
                if source.random() < 0.05:
                    await asyncio.sleep(0.01)
                if source.random() < 0.05:
                    bench.cluster.break_streams(1)
                if source.random() < 0.05:
                    bench.cluster.fail_produce("t", 0, NetworkError("try again"))
            await must_be_right(bench, values, futures)

    run(story)


def test_all_of_them_bad_fails_each_by_itself() -> None:
    async def story(bench: Bench) -> None:
        values = [b"x1", b"x2"]
        async with bench.producer(linger_ms=50) as producer:
            futures = await send_all(producer, values)
            await must_be_right(bench, values, futures)
            assert [str(f.exception(0)) for f in futures] == [f"the record at {n} begins with x" for n in range(2)]

    run(story)


def test_a_bulk_that_has_bad_ones_says_so_and_the_good_ones_are_written() -> None:
    async def story(bench: Bench) -> None:
        async with bench.producer() as producer:
            future = await producer.send_many("t", [b"a", b"x", b"b"])
            with pytest.raises(InvalidRecordError, match="the record at 1 begins with x"):
                await future
        assert bench.written() == [b"a", b"b"]

    run(story)


@pytest.mark.parametrize("names", [{}, {7: "no such record"}, {-1: "neither"}])
def test_a_refusal_that_names_none_or_strange_ones_fails_the_batch(names: dict[int, str]) -> None:
    """An older broker names none."""

    async def story(bench: Bench) -> None:
        bench.cluster.fail_produce("t", 0, InvalidRecordError("one of them is bad"))

        def strange(_node: int, request: pb.ProduceRequest) -> None:
            bench.cluster.bad_records = lambda records: {}

        bench.cluster.on_produce = strange
        if names:
            bench.cluster.next_error("produce", TP)
            bench.cluster.on_produce = None
            bench.cluster.bad_records = lambda records: names
        async with bench.producer(linger_ms=50) as producer:
            futures = await send_all(producer, [b"a", b"b"])
            for future in futures:
                with pytest.raises(InvalidRecordError):
                    await future
        assert bench.written() == []

    run(story)
