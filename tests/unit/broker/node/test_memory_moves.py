"""Replicas move between five whole nodes in one simulated process, while a producer and a consumer go on."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

import pytest

from broker.grpc.outgoing_calls import GrpcFetchStream
from penstock import AsyncAdmin, AsyncConsumer, AsyncProducer, TopicPartition
from penstock.errors import NoReassignmentInProgressError, TimedOutError
from penstock.messages.fetch import FetchResponse
from storage.disk.file_system import Bytes
from storage.log.log import Log
from tests.support.amount import at_night, usually
from tests.support.losing_fs import LosingFileSystem
from tests.support.memory_cluster import MemoryCluster, run_in_memory

NODES = 5
LIMIT_SECONDS = 60
"""Limit of virtual time for one story."""
ADMIN_TIMEOUT_MS = 5_000
ORDERS = TopicPartition("orders", 0)


class Traffic:
    """Records of acks=all, one after the other, and a consumer behind them."""

    def __init__(self, cluster: MemoryCluster, pause_s: float, value_bytes: int) -> None:
        self.cluster, self.pause_s, self.value_bytes = cluster, pause_s, value_bytes
        self.bootstrap, self.environment, self.clock = cluster.bootstrap(), cluster.clients(), cluster.clock
        self.acked: list[tuple[int, bytes | None]] = []
        self.read: list[tuple[int, bytes | None]] = []
        self.ends = self.all_acked = False
        self.slowest_ms = 0
        """The time of the slowest ack."""

    async def produce(self) -> None:
        async with AsyncProducer(self.bootstrap, environment=self.environment, linger_ms=0) as producer:
            number = 0
            while not self.ends:
                value, began_ms = (b"%d" % number).ljust(self.value_bytes), self.clock.now_ms()
                self.acked.append(((await (await producer.send("orders", value))).offset, value))
                self.slowest_ms = max(self.slowest_ms, self.clock.now_ms() - began_ms)
                number += 1
                if self.pause_s:
                    await asyncio.sleep(self.pause_s)
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
        return broker.replication.follower_throttle.bytes_total

    def bytes_on(self, index: int) -> bytes:
        log = self.log_on(index)
        assert log is not None
        return bytes(log.reader.read(log.log_start_offset, 1 << 30).records)


class FillingDisk(LosingFileSystem):
    """A disk that is full for whatever is below a path: nothing grows there by more than `left_bytes`, and nothing is
    created. The write that does not fit takes what is left, as on a real disk."""

    def __init__(self) -> None:
        super().__init__()
        self.full_below: str | None = None
        self.left_bytes = 0
        self.refused = 0

    def fill(self, path: str, left_bytes: int = 0) -> None:
        self.full_below, self.left_bytes = path, left_bytes

    def make_room(self) -> None:
        self.full_below = None

    def open(self, path: str, *, create: bool = False) -> int:
        if create:
            self._require_room(path)
        return super().open(path, create=create)

    def mkdir(self, path: str) -> None:
        self._require_room(path)
        super().mkdir(path)

    def pwritev(self, fd: int, buffers: Sequence[Bytes], at: int) -> int:
        file = self._held(fd)
        if self.full_below is None or all(file is not self.file_at(path) for path in self._files_below()):
            return super().pwritev(fd, buffers, at)
        content = b"".join(buffers)[: max(0, len(file.data) - at) + self.left_bytes]
        if not content:
            self._refuse()
        self.left_bytes -= max(0, at + len(content) - len(file.data))
        return super().pwritev(fd, [content], at)

    def _files_below(self) -> list[str]:
        return [path for path in self.files() if self._is_full(path)]

    def _is_full(self, path: str) -> bool:
        return self.full_below is not None and path.startswith(self.full_below)

    def _require_room(self, path: str) -> None:
        if self._is_full(path):
            self._refuse()

    def _refuse(self) -> NoReturn:
        self.refused += 1
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


Story = Callable[[AsyncAdmin, Traffic, tuple[int, ...]], Awaitable[None]]


def run(
    seed: int,
    story: Story,
    disk: Callable[[], LosingFileSystem] = LosingFileSystem,
    pause_s: float = 0.02,
    value_bytes: int = 0,
) -> None:
    """The story, while records are written and read; then everything acked was read once, in order."""

    async def main(cluster: MemoryCluster) -> None:
        cluster.disks = [disk() for _ in cluster.disks]
        cluster.format()
        await cluster.start()
        traffic = Traffic(cluster, pause_s, value_bytes)
        options = {"environment": traffic.environment, "default_api_timeout_ms": ADMIN_TIMEOUT_MS}
        async with AsyncAdmin(traffic.bootstrap, **options) as admin:
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

    run_in_memory(seed, main, nodes=NODES)


async def until(holds: Callable[[], bool]) -> None:
    while True:
        if holds():
            return
        await asyncio.sleep(0.02)


async def moved(admin: AsyncAdmin, target: Sequence[int] | None) -> None:
    """The partition has these replicas, all in sync, and the others have none of its data."""
    assert (await admin.alter_partition_reassignments({ORDERS: target}))[ORDERS] is None
    await over(admin)


async def over(admin: AsyncAdmin) -> None:
    while True:
        if not await admin.list_partition_reassignments():
            return
        await asyncio.sleep(0.05)


async def settled(traffic: Traffic, replicas: Sequence[int]) -> None:
    await until(lambda: traffic.where() == sorted(replicas))


def others(replicas: Sequence[int]) -> list[int]:
    return [index for index in range(NODES) if index not in replicas]


@pytest.mark.parametrize("seed", range(usually(1, long=3)))
def test_a_partition_moves_to_other_brokers_and_back_while_its_clients_go_on(seed: int) -> None:
    async def story(admin: AsyncAdmin, traffic: Traffic, replicas: tuple[int, ...]) -> None:
        for target in ((*others(replicas), replicas[2]), replicas, replicas[::-1]):
            await moved(admin, target)
            (partition,) = (await admin.describe_topic("orders")).partitions
            assert partition.replicas == tuple(target) and set(partition.isr) == set(target)
            await settled(traffic, target)
            enough = len(traffic.acked) + 20
            await until(lambda enough=enough: len(traffic.acked) >= enough)  # type: ignore[misc]

    run(seed, story)


def test_a_move_is_cancelled_half_way_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = asyncio.Event()
    goes_on.set()
    receive = GrpcFetchStream.receive

    async def held_up(stream: GrpcFetchStream) -> FetchResponse:
        await goes_on.wait()
        return await receive(stream)

    monkeypatch.setattr(GrpcFetchStream, "receive", held_up)

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

    run(1, story)


def test_a_replica_that_went_and_comes_back_at_once_begins_anew() -> None:
    """The fetch of the replica that was deleted must not let the new one into the ISR."""

    async def story(admin: AsyncAdmin, traffic: Traffic, replicas: tuple[int, ...]) -> None:
        gone = replicas[2]
        for _ in range(usually(2, long=5)):
            await admin.alter_partition_reassignments({ORDERS: replicas[:2]})
            await moved(admin, (*replicas[:2], gone))
            await settled(traffic, replicas)
            (partition,) = (await admin.describe_topic("orders")).partitions
            assert set(partition.isr) == set(replicas)
        await asyncio.sleep(0.1)

    run(2, story, pause_s=0)


def test_the_replicas_are_equal_byte_by_byte_after_a_move() -> None:
    async def story(admin: AsyncAdmin, traffic: Traffic, replicas: tuple[int, ...]) -> None:
        target = (*others(replicas), replicas[1])
        await moved(admin, target)
        await settled(traffic, target)
        traffic.ends = True
        await asyncio.sleep(2)
        assert len({traffic.bytes_on(index) for index in target}) == 1

    run(3, story)


def test_a_throttled_move_takes_its_time_and_no_ack_waits_for_it() -> None:
    rate, grown = 60_000, 240_000

    async def story(admin: AsyncAdmin, traffic: Traffic, replicas: tuple[int, ...]) -> None:
        leader = replicas[0]
        await until(lambda: traffic.size_on(leader) >= grown)
        keys = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
        await admin.alter_broker_config(None, dict.fromkeys(keys, rate))
        began, target, slowest = traffic.clock.now_ms(), (*replicas[:2], others(replicas)[0]), traffic.slowest_ms
        traffic.slowest_ms = 0
        await moved(admin, target)
        took_s = (traffic.clock.now_ms() - began) / 1000
        copied = traffic.copied_to(target[2])
        assert copied >= grown and 0.9 * rate <= copied / took_s <= 1.05 * rate, (copied, took_s)
        assert traffic.slowest_ms <= 2 * max(slowest, 20), "records of producers wait for no copy"
        await admin.alter_broker_config(None, dict.fromkeys(keys))
        await settled(traffic, target)

    run(4, story, pause_s=0.2, value_bytes=4_000)


WHOLE, PARTITION_ONLY = "", f"/{ORDERS}"
"""The part that is full: the log dir with the metadata log in it, or, as if that had a disk of its own, the replica
alone."""
FULL_SECONDS = 5
"""Longer than a session, and than a follower may lag."""


class Destination:
    """The broker that a replica moves to, and its disk."""

    def __init__(self, traffic: Traffic, replicas: tuple[int, ...], what: str) -> None:
        self.traffic, self.replicas, self.what = traffic, replicas, what
        self.node = others(replicas)[0]
        self.target = (*replicas[:2], self.node)
        disk = traffic.cluster.disks[self.node]
        assert isinstance(disk, FillingDisk)
        self.disk = disk
        self.path = traffic.cluster.config(self.node).log_dirs[0] + what

    async def prepare(self, admin: AsyncAdmin) -> None:
        """The partition has something to copy, and the copy will take its time."""
        await until(lambda: self.traffic.size_on(self.replicas[0]) >= 120_000)
        await self.throttle(admin, 40_000)

    async def throttle(self, admin: AsyncAdmin, rate: int | None) -> None:
        keys = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
        await admin.alter_broker_config(None, dict.fromkeys(keys, rate))

    async def order(self, admin: AsyncAdmin, target: Sequence[int] | None) -> None:
        """A move, or its end. A broker whose metadata log has no room does not hear of it, which the answer says."""
        if self.disk.full_below is None or self.what == PARTITION_ONLY:
            assert (await admin.alter_partition_reassignments({ORDERS: target}))[ORDERS] is None
            return
        with pytest.raises(TimedOutError, match="the change was made, but some brokers do not have it yet"):
            await admin.alter_partition_reassignments({ORDERS: target})

    async def be_full_in_mid_move(self) -> None:
        await until(lambda: 20_000 < self.traffic.size_on(self.node) < self.traffic.size_on(self.replicas[0]) / 2)
        self.disk.fill(self.path, left_bytes=1_000)

    async def stay_full(self, admin: AsyncAdmin) -> None:
        """The move waits, and nobody is worse off: the replicas in sync stay that, and acks take no longer."""
        slowest, self.traffic.slowest_ms, acked = self.traffic.slowest_ms, 0, len(self.traffic.acked)
        for _ in range(FULL_SECONDS):
            await asyncio.sleep(1)
            (partition,) = (await admin.describe_topic("orders")).partitions
            assert partition.is_reassigning and set(partition.isr) == set(self.replicas), partition
            assert partition.leader_id == self.replicas[0] and partition.leader_epoch == 0, partition
        assert self.disk.refused, "the disk was not full"
        assert len(self.traffic.acked) > acked + 50 and self.traffic.slowest_ms <= 2 * max(slowest, 20)

    async def end(self, admin: AsyncAdmin) -> None:
        """There is room: the move ends, and the new replica is equal to the others."""
        self.disk.make_room()
        await self.throttle(admin, None)
        await over(admin)
        (partition,) = (await admin.describe_topic("orders")).partitions
        assert partition.replicas == self.target and set(partition.isr) == set(self.target)
        await settled(self.traffic, self.target)
        self.traffic.ends = True
        await asyncio.sleep(2)
        assert len({self.traffic.bytes_on(index) for index in self.target}) == 1


@pytest.mark.parametrize("what", at_night([WHOLE, PARTITION_ONLY], [WHOLE]))
def test_a_move_to_a_disk_that_fills_waits_for_room_and_hurts_nobody(what: str) -> None:
    async def story(admin: AsyncAdmin, traffic: Traffic, replicas: tuple[int, ...]) -> None:
        destination = Destination(traffic, replicas, what)
        await destination.prepare(admin)
        await destination.order(admin, destination.target)
        await destination.be_full_in_mid_move()
        await destination.stay_full(admin)
        await destination.end(admin)

    run(5, story, FillingDisk, pause_s=0.05, value_bytes=2_500)


@pytest.mark.parametrize("what", at_night([WHOLE, PARTITION_ONLY], [WHOLE]))
def test_a_move_to_a_disk_that_is_full_from_the_beginning_waits_for_room(what: str) -> None:
    async def story(admin: AsyncAdmin, traffic: Traffic, replicas: tuple[int, ...]) -> None:
        destination = Destination(traffic, replicas, what)
        await destination.prepare(admin)
        destination.disk.fill(destination.path)
        await destination.order(admin, destination.target)
        await destination.stay_full(admin)
        await destination.end(admin)

    run(6, story, FillingDisk, pause_s=0.05, value_bytes=2_500)


@pytest.mark.parametrize("what", at_night([WHOLE, PARTITION_ONLY], [WHOLE]))
def test_a_move_to_a_full_disk_can_be_cancelled_and_made_again(what: str) -> None:
    async def story(admin: AsyncAdmin, traffic: Traffic, replicas: tuple[int, ...]) -> None:
        destination = Destination(traffic, replicas, what)
        await destination.prepare(admin)
        await destination.order(admin, destination.target)
        await destination.be_full_in_mid_move()
        await destination.stay_full(admin)
        await destination.order(admin, None)
        (partition,) = (await admin.describe_topic("orders")).partitions
        assert not partition.is_reassigning and partition.replicas == replicas and set(partition.isr) == set(replicas)
        if what == WHOLE:
            destination.disk.make_room()
        await settled(traffic, replicas)
        destination.disk.make_room()
        await destination.order(admin, destination.target)
        await destination.end(admin)

    run(7, story, FillingDisk, pause_s=0.05, value_bytes=2_500)
