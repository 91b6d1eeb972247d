"""The publisher creates and removes logs in the log dirs as topics come and go."""

from __future__ import annotations

import asyncio
import errno

import pytest

from broker.quorum.metadata_publisher import MetadataPublisher
from metadata.image import EMPTY_IMAGE
from metadata.records import PartitionRecord, RemoveTopicRecord, TopicRecord
from penstock.clock import ManualClock
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

    def __init__(self, fs: LosingFileSystem) -> None:
        self.log_manager: LogManager = open_manager(fs)
        self.group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        self.replicas = Replicas(ME, self.log_manager, self.group_commit, ManualClock())
        metadata = PublishedMetadata(self.replicas, self.log_manager)
        self.publish, self.take_snapshot = metadata.publish, metadata.take_snapshot
        made = (PartitionRecord(TOPIC_ID, number, (ME,), (ME,), ME) for number in range(PARTITIONS))
        self.publish(TopicRecord("big", TOPIC_ID), *made)
        for log in self.log_manager.logs():
            log.append_as_leader(batch(b"x"), 0, NOW_MS)
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
        assert (steps.count("rename"), steps.count("fsync_dir")) == (PARTITIONS, 1)
        assert len(log_manager.removal.strays) == PARTITIONS and open_manager(fs.after_crash()).logs() == ()
        await group_commit.close(stop_wait())

    asyncio.run(scenario())


def test_a_deletion_that_no_disk_has_ends_nothing_else() -> None:
    async def scenario() -> None:
        fs = LosingFileSystem()
        broker = Broker(fs)
        fs.fail_on["fsync_dir"] = errno.EIO
        broker.publish(RemoveTopicRecord(TOPIC_ID))
        assert broker.log_manager.logs() == ()
        await broker.replicas.deletions.close(stop_wait())
        fs.fail_on.clear()
        broker.publish(TopicRecord("big", "B" * 22), PartitionRecord("B" * 22, 0, (ME,), (ME,), ME))
        assert [log.topic_id for log in broker.log_manager.logs()] == ["B" * 22]
        await broker.group_commit.close(stop_wait())

    asyncio.run(scenario())


def test_what_is_absent_from_a_snapshot_is_set_aside_and_not_deleted() -> None:
    """A quorum that was rebuilt by hand may have forgotten a topic; no record has ever deleted it."""

    async def scenario() -> None:
        fs = LosingFileSystem()
        broker = Broker(fs)
        broker.take_snapshot(TopicRecord("small", "B" * 22), PartitionRecord("B" * 22, 0, (ME,), (ME,), ME))
        removal = broker.log_manager.removal
        assert len(removal.strays) == PARTITIONS and [log.topic_id for log in broker.log_manager.logs()] == ["B" * 22]
        broker.take_snapshot(TopicRecord("small", "B" * 22), PartitionRecord("B" * 22, 0, (ME + 1,), (ME + 1,), ME + 1))
        assert len(removal.strays) == PARTITIONS + 1 and broker.log_manager.logs() == ()
        broker.take_snapshot(TopicRecord("big", "C" * 22), PartitionRecord("C" * 22, 0, (ME,), (ME,), ME))
        assert [log.topic_id for log in broker.log_manager.logs()] == ["C" * 22]
        await broker.replicas.deletions.close(stop_wait())
        assert all(fs.exists(f"{path}/{0:020d}.log") for path in removal.strays)
        await broker.group_commit.close(stop_wait())

    asyncio.run(scenario())
