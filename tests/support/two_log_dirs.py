"""A broker with real replicas in two log dirs, one of which may hang: a test sees that the event loop does not wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import PartitionRecord, Record, TopicRecord
from penstock.clock import ManualClock
from penstock.types import TopicPartition
from storage.log.group_commit import GroupCommit
from tests.support.faulty_fs import Fault, FaultyFileSystem
from tests.support.machine import THREADS, stop_wait
from tests.support.replicas import PublishedMetadata, Replicas
from tests.support.storage import NOW_MS, batch, open_manager

ME = 1
ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("other", 0)
OLD, NEW, OTHERS = "A" * 22, "B" * 22, "C" * 22
WAIT_S = 60.0


def made(partition: TopicPartition, topic_id: str) -> tuple[Record, ...]:
    return TopicRecord(partition.topic, topic_id), PartitionRecord(topic_id, 0, (ME,), (ME,), ME)


def image_of(*records: Record) -> MetadataImage:
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in records:
        delta.replay(record)
    return delta.apply(len(records), 1)


class Broker:
    """A publisher over real replicas with two log dirs: orders-0 is in `a`, other-0 in `b`."""

    def __init__(self, tmp_path: Path, image: MetadataImage | None = None, fs: FaultyFileSystem | None = None) -> None:
        """`image`: what a start in the same place reads; None: the topics are made."""
        self.fs = fs or FaultyFileSystem()
        self.dirs = str(tmp_path / "a"), str(tmp_path / "b")
        self.log_manager = open_manager(self.fs, self.dirs)
        self.group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        self.replicas = Replicas(ME, self.log_manager, self.group_commit, ManualClock())
        self.metadata = PublishedMetadata(self.replicas, self.log_manager, image or EMPTY_IMAGE)
        self.publish, self.take_snapshot = self.metadata.publish, self.metadata.take_snapshot
        if image is None:
            self.publish(*made(ORDERS, OLD))
            self.publish(*made(OTHER, OTHERS))
            assert [log.log_dir for log in self.log_manager.logs()] == list(self.dirs)

    async def produce(self, partition: TopicPartition, topic_id: str) -> None:
        """A record, and its flush."""
        log, flushed = self.replicas.get(partition, topic_id).log, asyncio.Event()
        end = log.append.as_leader(batch(b"value"), 0, NOW_MS).last_offset + 1
        self.group_commit.subscribe(log, lambda offset: flushed.set() if offset >= end else None)
        self.group_commit.request(log)
        await asyncio.wait_for(flushed.wait(), WAIT_S)

    async def end(self) -> None:
        """A stop in order."""
        await self.replicas.deletions.close(stop_wait())
        await self.group_commit.close(stop_wait())
        self.log_manager.close()
        self.fs.let_locks_go()

    def set_aside(self, suffix: str = "-delete") -> list[str]:
        """In the first log dir."""
        return [name for name in self.fs.listdir(self.dirs[0]) if name.endswith(suffix)]


@asynccontextmanager
async def started(
    tmp_path: Path, image: MetadataImage | None = None, fs: FaultyFileSystem | None = None
) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path, image, fs)
    yield broker
    await broker.end()


@contextmanager
def hangs(fs: FaultyFileSystem, operation: str, part: str) -> Iterator[Fault]:
    """Holds such calls up for the block, but only for WAIT_S: an event loop that waits for one cannot end the block."""
    with fs.standing_still(operation, part) as fault:
        assert fault.access is not None
        too_late = threading.Timer(WAIT_S, fault.access.set)
        too_late.start()
        try:
            yield fault
            assert not fault.access.is_set(), "the event loop waited for the disk"
        finally:
            too_late.cancel()


async def meets(fault: Fault) -> None:
    assert await asyncio.to_thread(fault.was_met.wait, WAIT_S)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scenario())  # type: ignore[arg-type]
