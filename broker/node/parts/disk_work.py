"""Makes what is done to the logs of all replicas: flushes, checkpoints of log starts, cleaning, periodic jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker.jobs.checkpoint_jobs import CheckpointJobs
from broker.jobs.cleaner_job import CleanerJob, cleaner_config
from broker.jobs.disk_room import DiskRooms
from broker.jobs.log_upkeep import LogUpkeep
from broker.jobs.replica_upkeep import ReplicaUpkeep
from broker.jobs.scheduler import Scheduler
from broker.jobs.stable_offsets import StableOffsets
from broker.jobs.wall_clock import WallClockGuard
from broker.metrics.field_readings import labelled, record_readings
from broker.metrics.metrics import Reading
from broker.metrics.storage_readings import cleaner_readings, disk_readings, retention_readings
from broker.node.parts.foundation import Foundation
from broker.replication.durability import Durability
from broker.replication.hosting.replica_parts import KnownReplicas, ReplicaParts
from broker.replication.leader.log_start_commit import LogStartCommit
from penstock.lazy_dataclass import dataclass
from storage.log.group_commit import GroupCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskWork:
    """Made over the tables of replicas, and before the parts that serve them."""

    group_commit: GroupCommit
    log_starts: LogStartCommit
    scheduler: Scheduler
    wall_clock: WallClockGuard
    cleaner: CleanerJob
    upkeep: LogUpkeep
    durability: Durability
    """The first two, and room on a disk that is full, for those that append."""

    def readings(self) -> Iterator[Reading]:
        """The metrics of this room."""
        yield from record_readings(self.group_commit.statistics())
        yield from record_readings(self.log_starts.statistics())
        yield from retention_readings(self.upkeep)
        yield from cleaner_readings(self.cleaner)
        yield from labelled("task", {job.name: job for job in self.scheduler.statistics()})


def make_disk_work(base: Foundation, known: KnownReplicas, flush_timed: Callable[[float], None]) -> DiskWork:
    """Nothing runs before the scheduler is started."""
    environment, log_manager = base.environment, base.log_manager
    checkpoints, clock, threads = log_manager.checkpoints, environment.clock, environment.threads
    scheduler, wall_clock = Scheduler(clock, threads, base.on_fatal), WallClockGuard(clock, is_compared=True)
    group_commit = GroupCommit(known.failures.directory_failed, threads, on_timed=flush_timed)
    log_starts = LogStartCommit(
        checkpoints.commit_log_starts, threads.executor("log-starts", len(checkpoints.log_dirs))
    )
    cleaner = CleanerJob(
        cleaner_config(base.config),
        known.hosted,
        known.failures,
        log_manager,
        scheduler,
        wall_ms=wall_clock.believed_wall_ms,
        clock=clock,
        fs=log_manager.file_system,
        threads=threads,
    )
    upkeep = LogUpkeep(
        known.hosted,
        known.failures,
        log_manager,
        scheduler,
        clock=clock,
        fs=log_manager.file_system,
        wall_clock=wall_clock,
    )
    return DiskWork(
        group_commit=group_commit,
        log_starts=log_starts,
        scheduler=scheduler,
        wall_clock=wall_clock,
        cleaner=cleaner,
        upkeep=upkeep,
        durability=Durability(group_commit, log_starts, upkeep.make_room_below_log_start),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaJobs:
    """The periodic jobs over the replicas whose findings others read."""

    disk_rooms: DiskRooms
    stable_offsets: StableOffsets

    def readings(self) -> Iterator[Reading]:
        """The metrics of these jobs."""
        yield from record_readings(self.stable_offsets.statistics())
        yield from disk_readings(self.disk_rooms)


def schedule_jobs(base: Foundation, disks: DiskWork, replicas: ReplicaParts) -> ReplicaJobs:
    """The named periodic jobs; they run once the scheduler is started."""
    config, log_manager, clock = base.config, base.log_manager, base.environment.clock
    hosted, failures, scheduler = replicas.hosted, replicas.failures, disks.scheduler
    fs, checkpoints = log_manager.file_system, log_manager.checkpoints
    disks.upkeep.schedule(config)
    current = replicas.high_watermarks.current
    CheckpointJobs(checkpoints, current, failures.directory_failed, scheduler).schedule(config)
    revive_lost = replicas.revival.revive_all
    upkeep = ReplicaUpkeep(hosted, replicas.durability, replicas.isrs, revive_lost, scheduler, clock=clock)
    upkeep.schedule(config)
    disk_rooms = DiskRooms(lambda: checkpoints.log_dirs, failures.directory_failed, fs, scheduler)
    stable_offsets = StableOffsets(hosted.all, clock)
    stable_offsets.schedule(scheduler)
    if config.log_cleaner_enable:
        disks.cleaner.schedule()
    return ReplicaJobs(disk_rooms=disk_rooms, stable_offsets=stable_offsets)
