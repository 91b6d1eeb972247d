"""A topic was deleted and made anew while its log could not be deleted: the old log is not in the new one's way."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import PartitionChangeRecord, PartitionRecord, Record, RemoveTopicRecord, TopicRecord
from penstock.clock import ManualClock
from penstock.errors import CorruptFileError
from penstock.types import TopicPartition
from storage.disk.file_system import remove_tree
from storage.log.group_commit import GroupCommit
from storage.log.log import Log
from storage.log_dirs.log_table import LogId
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import THREADS, stop_wait
from tests.support.replicas import PublishedMetadata, Replicas
from tests.support.storage import NOW_MS, SMALL, batch, open_manager, read_all

ME, OTHER_BROKER = 1, 2
DIRS = ("/a", "/b")
ORDERS = TopicPartition("orders", 0)
OLD, NEW = "A" * 22, "B" * 22
DISK_ERROR = OSError(errno.EIO, "Input/output error")


def made(topic_id: str) -> tuple[Record, ...]:
    return TopicRecord("orders", topic_id), PartitionRecord(topic_id, 0, (ME,), (ME,), ME)


class Broker:
    """A publisher over real replicas with two log dirs."""

    def __init__(self, fs: LosingFileSystem, image: MetadataImage = EMPTY_IMAGE) -> None:
        self.fs = fs
        self.log_manager = open_manager(fs, DIRS)
        self.group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        self.replicas = Replicas(ME, self.log_manager, self.group_commit, ManualClock())
        self.metadata = PublishedMetadata(self.replicas, self.log_manager, image)
        self.publish = self.metadata.publish

    def log(self, topic_id: str) -> Log:
        """The log of the partition, which must be online and led here."""
        partition = self.replicas.get(ORDERS, topic_id)
        assert partition.offline is None and partition.leading is not None
        return partition.log

    def append(self, topic_id: str, value: bytes) -> None:
        log = self.log(topic_id)
        log.append.as_leader(batch(value), 0, NOW_MS)
        log.flush()

    def loses_dir_of(self, topic_id: str) -> str:
        log_dir = self.log(topic_id).log_dir
        self.replicas.failures.directory_failed(log_dir, DISK_ERROR)
        return log_dir


@asynccontextmanager
async def started(fs: LosingFileSystem, image: MetadataImage = EMPTY_IMAGE) -> AsyncIterator[Broker]:
    """Killed in the end."""
    broker = Broker(fs, image)
    yield broker
    await broker.replicas.deletions.close(stop_wait())
    await broker.group_commit.close(stop_wait())
    broker.log_manager.close(clean=False)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


def test_topic_made_anew_is_hosted_in_a_healthy_log_dir_while_the_old_log_cannot_be_deleted() -> None:
    async def scenario() -> None:
        async with started(LosingFileSystem()) as broker:
            broker.publish(*made(OLD))
            broker.append(OLD, b"old")
            failed = broker.loses_dir_of(OLD)
            before = len(broker.fs.trace)
            broker.publish(RemoveTopicRecord(OLD))
            assert not [step for step in broker.fs.trace[before:] if failed in step], "the dir is not used again"

            broker.publish(*made(NEW))
            broker.append(NEW, b"new")
            assert broker.log(NEW).log_dir != failed
            assert broker.replicas.statistics().offline == 0 and broker.log_manager.statistics().offline_logs == 0

    run(scenario)


def test_topic_made_anew_is_hosted_although_its_partition_has_changed_since() -> None:
    """The content of a log dir that failed while the node ran is known: the new topic's log is not in it."""

    async def scenario() -> None:
        async with started(LosingFileSystem()) as broker:
            broker.publish(*made(OLD))
            broker.loses_dir_of(OLD)
            broker.publish(RemoveTopicRecord(OLD), *made(NEW), PartitionChangeRecord(NEW, 0, leader_id=ME))
            assert broker.log(NEW).topic_id == NEW

    run(scenario)


def test_old_log_that_is_back_after_a_restart_is_set_aside_and_the_new_topic_is_served() -> None:
    async def scenario() -> None:
        async with started(LosingFileSystem()) as broker:
            broker.publish(*made(OLD))
            broker.append(OLD, b"old")
            failed = broker.loses_dir_of(OLD)
            broker.publish(RemoveTopicRecord(OLD))
            broker.publish(*made(NEW))
            broker.append(NEW, b"new")
            broker.log_manager.checkpoints.write_high_watermarks(broker.replicas.parts.high_watermarks.current)
            image = broker.metadata.image
        before = open_manager(broker.fs.after_crash(), DIRS)
        assert {log.topic_id for log in before.logs()} == {OLD, NEW}, "both count as held when the broker registers"
        assert not before.table.offline

        async with started(broker.fs.after_crash(), image) as broker:
            assert read_all(broker.log(NEW)) == [(0, b"new")], "it waits for no other dir"
            await broker.replicas.logs_have_left()
            (stray,) = broker.log_manager.removal.strays
            assert stray.startswith(f"{failed}/") and broker.fs.after_crash().exists(f"{stray}/partition.metadata")
            assert broker.replicas.statistics().offline == 0

    run(scenario)


def test_old_log_that_is_back_damaged_is_set_aside_and_the_new_topic_is_served() -> None:
    async def scenario() -> None:
        async with started(LosingFileSystem()) as broker:
            broker.publish(*made(OLD))
            broker.append(OLD, b"old")
            broker.log_manager.checkpoints.write_recovery_points()
            path = broker.log(OLD).segments[0].log_path
            broker.loses_dir_of(OLD)
            broker.publish(RemoveTopicRecord(OLD))
            broker.publish(*made(NEW))
            broker.append(NEW, b"new")
            image, fs = broker.metadata.image, broker.fs.after_crash()
        fd = fs.open(path)
        fs.pwritev(fd, [b"rot"], 30)
        async with started(fs, image) as broker:
            assert read_all(broker.log(NEW)) == [(0, b"new")]
            await broker.replicas.logs_have_left()
            assert len(broker.log_manager.removal.strays) == 1 and broker.replicas.statistics().offline == 0

    run(scenario)


def test_two_old_logs_of_one_name_are_both_set_aside_where_the_topic_is_gone_too() -> None:
    async def scenario() -> None:
        async with started(LosingFileSystem()) as broker:
            broker.publish(*made(OLD))
            broker.append(OLD, b"old")
            broker.loses_dir_of(OLD)
            broker.publish(RemoveTopicRecord(OLD))
            broker.publish(*made(NEW))
            broker.append(NEW, b"new")
        async with started(broker.fs.after_crash()) as broker:
            await broker.replicas.logs_have_left()
            assert broker.log_manager.logs() == () and len(broker.log_manager.removal.strays) == 2

    run(scenario)


def test_replica_that_was_moved_away_and_back_waits_for_its_log_in_the_failed_dir() -> None:
    """An empty one beside it would be the same partition twice, after the next start."""

    async def scenario() -> None:
        async with started(LosingFileSystem()) as broker:
            broker.publish(*made(OLD))
            broker.append(OLD, b"old")
            broker.loses_dir_of(OLD)
            others = (OTHER_BROKER,)
            elsewhere = PartitionChangeRecord(OLD, 0, others, OTHER_BROKER, replicas=others)
            back = PartitionChangeRecord(OLD, 0, replicas=(OTHER_BROKER, ME))
            broker.publish(elsewhere)
            assert not broker.replicas.hosts(ORDERS)
            broker.publish(back)
            assert broker.replicas.find(ORDERS) is None and broker.replicas.statistics().offline == 1
            assert broker.log_manager.get(ORDERS, OLD) is None

    run(scenario)


def test_high_watermark_of_the_old_log_is_not_the_new_logs() -> None:
    async def scenario() -> None:
        async with started(LosingFileSystem()) as broker:
            broker.publish(*made(OLD))
            broker.append(OLD, b"old")
            broker.append(OLD, b"old")
            broker.log_manager.checkpoints.write_high_watermarks(lambda: {LogId(ORDERS, OLD): 2})
            broker.loses_dir_of(OLD)
            broker.publish(RemoveTopicRecord(OLD))
            broker.publish(*made(NEW))
            broker.append(NEW, b"new")
            broker.append(NEW, b"not committed")
            broker.log_manager.checkpoints.write_high_watermarks(lambda: {LogId(ORDERS, NEW): 1})
        found = open_manager(broker.fs.after_crash(), DIRS)
        assert found.checkpoints.high_watermarks() == {LogId(ORDERS, OLD): 2, LogId(ORDERS, NEW): 1}
        found.checkpoints.write_high_watermarks(lambda: {LogId(ORDERS, NEW): 2})
        assert found.checkpoints.high_watermarks() == {LogId(ORDERS, OLD): 2, LogId(ORDERS, NEW): 2}

    run(scenario)


def test_new_topic_is_not_taken_for_the_deleted_one_that_the_checkpoint_still_names() -> None:
    """Its log was lost in a power cut before the first flush; nothing of it was acked, so that it may lead empty."""

    async def scenario() -> None:
        async with started(LosingFileSystem()) as broker:
            broker.log_manager.get_or_create(ORDERS, OLD, SMALL, log_dir="/b")
            broker.publish(*made(OLD))
            broker.append(OLD, b"old")
            broker.log_manager.checkpoints.write_recovery_points()
            broker.log_manager.removal.delete(ORDERS, OLD)
            broker.fs.fsync_dir("/b")
            broker.publish(RemoveTopicRecord(OLD), *made(NEW))
            image = broker.metadata.image
        async with started(broker.fs.after_crash(), image) as broker:
            assert read_all(broker.log(NEW)) == []

    run(scenario)


def test_new_topics_log_that_is_gone_is_missed_although_the_old_one_is_still_being_deleted() -> None:
    async def scenario() -> None:
        async with started(LosingFileSystem()) as broker:
            broker.publish(*made(OLD))
            broker.append(OLD, b"old")
            broker.publish(RemoveTopicRecord(OLD))
            broker.publish(*made(NEW))
            await broker.replicas.logs_have_left()
            broker.append(NEW, b"acked")
            broker.log_manager.checkpoints.write_recovery_points()
            image, gone, fs = broker.metadata.image, broker.log(NEW).directory, broker.fs.after_crash()
        assert [path for path in fs.listdir("/a") if path.endswith("-delete")]
        remove_tree(fs, gone)
        async with started(fs, image) as broker:
            assert broker.replicas.find(ORDERS) is None, "it would lead without the acked record"
            assert broker.replicas.statistics().offline == 1

    run(scenario)


def test_rot_that_a_late_reader_of_the_deleted_topic_finds_takes_nothing_of_the_new_one_offline() -> None:
    """The read was under way when the topic was deleted; its log is not the one that has the name now."""

    async def scenario() -> None:
        async with started(LosingFileSystem()) as broker:
            broker.publish(*made(OLD))
            old = broker.replicas.get(ORDERS, OLD)
            broker.publish(RemoveTopicRecord(OLD))
            broker.publish(*made(NEW))
            for is_open in (False, True):
                broker.replicas.failures.disk_error(old, CorruptFileError(f"{old.log.directory}/0.log", 0, "rot"))
                broker.replicas.failures.partition_failed(old, DISK_ERROR)
                assert not broker.replicas.lost.partitions and broker.replicas.losses == 0
                assert (broker.replicas.find(ORDERS) is not None) == is_open
                await broker.replicas.logs_have_left()
            broker.append(NEW, b"new")

    run(scenario)
