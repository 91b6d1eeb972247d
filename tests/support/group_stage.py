"""Consumers of one group and their fake coordinator, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from penstock import AsyncConsumer, TopicPartition
from penstock.record.builder import build_batch
from tests.support.client_environment import fake_environment
from tests.support.fake_broker import FakeCluster, MemoryHost
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.fake_network import FakeNetwork
from tests.support.virtual_time import VirtualTimeLoop, run_virtual, virtual_clock


class Callbacks:
    """The callbacks of a consumer, in order: ("on_assigned", ["t-0"])."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[str]]] = []

    def callbacks(self) -> dict[str, Any]:
        return {name: self._teller(name) for name in ("on_assigned", "on_revoked", "on_lost")}

    def _teller(self, name: str) -> Callable[[list[TopicPartition]], None]:
        def callback(partitions: list[TopicPartition]) -> None:
            self.calls.append((name, [str(tp) for tp in partitions]))

        return callback


class GroupStage:
    """The topic "t" with ten records in each of its partitions; nodes 1 and 2, of which 1 coordinates."""

    def __init__(self, cluster: FakeCluster, network: FakeNetwork, partitions: int) -> None:
        self.cluster, self.network = cluster, network
        self.clock: VirtualTimeLoop = virtual_clock()
        self.coordinator = cluster.coordinator = FakeCoordinator(cluster)
        self.made: list[AsyncConsumer] = []
        self.create("t", partitions)

    def create(self, topic: str, partitions: int, records: int = 10) -> None:
        self.cluster.create_topic(topic, partitions)
        for partition in range(partitions if records else 0):
            self.append(topic, partition, records)

    def append(self, topic: str, partition: int, records: int) -> None:
        self.cluster.append(topic, partition, build_batch([b"%d" % n for n in range(records)], timestamps_ms=0))

    def consumer(self, **options: Any) -> AsyncConsumer:
        options = {"group_id": "g", "auto_offset_reset": "earliest", **options}
        environment = fake_environment(self.network, len(self.made) + 1)
        self.made.append(AsyncConsumer(self.cluster.bootstrap, environment=environment, **options))
        return self.made[-1]

    async def member(self, heard: Callbacks | None = None, **options: Any) -> AsyncConsumer:
        """A consumer that has subscribed to "t"."""
        consumer = self.consumer(**options)
        await consumer.subscribe(["t"], **(heard.callbacks() if heard is not None else {}))
        return consumer

    @staticmethod
    def id_of(consumer: AsyncConsumer) -> str:
        group = consumer._core.group
        assert group is not None
        return group.identity.member_id

    async def settle(self, *consumers: AsyncConsumer, rounds: int = 8) -> list[int]:
        """All poll for a while; the number of records that each got."""
        counts = [0] * len(consumers)
        for _ in range(rounds):
            got = await asyncio.gather(*(consumer.poll(timeout_ms=500) for consumer in consumers))
            counts = [count + len(records) for count, records in zip(counts, got, strict=True)]
        return counts

    @property
    def committed(self) -> dict[str, int]:
        return {str(tp): part.offset for tp, part in sorted(self.coordinator.offsets.items())}


def played(story: Callable[[GroupStage], Awaitable[None]], partitions: int = 4) -> None:
    """Plays a story, and closes the consumers that it leaves open."""

    async def run() -> None:
        network = FakeNetwork(0, (1, 3))
        with FakeCluster(2, host=MemoryHost(network)) as cluster:
            stage = GroupStage(cluster, network, partitions)
            try:
                await story(stage)
            finally:
                await asyncio.gather(*(consumer.close() for consumer in stage.made))

    run_virtual(run())
