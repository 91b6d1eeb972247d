"""Both faces of a producer wait and end alike."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from penstock import AsyncProducer
from penstock.client.producer.memory import STILL_MS
from tests.support.client_environment import fake_environment
from tests.support.fake_broker import FakeCluster, MemoryHost
from tests.support.fake_network import FakeNetwork
from tests.support.virtual_time import run_virtual, virtual_clock


def in_memory(story: Any) -> None:
    async def run() -> None:
        network = FakeNetwork()
        with FakeCluster(1, host=MemoryHost(network)) as cluster:
            cluster.create_topic("t", 2)
            await story(cluster, fake_environment(network))
        await asyncio.sleep(0)

    run_virtual(run())


def test_a_close_that_is_out_of_time_says_how_many_records_were_not_acked(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: FakeCluster, environment: Any) -> None:
        producer = AsyncProducer(cluster.bootstrap, environment=environment, linger_ms=0)
        await (await producer.send("t", b"v", partition=0))
        cluster.stand_still("t", 0)
        futures = [await producer.send("t", b"v", partition=0) for _ in range(3)]
        await producer.close(1)
        assert all(future.exception(0) is not None for future in futures)

    with caplog.at_level(logging.WARNING, logger="penstock.client.producer"):
        in_memory(story)
    assert [r.getMessage() for r in caplog.records if "within the 1 s of its close" in r.getMessage()]
    assert "AsyncProducer(" in caplog.text and "3 records were not acked" in caplog.text


def test_a_send_that_waits_for_memory_gets_what_its_partition_may_have_as_time_goes_by() -> None:
    """Nothing is given back meanwhile: the others are not acked any more, so nobody needs the rest of the buffer."""

    async def story(cluster: FakeCluster, environment: Any) -> None:
        options: Any = {"linger_ms": 0, "batch_size": 1_000, "buffer_memory": 100_000, "max_block_ms": 60_000}
        producer = AsyncProducer(cluster.bootstrap, environment=environment, **options)
        cluster.stand_still("t", 0)
        await producer.send("t", b"v", partition=0)
        await asyncio.sleep(STILL_MS / 1000 + 1)
        await (await producer.send("t", b"v", partition=1))
        began_ms = virtual_clock().now_ms()
        for _ in range(70):
            await producer.send("t", bytes(900), partition=0)
        assert STILL_MS - 1_000 <= virtual_clock().now_ms() - began_ms <= STILL_MS + 1_000
        await producer.close(0)

    in_memory(story)


def test_every_call_belongs_to_the_loop_of_the_first_use() -> None:
    with FakeCluster() as cluster:
        producer = AsyncProducer(cluster.bootstrap)

        async def elsewhere() -> None:
            for call in (producer.flush, producer.waiting_for):
                with pytest.raises(RuntimeError, match="the event loop on which it was first used"):
                    await call()

        async def first() -> None:
            await producer.start()
            await asyncio.to_thread(asyncio.run, elsewhere())
            await producer.close()

        asyncio.run(first())
