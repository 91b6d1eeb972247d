"""Replicas move between five whole nodes in one event loop of virtual time, while a producer and a consumer go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from broker.requests import FetchResponse
from penstock import AsyncAdmin, AsyncConsumer, AsyncProducer, TopicPartition
from penstock.errors import NoReassignmentInProgressError
from storage.log.log import Log
from tests.support.client_environment import fake_environment
from tests.support.fake_network import FakeNetwork
from tests.support.memory_cluster import MemoryCluster, run_in_memory
from tests.support.memory_network import MemoryFetchStream
from tests.support.node_service import open_to_clients
from tests.support.virtual_time import virtual_clock

NODES = 5
LIMIT_SECONDS = 60
"""Of virtual time, for one story."""
ORDERS = TopicPartition("orders", 0)


class Traffic:
    """Records of acks=all, one after the other, and a consumer behind them."""

    def __init__(self, cluster: MemoryCluster, network: FakeNetwork) -> None:
        self.cluster = cluster
        self.bootstrap = ",".join(str(cluster.endpoint(index)) for index in range(NODES))
        self.environment = fake_environment(network)
        self.acked: list[tuple[int, bytes | None]] = []
        self.read: list[tuple[int, bytes | None]] = []
        self.ends = self.all_acked = False
        self.slowest_ms = 0
        """Of all acks."""

    async def produce(self) -> None:
        async with AsyncProducer(self.bootstrap, environment=self.environment, linger_ms=0) as producer:
            number = 0
            while not self.ends:
                value, began_ms = b"%d" % number, virtual_clock().now_ms()
                self.acked.append(((await (await producer.send("orders", value))).offset, value))
                self.slowest_ms = max(self.slowest_ms, virtual_clock().now_ms() - began_ms)
                number += 1
        self.all_acked = True

    async def consume(self) -> None:
        earliest = {"auto_offset_reset": "earliest"}
        async with AsyncConsumer(self.bootstrap, environment=self.environment, **earliest) as consumer:
            await consumer.assign([ORDERS])
            while not self.all_acked or len(self.read) < len(self.acked):
                self.read += [(record.offset, record.value) for record in await consumer.poll(200)]

    def where(self) -> list[int]:
        """The nodes that have the partition's data."""
        return [index for index in range(NODES) if self.log_on(index) is not None]

    def log_on(self, index: int) -> Log | None:
        node = self.cluster.nodes[index]
        topic = node.loader.image.topic(ORDERS.topic)
        return None if topic is None else node.log_manager.get(ORDERS, topic.topic_id)

    def size_on(self, index: int) -> int:
        log = self.log_on(index)
        return 0 if log is None else log.size_bytes

    def copied_to(self, index: int) -> int:
        """Bytes, as a replica that moves."""
        broker = self.cluster.nodes[index].broker
        assert broker is not None
        return broker.follower_throttle.bytes_total

    def bytes_on(self, index: int) -> bytes:
        log = self.log_on(index)
        assert log is not None
        return bytes(log.read(log.log_start_offset, 1 << 30).records)


Story = Callable[[AsyncAdmin, Traffic, tuple[int, ...]], Awaitable[None]]


def told(seed: int, story: Story) -> None:
    """The story, while records are written and read; then everything acked was read once, in order."""

    async def run(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        network = FakeNetwork(seed=cluster.random.getrandbits(32), latency_ms=(0, 2))
        open_to_clients(cluster, network)
        traffic = Traffic(cluster, network)
        async with AsyncAdmin(traffic.bootstrap, environment=traffic.environment) as admin:
            await admin.create_topic("orders", 1, 3, {"min.insync.replicas": "2"})
            (partition,) = (await admin.describe_topic("orders")).partitions
            async with asyncio.TaskGroup() as clients:
                clients.create_task(traffic.produce())
                clients.create_task(traffic.consume())
                await asyncio.sleep(0.5)
                await asyncio.wait_for(story(admin, traffic, partition.replicas), LIMIT_SECONDS)
                await asyncio.sleep(0.5)
                traffic.ends = True
        assert traffic.acked and traffic.read == traffic.acked
        assert [offset for offset, _ in traffic.acked] == list(range(len(traffic.acked)))
        await cluster.stop()

    run_in_memory(seed, run, nodes=NODES)


async def until(holds: Callable[[], bool]) -> None:
    while True:
        if holds():
            return
        await asyncio.sleep(0.02)


async def moved(admin: AsyncAdmin, target: Sequence[int] | None) -> None:
    """The partition has these replicas, all in sync, and the others have none of its data."""
    assert (await admin.alter_partition_reassignments({ORDERS: target}))[ORDERS] is None
    while True:
        if not await admin.list_partition_reassignments():
            return
        await asyncio.sleep(0.05)


async def settled(traffic: Traffic, replicas: Sequence[int]) -> None:
    await until(lambda: traffic.where() == sorted(replicas))


def others(replicas: Sequence[int]) -> list[int]:
    return [index for index in range(NODES) if index not in replicas]


@pytest.mark.parametrize("seed", range(3))
def test_a_partition_moves_to_other_brokers_and_back_while_its_clients_go_on(seed: int) -> None:
    async def story(admin: AsyncAdmin, traffic: Traffic, replicas: tuple[int, ...]) -> None:
        for target in ((*others(replicas), replicas[2]), replicas, replicas[::-1]):
            await moved(admin, target)
            (partition,) = (await admin.describe_topic("orders")).partitions
            assert partition.replicas == tuple(target) and set(partition.isr) == set(target)
            await settled(traffic, target)
            enough = len(traffic.acked) + 20
            await until(lambda enough=enough: len(traffic.acked) >= enough)  # type: ignore[misc]

    told(seed, story)


def test_a_move_is_cancelled_half_way_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = asyncio.Event()
    goes_on.set()
    receive = MemoryFetchStream.receive

    async def held_up(stream: MemoryFetchStream) -> FetchResponse:
        await goes_on.wait()
        return await receive(stream)

    monkeypatch.setattr(MemoryFetchStream, "receive", held_up)

    async def story(admin: AsyncAdmin, traffic: Traffic, replicas: tuple[int, ...]) -> None:
        target = (*others(replicas), replicas[0])
        goes_on.clear()
        assert (await admin.alter_partition_reassignments({ORDERS: target}))[ORDERS] is None
        assert (await admin.list_partition_reassignments())[ORDERS].adding_replicas == target[:2]
        await settled(traffic, range(NODES))
        await moved(admin, None)
        goes_on.set()
        (partition,) = (await admin.describe_topic("orders")).partitions
        assert sorted(partition.replicas) == sorted(replicas) and not partition.is_reassigning
        await settled(traffic, replicas)
        again = (await admin.alter_partition_reassignments({ORDERS: None}))[ORDERS]
        assert isinstance(again, NoReassignmentInProgressError)

    told(1, story)


def test_a_replica_that_went_and_comes_back_at_once_begins_anew() -> None:
    """The fetch of the replica that was deleted must not let the new one into the ISR."""

    async def story(admin: AsyncAdmin, traffic: Traffic, replicas: tuple[int, ...]) -> None:
        gone = replicas[2]
        for _ in range(5):
            await admin.alter_partition_reassignments({ORDERS: replicas[:2]})
            await moved(admin, (*replicas[:2], gone))
            await settled(traffic, replicas)
            (partition,) = (await admin.describe_topic("orders")).partitions
            assert set(partition.isr) == set(replicas)
        await asyncio.sleep(0.1)

    told(2, story)


def test_the_replicas_are_equal_byte_by_byte_after_a_move() -> None:
    async def story(admin: AsyncAdmin, traffic: Traffic, replicas: tuple[int, ...]) -> None:
        target = (*others(replicas), replicas[1])
        await moved(admin, target)
        await settled(traffic, target)
        traffic.ends = True
        await asyncio.sleep(2)
        assert len({traffic.bytes_on(index) for index in target}) == 1

    told(3, story)


def test_a_throttled_move_takes_its_time_and_no_ack_waits_for_it() -> None:
    rate, grown = 60_000, 240_000

    async def story(admin: AsyncAdmin, traffic: Traffic, replicas: tuple[int, ...]) -> None:
        leader = replicas[0]
        await until(lambda: traffic.size_on(leader) >= grown)
        keys = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
        await admin.alter_broker_config(None, dict.fromkeys(keys, rate))
        began, target, slowest = virtual_clock().now_ms(), (*replicas[:2], others(replicas)[0]), traffic.slowest_ms
        traffic.slowest_ms = 0
        await moved(admin, target)
        took_s = (virtual_clock().now_ms() - began) / 1000
        copied = traffic.copied_to(target[2])
        assert copied >= grown and 0.9 * rate <= copied / took_s <= 1.05 * rate, (copied, took_s)
        assert traffic.slowest_ms <= 2 * max(slowest, 20), "records of producers wait for no copy"
        await admin.alter_broker_config(None, dict.fromkeys(keys))
        await settled(traffic, target)

    told(4, story)
