"""The publisher creates and removes logs in the log dirs as topics come and go."""

from __future__ import annotations

import asyncio
import errno

import pytest

from broker.quorum.metadata_publisher import MetadataPublisher
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE
from metadata.records import PartitionRecord, Record, RemoveTopicRecord, TopicRecord
from penstock.clock import ManualClock
from penstock.types import TopicPartition
from storage.log.group_commit import GroupCommit
from storage.log_dirs.log_manager import LogManager
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import THREADS, stop_wait
from tests.support.partitions import TOPIC_ID
from tests.support.replicas import PublishedMetadata, Replicas
from tests.support.storage import NOW_MS, batch, open_manager

ME, PARTITIONS = 1, 10


class Broker:
    """A publisher over real replicas, with the topic `big` flushed; use it on an event loop."""

    def __init__(self, fs: LosingFileSystem, topic_id: str = TOPIC_ID) -> None:
        self.log_manager: LogManager = open_manager(fs)
        self.group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        self.replicas = Replicas(ME, self.log_manager, self.group_commit, ManualClock())
        metadata = PublishedMetadata(self.replicas, self.log_manager)
        self.publish, self.take_snapshot = metadata.publish, metadata.take_snapshot
        made = (PartitionRecord(topic_id, number, (ME,), (ME,), ME) for number in range(PARTITIONS))
        self.publish(TopicRecord("big", topic_id), *made)
        for log in self.log_manager.logs():
            log.append.as_leader(batch(b"x"), 0, NOW_MS)
            log.flush()


def test_a_topic_of_many_partitions_is_deleted_with_one_sync_of_the_log_dir() -> None:
    """Thousands of syncs would keep the event loop from its heartbeats."""

    async def scenario() -> None:
        fs = LosingFileSystem()
        broker = Broker(fs)
        before = len(fs.trace)
        broker.publish(RemoveTopicRecord(TOPIC_ID))
        await broker.replicas.deletions.close(stop_wait())
        steps = [step.split()[1] for step in fs.trace[before:]]
        assert (steps.count("rename"), steps.count("fsync_dir"), steps[-1]) == (PARTITIONS, 1, "fsync_dir")
        assert [open_manager(fs.after_crash()).logs()] == [()], "and it is durable"
        await broker.group_commit.close(stop_wait())

    asyncio.run(scenario())


def test_many_strays_are_set_aside_with_one_sync_of_the_log_dir() -> None:
    async def scenario() -> None:
        fs = LosingFileSystem()
        before = Broker(fs)
        await before.group_commit.close(stop_wait())
        fs = fs.after_crash()
        log_manager = open_manager(fs)
        group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        replicas = Replicas(ME, log_manager, group_commit, ManualClock())
        at = len(fs.trace)
        MetadataPublisher(replicas.assignments, log_manager, {}, ManualClock().now_ms, pytest.fail).caught_up(
            EMPTY_IMAGE
        )
        steps = [step.split()[1] for step in fs.trace[at:]]
        assert not steps, "the event loop waits for no disk"
        await replicas.logs_have_left()
        steps = [step.split()[1] for step in fs.trace[at:]]
        assert (steps.count("rename"), steps.count("fsync_dir")) == (PARTITIONS, 1)
        assert len(log_manager.removal.strays) == PARTITIONS and open_manager(fs.after_crash()).logs() == ()
        await group_commit.close(stop_wait())

    asyncio.run(scenario())


REAL_ID, OTHER_ID = "A" * 22, "B" * 22


class Restarted:
    """The node of a `Broker` that was down; it reads metadata before it has caught up."""

    def __init__(self, fs: LosingFileSystem) -> None:
        self.log_manager = open_manager(fs)
        group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        self.replicas = Replicas(ME, self.log_manager, group_commit, ManualClock())
        self.publisher = MetadataPublisher(
            self.replicas.assignments, self.log_manager, {}, ManualClock().now_ms, pytest.fail
        )
        self.image = EMPTY_IMAGE

    def read(self, *records: Record) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(self.image.offset + len(records), 1)
        self.publisher.publish(delta, self.image)

    def read_snapshot(self, *records: Record) -> None:
        whole = MetadataDelta(EMPTY_IMAGE)
        for record in records:
            whole.replay(record)
        before, self.image = self.image, whole.apply(self.image.offset + 100, 1)
        self.publisher.publish(MetadataDelta.between(before, self.image), self.image)

    async def outcome(self) -> tuple[int, int, int]:
        """Logs in use, strays, and logs that will be deleted."""
        self.publisher.caught_up(self.image)
        await self.replicas.deletions.close(stop_wait())
        removal = self.log_manager.removal
        return len(self.log_manager.logs()), len(removal.strays), len(removal.deleted)


MADE = (
    TopicRecord("big", REAL_ID),
    *(PartitionRecord(REAL_ID, number, (ME,), (ME,), ME) for number in range(PARTITIONS)),
)
MADE_ANEW = (TopicRecord("big", OTHER_ID), PartitionRecord(OTHER_ID, 0, (ME + 1,), (ME + 1,), ME + 1))
DELETED = RemoveTopicRecord(REAL_ID)


@pytest.mark.parametrize("reads", ["one by one", "at once", "a topic made anew"])
def test_a_topic_that_a_record_deleted_while_the_node_was_down_is_deleted_at_its_start(reads: str) -> None:
    async def scenario() -> None:
        fs = LosingFileSystem()
        Broker(fs, REAL_ID)
        node = Restarted(fs.after_crash())
        if reads == "at once":
            node.read(*MADE, DELETED)
        else:
            node.read(*MADE)
            node.read(DELETED)
        if reads == "a topic made anew":
            node.read(*MADE_ANEW)
        assert await node.outcome() == (0, 0, PARTITIONS)

    asyncio.run(scenario())


@pytest.mark.parametrize("knows", ["a snapshot without it", "nothing", "another topic's deletion", "a move away"])
def test_without_the_record_of_its_deletion_a_topic_is_set_aside(knows: str) -> None:
    """A quorum that was made anew from an older log may not have heard of the topic."""

    async def scenario() -> None:
        fs = LosingFileSystem()
        Broker(fs, REAL_ID)
        node = Restarted(fs.after_crash())
        if knows == "a snapshot without it":
            node.read(*MADE)
            node.read_snapshot(*MADE_ANEW)
        elif knows == "another topic's deletion":
            node.read(*MADE_ANEW, RemoveTopicRecord(OTHER_ID))
        elif knows == "a move away":
            away = (PartitionRecord(REAL_ID, number, (2,), (2,), 2) for number in range(PARTITIONS))
            node.read(TopicRecord("big", REAL_ID), *away)
        assert await node.outcome() == (0, PARTITIONS, 0)

    asyncio.run(scenario())


def test_the_only_disk_fails_under_a_deletion_and_the_metadata_goes_on() -> None:
    async def scenario() -> None:
        fs = LosingFileSystem()
        broker = Broker(fs)
        fs.fail_on["fsync_dir"] = errno.EIO
        broker.publish(RemoveTopicRecord(TOPIC_ID))
        assert broker.log_manager.logs() == ()
        await broker.replicas.deletions.close(stop_wait())
        assert broker.replicas.failed_log_dirs == ["/d"]
        fs.fail_on.clear()
        broker.publish(TopicRecord("big", "B" * 22), PartitionRecord("B" * 22, 0, (ME,), (ME,), ME))
        assert broker.replicas.lost.partitions == (TopicPartition("big", 0),)
        await broker.group_commit.close(stop_wait())

    asyncio.run(scenario())


def test_what_is_absent_from_a_snapshot_is_set_aside_and_not_deleted() -> None:
    """A quorum that was rebuilt by hand may have forgotten a topic; no record has ever deleted it."""

    async def scenario() -> None:
        fs = LosingFileSystem()
        broker = Broker(fs)
        broker.take_snapshot(TopicRecord("small", "B" * 22), PartitionRecord("B" * 22, 0, (ME,), (ME,), ME))
        removal = broker.log_manager.removal
        await broker.replicas.logs_have_left()
        assert len(removal.strays) == PARTITIONS and [log.topic_id for log in broker.log_manager.logs()] == ["B" * 22]
        broker.take_snapshot(TopicRecord("small", "B" * 22), PartitionRecord("B" * 22, 0, (ME + 1,), (ME + 1,), ME + 1))
        await broker.replicas.logs_have_left()
        assert len(removal.strays) == PARTITIONS + 1 and broker.log_manager.logs() == ()
        broker.take_snapshot(TopicRecord("big", "C" * 22), PartitionRecord("C" * 22, 0, (ME,), (ME,), ME))
        assert [log.topic_id for log in broker.log_manager.logs()] == ["C" * 22]
        await broker.replicas.deletions.close(stop_wait())
        assert all(fs.exists(f"{path}/{0:020d}.log") for path in removal.strays)
        await broker.group_commit.close(stop_wait())

    asyncio.run(scenario())
