"""A log is created without waiting for its disk: other log dirs go on, and its name and its replica are not lost."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from metadata.records import PartitionRecord, Record, RemoveTopicRecord, TopicRecord
from penstock.clock import ManualClock
from penstock.types import TopicPartition
from storage.disk.log_dir_threads import LogDirThreads
from storage.log.group_commit import GroupCommit
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.machine import THREADS, stop_wait
from tests.support.replicas import PublishedMetadata, Replicas
from tests.support.storage import NOW_MS, batch, open_manager
from tests.support.two_log_dirs import WAIT_S, hangs, meets

ME = 1
ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("other", 0)
OLD, NEW, OTHERS = "A" * 22, "B" * 22, "C" * 22
OPERATIONS = ("mkdir", "create", "rename")


def made(partition: TopicPartition, topic_id: str) -> tuple[Record, ...]:
    return TopicRecord(partition.topic, topic_id), PartitionRecord(topic_id, 0, (ME,), (ME,), ME)


class Broker:
    """A publisher over real replicas with two log dirs; the first new log goes to `a`, the next to `b`."""

    def __init__(self, tmp_path: Path) -> None:
        self.fs = FaultyFileSystem()
        self.dirs = str(tmp_path / "a"), str(tmp_path / "b")
        self.log_manager = open_manager(self.fs, self.dirs)
        self.group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        creating = LogDirThreads(THREADS, "log-creation")
        self.replicas = Replicas(ME, self.log_manager, self.group_commit, ManualClock(), creating=creating)
        self.creations, self.find = self.replicas.parts.creation.creations, self.replicas.find
        self.publish = PublishedMetadata(self.replicas, self.log_manager).publish

    async def until_created(self) -> None:
        async with asyncio.timeout(WAIT_S):
            while len(self.replicas.parts.creation) or len(self.creations):  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    def topics_in(self, log_dir: str) -> list[str]:
        return [name for name in self.fs.listdir(log_dir) if name.startswith("o") and "-delete" not in name]


@asynccontextmanager
async def started(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path)
    yield broker
    await broker.replicas.parts.creation.close(stop_wait())
    await broker.group_commit.close(stop_wait())
    broker.log_manager.close()
    broker.fs.let_locks_go()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_topic_is_created_in_another_log_dir_while_one_hangs(tmp_path: Path, operation: str) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            with hangs(broker.fs, operation, "/a/orders-0") as fault:
                broker.publish(*made(ORDERS, OLD))
                await meets(fault)
                broker.publish(*made(OTHER, OTHERS))
                async with asyncio.timeout(WAIT_S):
                    while broker.find(OTHER) is None:  # noqa: ASYNC110
                        await asyncio.sleep(0.001)
                assert broker.find(ORDERS) is None and broker.replicas.hosts(ORDERS)
                assert broker.find(OTHER).log.log_dir == broker.dirs[1]  # type: ignore[union-attr]
            await broker.until_created()
            orders = broker.find(ORDERS)
            assert orders is not None and orders.leading is not None and orders.log.log_dir == broker.dirs[0]

    asyncio.run(scenario())


def test_a_topic_that_is_deleted_and_made_anew_while_its_log_is_created_gets_the_new_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            with hangs(broker.fs, "create", "/a/orders-0") as fault:
                broker.publish(*made(ORDERS, OLD))
                await meets(fault)
                broker.publish(RemoveTopicRecord(OLD))
                assert not broker.replicas.hosts(ORDERS) or broker.find(ORDERS) is None
                broker.publish(*made(ORDERS, NEW))
                assert broker.find(ORDERS) is None
            await broker.until_created()
            partition = broker.find(ORDERS)
            assert partition is not None and partition.topic_id == NEW
            assert [log.topic_id for log in broker.log_manager.logs()] == [NEW]
            assert sum("orders-0" in broker.topics_in(path) for path in broker.dirs) == 1

    asyncio.run(scenario())


def test_a_topic_that_is_deleted_while_its_log_is_created_leaves_no_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            with hangs(broker.fs, "mkdir", "/a/orders-0") as fault:
                broker.publish(*made(ORDERS, OLD))
                await meets(fault)
                broker.publish(RemoveTopicRecord(OLD))
            await broker.until_created()
            await broker.replicas.deletions.close(stop_wait())
            assert broker.find(ORDERS) is None and not broker.log_manager.logs()
            assert not broker.topics_in(broker.dirs[0])

    asyncio.run(scenario())


def test_what_was_to_be_created_in_a_log_dir_that_fails_is_created_in_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            with hangs(broker.fs, "mkdir", "/a/orders-0") as fault:
                broker.publish(*made(ORDERS, OLD))
                await meets(fault)
                hung = broker.dirs[0]
                broker.log_manager.calls.give_up(hung)
                broker.replicas.failures.directory_failed(hung, OSError(errno.ETIMEDOUT, "hangs"))
                assert ORDERS in broker.replicas.lost.partitions
                broker.replicas.revive_lost()
                await broker.until_created()
                partition = broker.find(ORDERS)
                assert partition is not None and partition.log.log_dir == broker.dirs[1]
                assert ORDERS not in broker.replicas.lost.partitions
            await asyncio.sleep(0.05)
            assert broker.find(ORDERS) is partition, "what the thread brings late is not used"
            assert [log.log_dir for log in broker.log_manager.logs()] == [broker.dirs[1]]

    asyncio.run(scenario())


def test_the_name_of_a_deleted_topic_is_free_when_the_log_dir_that_hangs_has_failed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            broker.publish(*made(ORDERS, OLD))
            await broker.until_created()
            with hangs(broker.fs, "rename", "-delete") as fault:
                broker.publish(RemoveTopicRecord(OLD))
                await meets(fault)
                broker.publish(*made(ORDERS, NEW))
                assert broker.find(ORDERS) is None
                broker.log_manager.calls.give_up(broker.dirs[0])
                broker.replicas.failures.directory_failed(broker.dirs[0], OSError(errno.ETIMEDOUT, "hangs"))
                await broker.until_created()
                partition = broker.find(ORDERS)
                assert partition is not None and partition.topic_id == NEW and partition.log.log_dir == broker.dirs[1]

    asyncio.run(scenario())


def test_many_logs_that_are_begun_together_are_spread_over_the_log_dirs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            numbers = range(100)
            parts = (PartitionRecord(OLD, number, (ME,), (ME,), ME) for number in numbers)
            broker.publish(TopicRecord("orders", OLD), *parts)
            await broker.until_created()
            assert [len(broker.topics_in(path)) for path in broker.dirs] == [50, 50]
            assert all(broker.find(TopicPartition("orders", number)) is not None for number in numbers)

    asyncio.run(scenario())


@pytest.mark.parametrize(("operation", "part"), [("create", "/a/orders-0/0000"), ("rename", "/a/orders-0")])
def test_the_next_start_finds_the_log_that_was_created_instead(tmp_path: Path, operation: str, part: str) -> None:
    """The disk has done late what its thread waited for: a directory with the topic's id is in both dirs."""

    async def scenario() -> tuple[str, str]:
        async with started(tmp_path) as broker:
            with hangs(broker.fs, operation, part) as fault:
                broker.publish(*made(ORDERS, OLD))
                await meets(fault)
                broker.log_manager.calls.give_up(broker.dirs[0])
                broker.replicas.failures.directory_failed(broker.dirs[0], OSError(errno.ETIMEDOUT, "hangs"))
                broker.replicas.revive_lost()
                await broker.until_created()
                partition = broker.find(ORDERS)
                assert partition is not None
                partition.log.append.as_leader(batch(b"value"), 1, NOW_MS)
                partition.log.flush()
            return broker.dirs

    dirs = asyncio.run(scenario())
    assert (Path(dirs[0]) / "orders-0").exists()
    manager = open_manager(FaultyFileSystem(), dirs)
    (log,) = manager.logs()
    assert (log.log_dir, log.log_end_offset, log.topic_id) == (dirs[1], 1, OLD)
    assert not (Path(dirs[0]) / "orders-0").exists()
    manager.close()
