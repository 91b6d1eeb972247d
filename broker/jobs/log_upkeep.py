"""The scheduled jobs of all logs of a broker: retention, and the removal of deleted files.

    log-retention                every log.retention.check.interval.ms     the oldest segments leave their logs
    delete-logs                  log.segment.delete.delay.ms               unlinks files and directories that left
    expire-producers             ten minutes                               idempotent producers that are silent go

Each log dir has jobs of its own, so that a dir that hangs holds up no other. Slow work runs in the scheduler's threads;
logs change on the loop only. A full disk delays the work to the job's next turn, but for what makes room: on a disk
that is short of it, deleted files go without `file.delete.delay.ms`. Not here: which segments are deleted
(`storage/log/retention.py`), checkpoints (checkpoint_jobs.py), the cleaner (cleaner_job.py), when a job runs
(scheduler.py).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from broker.config.node_config import NodeConfig
from broker.jobs.scheduler import Scheduler
from broker.jobs.wall_clock import WallClockGuard
from broker.replication.disk_failures import DiskFailures
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.partition import Partition
from penstock.clock import Clock
from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.metric_fields import counter, gauge, measured
from storage.disk.file_system import FileSystem
from storage.log.log import Log
from storage.log.retention import DeletionReason, LogBounds, SegmentFacts, expired
from storage.log_dirs.log_manager import LogManager
from storage.segment.segment import Segment
from storage.segment.segment_time import SegmentSnapshot, largest_time_ms

_log = logging.getLogger(__name__)

DELETE_LOGS_MS_MIN, DELETE_LOGS_MS_MAX = 1_000, 60_000
"""How often deleted files are looked for: a topic's delay may be shorter than the node's."""


AT_ONCE_MS = 2**63
"""A time that is later than every delay."""
EXPIRY_MS = 600_000
"""How often producers are looked for that were silent for `producer.id.expiration.ms`; Kafka's default."""


@measured
class LogUpkeepStatistics:
    """The figures of the jobs since the start."""

    segments_deleted: dict[DeletionReason, int]
    bytes_deleted: int = counter("penstock_log_bytes_deleted", "Bytes of the segments that retention has deleted.")
    clock_jumps: int = counter("penstock_wall_clock_jumps", "How often the clock has jumped.")
    clock_is_believed: bool = gauge(
        "penstock_wall_clock_believed",
        "0 after the clock has jumped, while it is apart from those of most brokers, or if it could be compared with"
        " none for 10 minutes: nothing is deleted by age meanwhile.",
    )
    clock_off_s: float = gauge(
        "penstock_wall_clock_off_seconds",
        "By so much this node's clock is ahead of the middle one of the brokers; negative: behind.",
        default=0.0,
    )


class LogUpkeep:
    """The scheduled jobs of all logs. There is one per broker, on the event loop."""

    def __init__(
        self,
        hosted: HostedPartitions,
        failures: DiskFailures,
        log_manager: LogManager,
        scheduler: Scheduler,
        clock: Clock,
        fs: FileSystem,
        wall_clock: WallClockGuard,
    ) -> None:
        self._hosted, self._failures = hosted, failures
        self._log_manager = log_manager
        self._scheduler = scheduler
        self._clock = clock
        self._fs = fs
        self._wall_clock = wall_clock
        self._segments_deleted: Counter[DeletionReason] = Counter()
        self._bytes_deleted = 0
        self._times_ms: dict[str, dict[Segment, tuple[int, int, int]]] = {}
        """The cuts and the size of each segment when its time was read, and the time, by log dir. A segment is the key,
        not its name: a topic that is made anew has files of the same names, and maybe sizes."""

    def schedule(self, config: NodeConfig) -> None:
        """Add every job, with the node's intervals."""
        add, log_dirs = self._scheduler.add_for_each, self._log_manager.checkpoints.log_dirs
        add(log_dirs, "log-retention", config.log_retention_check_interval_ms, self.delete_expired_segments)
        delay_ms = min(max(config.log_segment_delete_delay_ms, DELETE_LOGS_MS_MIN), DELETE_LOGS_MS_MAX)
        add(log_dirs, "delete-logs", delay_ms, self.delete_files)
        expiry_ms = min(EXPIRY_MS, config.producer_id_expiration_ms)
        add(log_dirs, "expire-producers", expiry_ms, self.expire_producers)

    # -- retention -----------------------------------------------------------------------------------------------------

    async def delete_expired_segments(self, log_dir: str) -> None:
        """Remove the segments that retention deletes from their logs; their files are renamed."""
        wall_ms = self._wall_clock.believed_wall_ms()
        looked_at: dict[Segment, tuple[int, int, int]] = {}
        for partition in self._in_use(log_dir):
            await self.run_file_changes(partition)
            if partition.log.full.has_file_changes or not self._is_in_use(partition):
                continue
            files = self._files_of(partition)
            reasons = await self._expired(partition, files, wall_ms, looked_at) if files else ()
            if len(reasons) == len(files) > 0 and not await self._may_roll(partition, files):
                reasons = reasons[:-1]
            if reasons:
                self._delete(partition, [file.size_bytes for file in files], reasons)
                await self.run_file_changes(partition)
        self._times_ms[log_dir] = looked_at

    async def _may_roll(self, partition: Partition, files: Sequence[SegmentSnapshot]) -> bool:
        """True if the active segment may go, too: another one is then begun, on the loop, so the disk must just have
        answered. False also if the log has changed meanwhile."""
        partition_log = partition.log
        try:
            await self._scheduler.in_thread(partition_log.log_dir, partition_log.full.run_file_changes, sync=True)
        except OSError as error:
            self._failures.disk_error(partition, error)
            return False
        is_same = self._is_in_use(partition, partition_log) and _are_the_oldest(files, partition_log)
        return is_same and files[-1].is_unchanged()

    def _files_of(self, partition: Partition) -> list[SegmentSnapshot]:
        """Empty if the disk cannot even list the files; the other partitions have their turn all the same."""
        try:
            return [SegmentSnapshot.of(segment) for segment in partition.log.segments]
        except (OSError, CorruptFileError) as error:
            self._failures.disk_error(partition, error)
            return []

    async def _expired(
        self,
        partition: Partition,
        files: list[SegmentSnapshot],
        wall_ms: int | None,
        looked_at: dict[Segment, tuple[int, int, int]],
    ) -> tuple[DeletionReason, ...]:
        """Decide in a thread, because an age may have to be read; nothing if the log has changed meanwhile."""

        known = self._times_ms.get(partition.log.log_dir, {})

        def time_ms(file: SegmentSnapshot) -> int:
            cuts, size_bytes, found_ms = known.get(file.segment, (0, -1, 0))
            if (cuts, size_bytes) != (file.cuts, file.size_bytes):
                found_ms = largest_time_ms(self._fs, file)
            looked_at[file.segment] = file.cuts, file.size_bytes, found_ms
            return found_ms

        facts = [
            SegmentFacts(file.next_offset, file.size_bytes, lambda file=file: time_ms(file))  # type: ignore[misc]
            for file in files
        ]
        partition_log = partition.log
        bounds = LogBounds(partition_log.local_log_start_offset, partition.high_watermark)
        damage: CorruptFileError | OSError | None = None
        reasons: tuple[DeletionReason, ...] = ()
        try:
            reasons = await self._scheduler.in_thread(
                partition_log.log_dir, expired, facts, partition_log.config, bounds, wall_ms
            )
        except (CorruptFileError, OSError) as error:
            damage = error
        if not self._is_in_use(partition, partition_log) or not _are_the_oldest(files, partition_log):
            return ()
        if damage is not None:
            self._failures.disk_error(partition, damage)
        return reasons if files[-1].is_unchanged() else reasons[: len(files) - 1]

    def make_room_below_log_start(self, partition: Partition) -> bool:
        """Has the segments below the log start leave their log now, on a disk that is short of room, and not at the
        next turn of retention; all segments where every record was deleted. True if files wait to be unlinked. Called
        when the disk has just answered: its logs change on the loop."""
        log = partition.log
        if not self._is_in_use(partition):
            return False
        try:
            count = log.full.below_local_start(partition.high_watermark)
            start = log.local_log_start_offset
            if start == log.log_end_offset <= partition.high_watermark and log.segments[-1].size_bytes:
                count = len(log.segments)
            if not (count or log.full.has_removed_files) or not self._fs.room(log.log_dir).is_short:
                return False
        except OSError:
            return False  # the disk is asked again by every job
        if count:
            sizes = [segment.size_bytes for segment in log.segments]
            self._delete(partition, sizes, (DeletionReason.LOG_START,) * count)
        return log.full.has_removed_files

    def _delete(self, partition: Partition, sizes: Sequence[int], reasons: Sequence[DeletionReason]) -> None:
        """`sizes` are those of all segments of the log."""
        partition_log = partition.log
        full = len(sizes) - 1
        try:
            partition_log.full.remove_oldest(min(len(reasons), full))
            if len(reasons) > full:  # the active one too: the log goes on in an empty one
                partition_log.roll()
                partition_log.full.remove_oldest(1)
        except (OSError, KafkaStorageError) as error:
            self._failures.disk_error(partition, error)
            reasons = reasons[:full]
        if reasons:
            partition.log_start_moved()
            self._segments_deleted.update(reasons)
            self._bytes_deleted += sum(sizes[: len(reasons)])
            why = ", ".join(f"{count} by {reason.value}" for reason, count in Counter(reasons).items())
            _log.info("%s: %d segments deleted (%s)", partition, len(reasons), why)

    # -- files ---------------------------------------------------------------------------------------------------------

    async def run_file_changes(self, partition: Partition) -> None:
        """Bring the partition's directory up to date with its log."""
        if not partition.log.full.has_file_changes:
            return
        partition_log = partition.log
        try:
            await self._scheduler.in_thread(partition_log.log_dir, partition_log.full.run_file_changes)
        except OSError as error:
            if self._is_in_use(partition, partition_log):
                self._failures.disk_error(partition, error)

    async def delete_files(self, log_dir: str) -> None:
        """Unlink files that left their log, or were deleted with their topic, `file.delete.delay.ms` ago; all of them
        on a disk that is short of room."""
        for partition in self._in_use(log_dir):
            await self.run_file_changes(partition)  # changes that a full disk has delayed
        logs = [partition.log for partition in self._in_use(log_dir)]
        until_ms = AT_ONCE_MS if await self._is_short_of_room(log_dir, logs) else self._clock.now_ms()
        try:
            await self._scheduler.in_thread(log_dir, _delete_expired_files, logs, until_ms)
        finally:
            await self._scheduler.in_thread(log_dir, self._log_manager.removal.delete_due, until_ms, log_dir)

    async def _is_short_of_room(self, log_dir: str, logs: Sequence[Log]) -> bool:
        """False also where no file waits to be unlinked, and where the disk does not tell."""
        waits = any(log.full.has_removed_files for log in logs) or len(self._log_manager.removal.deleted) > 0
        if not waits or log_dir not in self._log_manager.checkpoints.log_dirs:
            return False
        try:
            return (await self._scheduler.in_thread(log_dir, self._fs.room, log_dir)).is_short
        except OSError:
            return False

    async def expire_producers(self, log_dir: str) -> None:
        """Forgets the idempotent producers that were silent for too long. No file changes."""
        for partition in self._in_use(log_dir):
            partition.log.producers.forget_silent()

    def _in_use(self, log_dir: str) -> list[Partition]:
        hosted = self._hosted.all()
        return [partition for partition in hosted if partition.log.log_dir == log_dir and self._is_in_use(partition)]

    def _is_in_use(self, partition: Partition, partition_log: Log | None = None) -> bool:
        """Still hosted here, over this log, and its disk is good: it may have moved to another log dir meanwhile."""
        is_hosted = self._hosted.find(partition.topic_partition) is partition
        is_same = partition_log in (None, partition.log)
        return is_hosted and is_same and partition.offline is None and not partition.log.closed

    def statistics(self) -> LogUpkeepStatistics:
        wall_clock = self._wall_clock
        return LogUpkeepStatistics(
            dict(self._segments_deleted),
            self._bytes_deleted,
            wall_clock.jumps,
            not wall_clock.fault,
            wall_clock.off_ms / 1000,
        )

    def __repr__(self) -> str:
        return f"LogUpkeep({self._segments_deleted.total()} segments deleted, {self._wall_clock!r})"


def _are_the_oldest(files: Sequence[SegmentSnapshot], partition_log: Log) -> bool:
    """True if the log still begins with these segments, but for what was appended."""
    full, now = files[:-1], partition_log.segments
    return [file.segment for file in full] == list(now[: len(full)]) and all(file.is_unchanged() for file in full)


def _delete_expired_files(logs: Sequence[Log], until_ms: int) -> None:
    """Deletes the expired files of all these logs; raises the first error after all had their turn."""
    failure: OSError | None = None
    for one in logs:
        try:
            if until_ms == AT_ONCE_MS:
                one.full.delete_removed_files()
            else:
                one.full.delete_expired_files(until_ms)
        except OSError as error:
            failure = failure or error
    if failure is not None:
        raise failure
