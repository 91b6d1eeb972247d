"""The walks of docs/architecture.md are walked: the files of their numbered steps are called in that order.

Three whole nodes and their clients live in this process, and the first call of each function is noted. Not here: steps
without a number, which belong to the one above them, and walks with a word in place of a number.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from types import CodeType, FrameType

import pytest

from penstock import AsyncAdmin, AsyncConsumer, AsyncProducer, TopicPartition
from penstock.client.environment import ClientEnvironment
from tests.support.memory_cluster import MemoryCluster, run_in_memory

ROOT = Path(__file__).resolve().parents[4]
ORDERS = TopicPartition("orders", 0)
WARM_UP_S = 2
"""Metadata, streams and sessions stand before a walk that begins with a record."""
TRIES = 8
PAUSE_S = 0.07
"""Little beside the times after which heartbeats and empty fetches come again, and no part of them."""


class Calls:
    """The functions that are called while it notes: each at its first call, so what a node repeats proves nothing."""

    def __init__(self) -> None:
        self._tries: list[dict[CodeType, None]] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Each time is another try: in one of them the node does little else."""
        self._tries.append({})
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._tries[-1].setdefault(frame.f_code)

    def walked(self, steps: list[str]) -> int:
        """How many of the steps were called in their order, in the best try."""
        return max(_walked([code.co_filename for code in noted], steps) for noted in self._tries)


def _walked(files: list[str], steps: list[str]) -> int:
    later = iter(files)
    return sum(1 for _ in takewhile(lambda step: any(file.endswith(f"/{step}") for file in later), steps))


class World:
    """A running cluster with a topic, and what its clients are made of."""

    def __init__(self, cluster: MemoryCluster, calls: Calls) -> None:
        self.cluster, self.calls = cluster, calls
        self.environment: ClientEnvironment = cluster.clients()
        self.bootstrap = cluster.bootstrap()
        self.admin = AsyncAdmin(self.bootstrap, environment=self.environment)

    def producer(self, transactional_id: str | None = None) -> AsyncProducer:
        return AsyncProducer(self.bootstrap, environment=self.environment, transactional_id=transactional_id)

    def consumer(self, group_id: str | None = None) -> AsyncConsumer:
        return AsyncConsumer(
            self.bootstrap, environment=self.environment, group_id=group_id, auto_offset_reset="earliest"
        )


async def produce(world: World) -> None:
    async with world.producer() as producer:
        await (await producer.send("orders", b"before"))
        await asyncio.sleep(WARM_UP_S)
        for _ in range(TRIES):
            with world.calls.noted():
                await (await producer.send("orders", b"now"))
            await asyncio.sleep(PAUSE_S)


async def replicate(world: World) -> None:
    """The last broker leaves, and comes back into the ISR."""
    await world.cluster.stop(1)
    async with world.producer() as producer:
        await (await producer.send("orders", b"without it", partition=0))
        with world.calls.noted():
            await world.cluster.start()
            while len((await world.admin.describe_topic("orders")).partitions[0].isr) < 3:
                pass


async def consume(world: World) -> None:
    async with world.producer() as producer, world.consumer() as consumer:
        await consumer.assign([ORDERS])
        await consumer.poll(WARM_UP_S * 1_000)
        await (await producer.send("orders", b"now", partition=0))
        with world.calls.noted():
            await consumer.seek_to_beginning()
            assert await consumer.poll(10_000)


async def create_topic(world: World) -> None:
    await asyncio.sleep(WARM_UP_S)
    for number in range(TRIES):
        with world.calls.noted():
            await world.admin.create_topic(f"payments-{number}", partitions=1)
        await asyncio.sleep(PAUSE_S)


async def join_and_commit(world: World) -> None:
    async with world.producer() as producer, world.consumer("shop") as consumer:
        await (await producer.send("orders", b"now"))
        with world.calls.noted():
            await consumer.subscribe(["orders"])
            while not await consumer.poll(1_000):
                pass
            await consumer.commit()


async def commit_a_transaction(world: World) -> None:
    async with world.producer("till") as producer:
        with world.calls.noted():
            await producer.begin_transaction()
            await (await producer.send("orders", b"now"))
            await producer.commit_transaction()
            await asyncio.sleep(WARM_UP_S)


def steps_of(title: str) -> list[str]:
    """The files of the numbered rows below a title of the page."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {title}", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"(?m)^\| \d+ \| `([^`]+)` \|", section)


@pytest.mark.parametrize(
    ("title", "walk"),
    [
        ("Produce", produce),
        ("Replicate", replicate),
        ("Consume", consume),
        ("Metadata", create_topic),
        ("Groups", join_and_commit),
        ("Transactions", commit_a_transaction),
    ],
)
def test_a_walk_is_walked_in_the_order_of_its_steps(title: str, walk: Callable[[World], Awaitable[None]]) -> None:
    calls = Calls()

    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        world = World(cluster, calls)
        async with world.admin as admin:
            await admin.create_topic("orders", partitions=1)
            await walk(world)
        await cluster.stop()

    run_in_memory(1, story)
    steps = steps_of(title)
    assert len(steps) > 5
    walked = calls.walked(steps)
    assert walked == len(steps), f"{steps[walked]} is not called after the steps before it"
