"""One broker's logs in a directory, with the jobs that keep them, and one partition that the broker leads alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from broker.jobs.cleaner_job import CleanerJob
from broker.jobs.log_upkeep import LogUpkeep
from broker.jobs.scheduler import Scheduler
from broker.jobs.wall_clock import WallClockGuard
from broker.replication.hosting.assignment import TopicSettings
from broker.replication.partition import Partition
from penstock.clock import ManualClock
from penstock.record.builder import build_batch
from storage.cleaner.cleaner_types import CleanerConfig
from storage.disk.file_system import OsFileSystem
from storage.log.group_commit import GroupCommit
from storage.log_config import LogConfig
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from storage.log_dirs.meta_properties import format_directory
from tests.support.machine import IDS, THREADS, machine, stop_wait
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, state
from tests.support.replicas import Replicas

ME = 1
MIB = 1024 * 1024


@dataclass
class Stage:
    """The jobs, the partition and its directory."""

    upkeep: LogUpkeep
    cleaner: CleanerJob
    replicas: Replicas
    clock: ManualClock
    directory: Path

    @property
    def log_dir(self) -> str:
        """The path of the only log dir."""
        return str(self.directory)

    @property
    def partition(self) -> Partition:
        return self.replicas.get(PARTITION, TOPIC_ID)

    def write(self, batches: int, timestamp_ms: int | None = None, keys: int = 1) -> None:
        """One record of about 500 bytes each, so that two make a segment of 1,000; flushed, and so committed."""
        wall_ms = self.clock.wall_ms()
        for at in range(batches):
            times_ms = wall_ms if timestamp_ms is None else timestamp_ms
            batch = build_batch([b"x" * 400], keys=[b"k%d" % (at % keys)], timestamps_ms=times_ms)
            self.partition.append_as_leader(batch, 1, 1, wall_ms)
        self.partition.log.flush()
        self.partition.flushed(self.partition.log.flushed_offset)

    def configure(self, config: LogConfig, partition_epoch: int = 1) -> None:
        settings = TopicSettings(config, 1)
        self.replicas.apply(PARTITION, TOPIC_ID, state(ME, 5, partition_epoch, (ME,), (ME,)), settings, NOBODY)

    def files(self, suffix: str) -> list[int]:
        """Base offsets of the segment files with this ending."""
        found = self.directory.glob(f"{PARTITION}/*.log{suffix}")
        return sorted(int(path.name.split(".")[0]) for path in found)


@asynccontextmanager
async def stage(path: Path, config: LogConfig) -> AsyncIterator[Stage]:
    fs, clock = OsFileSystem(), ManualClock()
    format_directory(fs, str(path / "data"), "cluster", ME, IDS.new_id())
    log_manager = LogManager.open([path / "data"], LogManagerConfig(ME), machine(fs, clock))
    group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
    replicas = Replicas(ME, log_manager, group_commit, clock, on_log_gone=lambda key: cleaner.cleaner.forget(key))
    scheduler, wall_clock = Scheduler(clock, THREADS, lambda error: None), WallClockGuard(clock)
    cleaner = CleanerJob(
        CleanerConfig(dedupe_buffer_bytes=MIB),
        replicas.known.hosted,
        replicas.failures,
        log_manager,
        scheduler,
        wall_clock.believed_wall_ms,
        clock,
        fs,
        THREADS,
    )
    upkeep = LogUpkeep(replicas.known.hosted, replicas.failures, log_manager, scheduler, clock, fs, wall_clock)
    replicas.make_room = upkeep.make_room_below_log_start
    made = Stage(upkeep, cleaner, replicas, clock, path / "data")
    made.configure(config, 0)
    yield made
    cleaner.stop()
    await scheduler.stop(stop_wait())
    cleaner.close()
    await group_commit.close(stop_wait())
    log_manager.close(clean=True, broker_epoch=1)
