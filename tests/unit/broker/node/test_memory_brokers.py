"""A fourth node, a broker only, joins three in one simulated process, takes its share, goes, and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from penstock import AsyncAdmin, AsyncProducer, TopicPartition
from penstock.errors import BrokerIdNotRegisteredError, PenstockError, PolicyViolationError
from penstock.messages.nodes.brokers import BrokerHeartbeatResponse
from storage.log.log import Log
from tests.support.memory_cluster import MemoryCluster, run_in_memory

FIRST = (0, 1, 2)
FOURTH = 3
ORDERS = TopicPartition("orders", 0)
RECORDS = 100


class Story:
    """The cluster, and its clients."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster
        self.bootstrap, self.environment = cluster.bootstrap(len(FIRST)), cluster.clients()
        self.admin = AsyncAdmin(self.bootstrap, environment=self.environment)

    async def begin(self) -> None:
        """Three of the four nodes run; the topic has records."""
        self.cluster.format()
        await self.cluster.start(3)
        await self.admin.create_topic("orders", 1, 3, {"min.insync.replicas": "2"})
        await self.write()

    async def write(self) -> None:
        async with AsyncProducer(self.bootstrap, environment=self.environment) as producer:
            sent = [await producer.send("orders", b"%d" % number, partition=0) for number in range(RECORDS)]
            for record in sent:
                await record

    async def move(self, **targets: Collection[int]) -> None:
        """The first partition of each topic."""
        moves = {TopicPartition(topic, 0): tuple(replicas) for topic, replicas in targets.items()}
        results = await self.admin.alter_partition_reassignments(moves)
        assert not any(results.values()), results
        while True:
            if not await self.admin.list_partition_reassignments():
                return
            await asyncio.sleep(0.05)

    async def refusal(self) -> str:
        """Why the fourth broker cannot be forgotten."""
        try:
            await self.admin.unregister_broker(FOURTH)
        except PenstockError as error:
            assert isinstance(error, PolicyViolationError), error
            return str(error)
        raise AssertionError("it was forgotten")

    async def brokers(self) -> list[tuple[int, bool, int]]:
        """Id, whether it is fenced, and replicas."""
        described = await self.admin.describe_brokers()
        return [(of.broker.node_id, of.broker.fenced, of.replicas) for of in described]

    async def health(self) -> str:
        """The summary of the health check of the brokers."""
        (check,) = (check for check in (await self.admin.cluster_health()).checks if check.name == "brokers")
        return check.summary

    def log_on(self, index: int) -> Log | None:
        node = self.cluster.nodes[index]
        topic = node.loader.image.topic(ORDERS.topic)
        return None if topic is None else node.log_manager.get(ORDERS, topic.topic_id)

    def bytes_on(self, index: int) -> bytes:
        log = self.log_on(index)
        return b"" if log is None else bytes(log.reader.read(log.log_start_offset, 1 << 30).records)

    def metrics(self, name: str) -> set[float]:
        """The metric's values on the nodes that run."""
        return {r.value for node in self.cluster.nodes for r in node.quorum.readings() if r.name == name}


def run(seed: int, story: Callable[[Story], Awaitable[None]]) -> None:
    async def main(cluster: MemoryCluster) -> None:
        scene = Story(cluster)
        await scene.begin()
        async with scene.admin:
            await story(scene)
        await cluster.stop()

    run_in_memory(seed, main, nodes=4)


async def until(holds: Callable[[], bool]) -> None:
    while True:
        if holds():
            return
        await asyncio.sleep(0.02)


def test_a_fourth_node_joins_takes_its_share_and_goes_for_good() -> None:
    async def story(now: Story) -> None:
        assert await now.brokers() == [(index, False, 1) for index in FIRST]
        await now.cluster.start(1)
        assert await now.brokers() == [(0, False, 1), (1, False, 1), (2, False, 1), (FOURTH, False, 0)]
        assert await now.health() == "all 4 are in service"
        assert max(now.metrics("penstock_controller_active_brokers")) == 4
        made = await now.admin.create_topic("payments", 4, 3)
        assert sum(FOURTH in partition.replicas for partition in made.partitions) == 3, "a fourth of the replicas"
        assert [p.replicas[0] for p in made.partitions].count(FOURTH) == 1
        await now.admin.delete_topic("payments")
        await now.move(orders=(FOURTH, 1, 2))
        (partition,) = (await now.admin.describe_topic("orders")).partitions
        assert set(partition.isr) == {1, 2, FOURTH}
        assert "penstock brokers drain 3" in await now.refusal()
        await now.move(orders=FIRST)
        await until(lambda: now.log_on(FOURTH) is None)
        assert "broker 3 runs" in await now.refusal()
        await now.cluster.stop(1)
        await now.admin.unregister_broker(FOURTH)
        assert await now.brokers() == [(index, False, 1) for index in FIRST]
        assert await now.health() == "all 3 are in service"
        assert now.metrics("penstock_fenced_brokers") == {0}
        assert max(now.metrics("penstock_controller_active_brokers")) == 3
        try:
            await now.admin.unregister_broker(FOURTH)
        except BrokerIdNotRegisteredError as error:
            assert "broker 3 is not registered" in str(error)
        else:
            raise AssertionError("it was forgotten twice")

    run(1, story)


def test_a_forgotten_node_that_comes_back_with_its_old_disk_is_new_and_serves_nothing_of_it() -> None:
    async def story(now: Story) -> None:
        await now.cluster.start(1)
        await now.move(orders=(FOURTH, 1, 2))
        epoch = now.cluster.nodes[0].loader.image.brokers[FOURTH].broker_epoch
        await now.cluster.stop(1)
        await now.write()
        await now.move(orders=FIRST)
        await now.admin.unregister_broker(FOURTH)
        await now.write()
        await now.cluster.start(1)
        node = now.cluster.nodes[FOURTH]
        await until(lambda: FOURTH in node.loader.image.brokers)
        assert node.loader.image.brokers[FOURTH].broker_epoch > epoch
        assert now.log_on(FOURTH) is None and node.log_manager.statistics().strays == 1, "set aside, and not deleted"
        (partition,) = (await now.admin.describe_topic("orders")).partitions
        assert (set(partition.replicas), set(partition.isr), partition.elr) == (set(FIRST), set(FIRST), ())
        assert await now.brokers() == [*((index, False, 1) for index in FIRST), (FOURTH, False, 0)]
        assert await now.health() == "all 4 are in service"
        await now.move(orders=(FOURTH, 1, 2))
        await now.write()
        await until(lambda: len({now.bytes_on(index) for index in (1, 2, FOURTH)}) == 1)

    run(2, story)


def test_a_forgotten_process_that_only_hung_registers_anew_with_its_next_heartbeat() -> None:
    async def story(now: Story) -> None:
        await now.cluster.start(1)
        node = now.cluster.nodes[FOURTH]
        assert node.broker is not None
        lifecycle, goes_on = node.broker.lifecycle, asyncio.Event()
        epoch, heartbeat = lifecycle.broker_epoch, lifecycle._heartbeat

        async def late(*, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
            await goes_on.wait()
            return await heartbeat(want_shut_down=want_shut_down)

        lifecycle._heartbeat = late  # type: ignore[method-assign]
        await until(lambda: now.metrics("penstock_fenced_brokers") == {1})
        await now.admin.unregister_broker(FOURTH)
        assert [node_id for node_id, _, _ in await now.brokers()] == list(FIRST)
        goes_on.set()
        await until(lambda: lifecycle.broker_epoch > epoch and lifecycle.unfenced.is_set())
        assert lifecycle.statistics().registrations_anew == 1
        await now.move(orders=(FOURTH, 1, 2))
        await until(lambda: len({now.bytes_on(index) for index in (1, 2, FOURTH)}) == 1)

    run(4, story)


def test_a_node_that_is_a_voter_too_stays_one_when_its_broker_is_forgotten() -> None:
    async def story(now: Story) -> None:
        await now.cluster.start(1)
        await now.move(orders=(0, 1, FOURTH))
        gone = 2
        await now.cluster.nodes[gone].stop()
        assert (gone, True, 0) in await now.brokers()
        await now.admin.unregister_broker(gone)
        assert [node_id for node_id, _, _ in await now.brokers()] == [0, 1, FOURTH]
        assert [voter.node_id for voter in (await now.admin.describe_quorum()).voters] == list(FIRST)
        del now.cluster.nodes[gone]

    run(3, story)
