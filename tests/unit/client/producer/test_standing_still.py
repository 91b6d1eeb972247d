"""A partition that acks nothing holds up no other of its producer: in virtual time, over fake nodes that answer in
parts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock import AsyncProducer
from penstock.client.producer.future import RecordFuture
from penstock.errors import BufferExhaustedError, PenstockError, TimedOutError
from penstock.pb import broker_pb2 as pb
from tests.support.client_environment import fake_environment
from tests.support.fake_broker import FakeCluster, MemoryHost
from tests.support.fake_network import FakeNetwork
from tests.support.virtual_time import run_virtual, virtual_clock

HUNG, WELL, THIRD = range(3)


class Bench:
    """One node that leads three partitions."""

    def __init__(self) -> None:
        self.network = FakeNetwork()
        self.cluster = FakeCluster(1, host=MemoryHost(self.network)).__enter__()
        self.cluster.create_topic("t", 3)

    def producer(self, **options: Any) -> AsyncProducer:
        return AsyncProducer(self.cluster.bootstrap, environment=fake_environment(self.network), **options)

    def requests_of(self, partition: int) -> int:
        return sum(any(p.partition == partition for p in request.partitions) for _, request in self.cluster.produced)


def run(story: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        bench = Bench()
        await story(bench)
        bench.cluster.__exit__()
        await asyncio.sleep(0)

    run_virtual(main())


async def send(producer: AsyncProducer, partition: int, value: bytes = b"v") -> RecordFuture:
    return await producer.send("t", value, partition=partition)


async def took_ms(work: Awaitable[object]) -> int:
    began_ms = virtual_clock().now_ms()
    await work
    return virtual_clock().now_ms() - began_ms


async def until_closed(producer: AsyncProducer) -> None:
    with contextlib.suppress(PenstockError):
        await producer.close(0)


def test_the_others_are_acked_while_one_stands_still_and_it_keeps_its_order() -> None:
    async def story(bench: Bench) -> None:
        async with bench.producer(linger_ms=0, batch_size=200) as producer:  # a batch for each record
            await (await send(producer, HUNG, b"before"))
            bench.cluster.stand_still("t", HUNG)
            kept = []
            for number in range(40):
                kept.append(await send(producer, HUNG, b"%0100d" % number))
                well = await send(producer, WELL)
                third = await send(producer, THIRD)
                assert await took_ms(asyncio.wait_for(asyncio.gather(well, third), 1)) < 100
            assert not any(future.done() for future in kept)
            assert bench.requests_of(HUNG) == 6, "no more than a log knows again"
            assert producer.statistics().requests_in_flight == 5
            bench.cluster.stand_still("t", HUNG, False)
            assert [(await future).offset for future in kept] == list(range(1, 41))
            assert producer.statistics().batches_retried == 0

    run(story)


def test_without_idempotence_too() -> None:
    async def story(bench: Bench) -> None:
        async with bench.producer(linger_ms=0, enable_idempotence=False) as producer:
            bench.cluster.stand_still("t", HUNG)
            kept = await send(producer, HUNG)
            for _ in range(10):
                await asyncio.wait_for(await send(producer, WELL), 1)
            assert bench.requests_of(HUNG) == 1
            bench.cluster.stand_still("t", HUNG, False)
            await kept

    run(story)


def test_one_that_never_answers_times_out_alone_and_its_stream_goes_on() -> None:
    async def story(bench: Bench) -> None:
        producer = bench.producer(linger_ms=0, request_timeout_ms=2_000, delivery_timeout_ms=5_000)
        await (await send(producer, WELL))
        bench.cluster.stand_still("t", HUNG)
        kept = await send(producer, HUNG)
        for _ in range(60):
            await asyncio.sleep(0.1)
            await asyncio.wait_for(await send(producer, WELL), 1)
        error = kept.exception(0)
        assert isinstance(error, TimedOutError) and "may be written" in str(error)
        assert bench.requests_of(HUNG) == 3, "it was tried again after each time-out"
        assert [method for _, method in bench.network.asked].count("/penstock.v1.Broker/Produce") == 1
        await until_closed(producer)

    run(story)


def test_the_time_out_of_the_broker_comes_before_that_of_the_client() -> None:
    async def story(bench: Bench) -> None:
        async with bench.producer(request_timeout_ms=30_000) as producer:
            await (await send(producer, WELL))
        assert [request.timeout_ms for _, request in bench.cluster.produced] == [29_000]
        assert all(request.answer_in_parts for _, request in bench.cluster.produced)

    run(story)


def test_a_broker_that_knows_no_parts_answers_as_before() -> None:
    async def story(bench: Bench) -> None:
        def older(_node: int, request: pb.ProduceRequest) -> None:
            request.answer_in_parts = False

        bench.cluster.on_produce = older
        async with bench.producer(linger_ms=0) as producer:
            bench.cluster.stand_still("t", HUNG)
            both = [await send(producer, HUNG), await send(producer, WELL)]
            await asyncio.sleep(1)
            assert not any(future.done() for future in both)
            bench.cluster.stand_still("t", HUNG, False)
            await asyncio.gather(*both)

    run(story)


def test_what_stands_still_is_taken_to_the_next_leader_and_the_others_stay() -> None:
    async def story(bench: Bench) -> None:
        network = FakeNetwork()
        bench.network = network
        bench.cluster = FakeCluster(2, host=MemoryHost(network)).__enter__()
        bench.cluster.create_topic("t", leaders={HUNG: 1, WELL: 1, THIRD: 1})
        async with bench.producer(linger_ms=0) as producer:
            bench.cluster.stand_still("t", HUNG)
            kept = await send(producer, HUNG)
            await asyncio.wait_for(await send(producer, WELL), 1)
            await asyncio.sleep(1)
            bench.cluster.stand_still("t", HUNG, False)  # the old leader says what it wants; nobody asks it
            bench.cluster.stand_still("t", HUNG)
            bench.cluster.move_leader("t", HUNG, 2)
            await asyncio.sleep(3)
            bench.cluster.stand_still("t", HUNG, False)
            await asyncio.wait_for(kept, 5)
            await asyncio.wait_for(await send(producer, WELL), 1)

    run(story)


VALUE = b"v" * 9_000
BUFFER = 100_000


async def fill(producer: AsyncProducer, partition: int, count: int) -> None:
    """Records that find room at once, but for the last one."""
    for _ in range(count):
        await asyncio.wait_for(send(producer, partition, VALUE), 0.1)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(send(producer, partition, VALUE), 0.1)


def test_what_stands_still_holds_half_of_the_buffer_while_others_are_acked() -> None:
    async def story(bench: Bench) -> None:
        options = {"linger_ms": 0, "batch_size": 10_000, "buffer_memory": BUFFER, "max_block_ms": 3_000}
        producer = bench.producer(**options)
        bench.cluster.stand_still("t", HUNG)
        bench.cluster.stand_still("t", THIRD)
        await send(producer, HUNG, VALUE)
        await send(producer, THIRD, VALUE)
        for _ in range(30):
            await (await send(producer, WELL, VALUE))
            await asyncio.sleep(0.1)
        await fill(producer, HUNG, 3)  # with the two above, half of it
        waiting = asyncio.ensure_future(send(producer, THIRD, VALUE))
        for _ in range(40):
            sent = [await asyncio.wait_for(send(producer, WELL, VALUE), 0.01) for _ in range(4)]
            await asyncio.gather(*sent)
            await asyncio.sleep(0.1)
        with pytest.raises(BufferExhaustedError, match=r"t-0 and 1 more partitions hold \d+ of them and are not acked"):
            await waiting
        bench.cluster.stand_still("t", HUNG, False)
        bench.cluster.stand_still("t", THIRD, False)
        await producer.close()

    run(story)


def test_it_may_hold_all_of_it_while_nothing_is_acked() -> None:
    async def story(bench: Bench) -> None:
        producer = bench.producer(linger_ms=0, batch_size=10_000, buffer_memory=BUFFER)
        await (await send(producer, WELL, VALUE))
        bench.cluster.stand_still("t", HUNG)
        await send(producer, HUNG, VALUE)
        await asyncio.sleep(5)
        await fill(producer, HUNG, 9)
        bench.cluster.stand_still("t", HUNG, False)
        await producer.close()

    run(story)


def test_the_log_says_which_partition_is_not_acked_while_others_are(caplog: pytest.LogCaptureFixture) -> None:
    async def story(bench: Bench) -> None:
        async with bench.producer(linger_ms=0) as producer:
            bench.cluster.stand_still("t", HUNG)
            kept = await send(producer, HUNG)
            for _ in range(80):
                await (await send(producer, WELL))
                await asyncio.sleep(0.1)
            bench.cluster.stand_still("t", HUNG, False)
            await kept
            await (await send(producer, WELL))

    with caplog.at_level(logging.WARNING, "penstock.client.producer"):
        run(story)
    lines = [record.getMessage() for record in caplog.records if record.name == "penstock.client.producer.stalled"]
    assert [line[:29] for line in lines] == ["nothing is acked for 5 s: t-0", "records are acked again after"], lines


def test_what_grew_behind_a_batch_that_timed_out_goes_at_once() -> None:
    """Without idempotence one batch is with the broker at a time, and the next one grows meanwhile."""

    async def story(bench: Bench) -> None:
        options = {"enable_idempotence": False, "request_timeout_ms": 3_000, "delivery_timeout_ms": 5_000}
        async with bench.producer(linger_ms=0, **options) as producer:
            await (await send(producer, WELL))
            bench.cluster.stand_still("t", HUNG)
            first = await send(producer, HUNG)
            await asyncio.sleep(4)
            second = await send(producer, HUNG)
            await asyncio.sleep(0.99)
            with pytest.raises(TimedOutError):
                await first
            assert bench.requests_of(HUNG) >= 1
            sent = bench.requests_of(HUNG)
            await asyncio.sleep(0.1)
            assert bench.requests_of(HUNG) == sent + 1
            bench.cluster.stand_still("t", HUNG, False)
            assert await took_ms(asyncio.wait_for(second, 1)) < 100

    run(story)
