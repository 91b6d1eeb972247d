"""Writes the checkpoints of every log dir on schedule, so that a restart has little to recover.

    recovery-point-checkpoint    log.flush.offset.checkpoint.interval.ms          a recovery checks only what is above
    log-start-checkpoint         log.flush.start.offset.checkpoint.interval.ms    deleted records stay deleted
    high-watermark-checkpoint    replica.high.watermark.checkpoint.interval.ms    records below it are committed

Each log dir has jobs of its own, in threads: a dir that hangs holds up no other. A disk that is full delays a
checkpoint to its next turn; one that fails a checkpoint in another way has failed. Not here: the
files (`storage/log_dirs/log_checkpoints.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.config.node_config import NodeConfig
from broker.jobs.scheduler import Scheduler
from penstock.errors import KafkaStorageError
from storage.disk.disk_errors import is_shortage
from storage.log_dirs.log_checkpoints import LogCheckpoints
from storage.log_dirs.log_table import LogId


class CheckpointJobs:
    """Writes the checkpoints of all log dirs. There is one per broker, on the event loop."""

    def __init__(
        self,
        checkpoints: LogCheckpoints,
        high_watermarks: Callable[[], Mapping[LogId, int]],
        on_log_dir_failed: Callable[[str, Exception], None],
        scheduler: Scheduler,
    ) -> None:
        """`high_watermarks()` is called in a thread."""
        self._checkpoints = checkpoints
        self._high_watermarks = high_watermarks
        self._on_log_dir_failed = on_log_dir_failed
        self._scheduler = scheduler

    def schedule(self, config: NodeConfig) -> None:
        """Add every job, with the node's intervals."""
        add, log_dirs = self._scheduler.add_for_each, self._checkpoints.log_dirs
        interval_ms = config.log_flush_offset_checkpoint_interval_ms
        add(log_dirs, "recovery-point-checkpoint", interval_ms, self.checkpoint_recovery_points)
        interval_ms = config.log_flush_start_offset_checkpoint_interval_ms
        add(log_dirs, "log-start-checkpoint", interval_ms, self.checkpoint_log_starts)
        interval_ms = config.replica_high_watermark_checkpoint_interval_ms
        add(log_dirs, "high-watermark-checkpoint", interval_ms, self.checkpoint_high_watermarks)

    async def checkpoint_recovery_points(self, log_dir: str) -> None:
        self._take(log_dir, await self._scheduler.in_thread(log_dir, self._checkpoints.try_recovery_points, log_dir))

    async def checkpoint_log_starts(self, log_dir: str) -> None:
        self._take(log_dir, await self._scheduler.in_thread(log_dir, self._checkpoints.try_log_starts, log_dir))

    async def checkpoint_high_watermarks(self, log_dir: str) -> None:
        write, read = self._checkpoints.try_high_watermarks, self._high_watermarks
        self._take(log_dir, await self._scheduler.in_thread(log_dir, write, log_dir, read))

    def _take(self, log_dir: str, failure: KafkaStorageError | None) -> None:
        """These small regular writes also notice that a log dir is gone or read-only while nothing else is written to
        it, or while other writes go to files that have no name any more."""
        if failure is None:
            return
        if isinstance(failure.__cause__, OSError) and not is_shortage(failure):
            self._on_log_dir_failed(log_dir, failure.__cause__)
        raise failure

    def __repr__(self) -> str:
        return f"CheckpointJobs({len(self._checkpoints.log_dirs)} log dirs)"
