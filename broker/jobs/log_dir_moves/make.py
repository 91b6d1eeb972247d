"""Makes the moves between log dirs, from their threads up. Wiring only."""

from __future__ import annotations

from collections.abc import Callable

from broker.jobs.log_dir_moves.log_dir_moves import LogDirMoves
from broker.jobs.log_dir_moves.move_announcement import MoveAnnouncements
from broker.jobs.log_dir_moves.move_copy import MoveCopy
from broker.jobs.log_dir_moves.move_swap import MoveSwap
from broker.jobs.log_dir_moves.move_table import MoveTable
from broker.jobs.log_dir_moves.move_threads import MoveThreads
from broker.jobs.scheduler import Scheduler
from broker.replication.hosting.directory_reports import DirectoryReports
from broker.replication.hosting.replica_parts import ReplicaParts
from broker.replication.hosting.replica_roles import Fetchers
from broker.replication.move_throttle import MoveThrottle
from penstock.clock import Clock
from penstock.threads import Threads
from penstock.types import TopicPartition
from storage.log_dirs.log_manager import LogManager


def make_log_dir_moves(
    log_manager: LogManager,
    table: MoveTable,
    replicas: ReplicaParts,
    *,
    fetchers: Fetchers,
    directories: DirectoryReports,
    on_log_gone: Callable[[TopicPartition], None],
    scheduler: Scheduler,
    throttle: MoveThrottle,
    clock: Clock,
    threads: Threads,
) -> LogDirMoves:
    """Makes the moves, with their jobs in the scheduler; `on_log_gone` is told of a partition whose log is another one
    from now on."""
    in_dirs = MoveThreads(scheduler, threads, tuple(log_manager.meta_properties))
    copying = MoveCopy(log_manager.futures, in_dirs, throttle, clock)
    announcements = MoveAnnouncements(directories)
    swapping = MoveSwap(log_manager, replicas, fetchers, on_log_gone, announcements, copying, in_dirs, clock)
    moves = LogDirMoves(log_manager, table, replicas, copying, swapping, throttle, in_dirs, clock)
    moves.schedule(scheduler)
    return moves
