"""Makes what is done to the logs of all replicas: flushes, checkpoints of log starts, cleaning, periodic jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.config.node_config import NodeConfig
from broker.jobs.checkpoint_jobs import CheckpointJobs
from broker.jobs.cleaner_job import CleanerJob, cleaner_config
from broker.jobs.disk_room import DiskRooms
from broker.jobs.log_upkeep import LogUpkeep
from broker.jobs.replica_upkeep import ReplicaUpkeep
from broker.jobs.scheduler import Scheduler
from broker.jobs.stable_offsets import StableOffsets
from broker.jobs.wall_clock import WallClockGuard
from broker.node.environment import Environment
from broker.replication.hosting.replica_parts import KnownReplicas, ReplicaParts
from broker.replication.leader.log_start_commit import LogStartCommit
from storage.log.group_commit import GroupCommit
from storage.log_dirs.log_manager import LogManager


@dataclass(frozen=True, slots=True)
class DiskWork:
    """Made over the tables of replicas, and before the parts that serve them."""

    group_commit: GroupCommit
    log_starts: LogStartCommit
    scheduler: Scheduler
    wall_clock: WallClockGuard
    cleaner: CleanerJob
    upkeep: LogUpkeep


def make_disk_work(
    config: NodeConfig,
    environment: Environment,
    log_manager: LogManager,
    known: KnownReplicas,
    flush_timed: Callable[[float], None],
    on_fatal: Callable[[BaseException], None],
) -> DiskWork:
    """Nothing runs before the scheduler is started."""
    checkpoints, clock, threads = log_manager.checkpoints, environment.clock, environment.threads
    scheduler, wall_clock = Scheduler(clock, threads, on_fatal), WallClockGuard(clock, is_compared=True)
    return DiskWork(
        GroupCommit(known.failures.directory_failed, threads, on_timed=flush_timed),
        LogStartCommit(checkpoints.commit_log_starts, threads.executor("log-starts", len(checkpoints.log_dirs))),
        scheduler,
        wall_clock,
        CleanerJob(
            cleaner_config(config),
            known.hosted,
            known.failures,
            log_manager,
            scheduler,
            wall_clock.believed_wall_ms,
            clock,
            log_manager.file_system,
            threads,
        ),
        LogUpkeep(known.hosted, known.failures, log_manager, scheduler, clock, log_manager.file_system, wall_clock),
    )


def schedule_upkeep(
    config: NodeConfig, environment: Environment, log_manager: LogManager, disks: DiskWork, replicas: ReplicaParts
) -> tuple[LogUpkeep, DiskRooms, StableOffsets]:
    """The named periodic jobs; they run once the scheduler is started."""
    hosted, failures, clock, scheduler = replicas.hosted, replicas.failures, environment.clock, disks.scheduler
    fs, checkpoints = log_manager.file_system, log_manager.checkpoints
    disks.upkeep.schedule(config)
    current = replicas.high_watermarks.current
    CheckpointJobs(checkpoints, current, failures.directory_failed, scheduler).schedule(config)
    revive_lost = replicas.revival.revive_all
    ReplicaUpkeep(hosted, replicas.durability, replicas.isrs, revive_lost, scheduler, clock).schedule(config)
    rooms = DiskRooms(lambda: checkpoints.log_dirs, failures.directory_failed, fs, scheduler)
    stable_offsets = StableOffsets(hosted.all, clock)
    stable_offsets.schedule(scheduler)
    if config.log_cleaner_enable:
        disks.cleaner.schedule()
    return disks.upkeep, rooms, stable_offsets
