"""One log dir: its lock, its clean-shutdown marker, and the checkpoints about all logs in it.

    recovery-point-offset-checkpoint   below it everything was flushed; recovery starts there
    replication-offset-checkpoint      high watermarks
    log-start-offset-checkpoint        log starts that are not the beginning of a segment
    cleaner-offset-checkpoint          how far compacted logs were cleaned (cleaner_checkpoint.py)

Every line is a claim that may be too low, never too high. A truncation therefore lowers the lines BEFORE any record is
cut; otherwise the next start would take the missing records for rot. A start after a crash lowers the high watermarks
that are above what is left, BEFORE other records get these offsets. A missing or damaged checkpoint claims nothing,
and costs time: every record is checked, and high watermarks rise with the first fetches. A log then starts where its
first epoch does; at worst at its first segment, and deleted records can be read again until that segment is deleted.

The checkpoint job may run in another thread, and a disk may take ten seconds for it; a lock keeps it and a truncation
apart. A log without a claim, on the disk or in the write under way, need not wait for it: new logs are created on the
event loop. After a failover many logs are cut within one fetch answer, and the file has a line for every log: the cuts
are expected together, and the first one lowers the lines of all of them in one write. Not here: the logs
(`log_manager.py`), meta.properties.

The lock of a dir that has failed is given back while the process runs, so that its disk can be unmounted, and repaired
with `penstock log recover`. A thread may still stand in a write to it, so every name is taken only while the dir is
held: a late checkpoint replaces none that a repair has lowered.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain

from penstock.errors import MetaPropertiesError
from penstock.threads import Threads
from penstock.types import TopicPartition
from storage.cleaner.cleaner_checkpoint import CleanerCheckpoint
from storage.disk.checkpoint_file import OffsetLines
from storage.disk.checkpoint_reserve import CheckpointReserve
from storage.disk.disk_errors import is_disk_full
from storage.disk.file_names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOCK,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    parse_partition_directory,
)
from storage.disk.file_system import FileSystem, remove_tree
from storage.disk.offset_checkpoint import NO_IDS, OffsetCheckpoint
from storage.log_dirs.clean_shutdown import take_marker, write_marker
from storage.log_dirs.log_table import LogId
from storage.recovery.recovery import LastKnown

Offsets = Mapping[TopicPartition, int]
Names = Collection[TopicPartition]


class LogDirectory:
    """A log dir that this process holds."""

    def __init__(self, fs: FileSystem, path: str, threads: Threads) -> None:
        """Lock the dir, and read its files. The marker is removed."""
        self._fs = fs
        self.path = path
        self._is_held = True
        self.unfinished: set[str] = set()
        """Directories that a failed creation could not remove; the log may have been created elsewhere since."""
        try:
            self._lock_fd = fs.lock(f"{path}/{LOCK}")
        except BlockingIOError as error:
            holder = f"another process (it holds {path}/{LOCK})"
            raise MetaPropertiesError(f"{path} is in use by {holder}; stop that process first") from error
        try:
            self._mutex = threads.lock()
            """The lock that is held while a checkpoint is written."""
            self._claims = threads.lock()
            """Held, never for long, while lines are read that a checkpoint is to get, and while they are looked at."""
            self._under_way: Offsets = {}
            """Lines that are being written and may be on the disk already."""
            self._expected_cuts: dict[TopicPartition, tuple[int, Callable[[], bool]]] = {}
            """Guarded by `_claims`. Only hints: each cut lowers its own line BEFORE, whether it was expected or not."""
            self.clean_stop = take_marker(fs, path)
            """The content of the marker of a clean stop before this start; None after any other stop."""
            fs.fsync_dir(path)  # a killed process leaves names that may not be on the disk: durable BEFORE use
            self._reserve = CheckpointReserve(fs, path, threads, self._step)
            self._recovery_points = OffsetCheckpoint(
                fs, f"{path}/{RECOVERY_POINT_CHECKPOINT}", has_topic_ids=True, write=self._reserve.write
            )
            self._high_watermarks = self._checkpoint(HIGH_WATERMARK_CHECKPOINT)
            self._log_starts = self._checkpoint(LOG_START_CHECKPOINT)
            self.cleaner_checkpoint = CleanerCheckpoint(fs, path, threads, self._reserve.write)
            if not self._recovery_points.is_good and not any(map(parse_partition_directory, fs.listdir(path))):
                self._begin_recovery_points()
            self._reserve.refill()
        except BaseException:
            fs.close(self._lock_fd)
            raise

    def _begin_recovery_points(self) -> None:
        """A dir without logs has a good checkpoint from the beginning, if there is room for it."""
        try:
            self._recovery_points.replace({})
        except OSError as error:
            if not is_disk_full(error):
                raise

    def _checkpoint(self, name: str) -> OffsetCheckpoint:
        return OffsetCheckpoint(self._fs, f"{self.path}/{name}", write=self._reserve.write)

    @contextmanager
    def _step(self) -> Iterator[bool]:
        """The context of each change of a name in the dir; see the module."""
        if not self._is_held:
            raise OSError(errno.EIO, "the log dir has failed, and others may use it", self.path)
        yield True

    @property
    def was_clean(self) -> bool:
        return self.clean_stop is not None

    @property
    def is_short_of_room(self) -> bool:
        """True if the disk of the log dir is nearly full. Asks the disk."""
        return self._fs.room(self.path).is_short

    @property
    def high_watermarks(self) -> Offsets:
        return self._high_watermarks.offsets

    def last_known(self, topic_partition: TopicPartition) -> LastKnown:
        points = self._recovery_points.offsets if self._recovery_points.is_good else None
        log_starts = self._log_starts.offsets
        return LastKnown.of(topic_partition, clean=self.was_clean, recovery_points=points, log_starts=log_starts)

    def flushed_logs(self) -> set[LogId]:
        """The logs that had flushed records, by a good recovery-point checkpoint: they are here, or were."""
        points = self._recovery_points
        if not points.is_good:
            return set()
        return {LogId(tp, points.topic_ids.get(tp, "")) for tp, offset in points.offsets.items() if offset > 0}

    def checkpoint_recovery_points(
        self, read: Callable[[], Mapping[LogId, int]], offline: Callable[[], Collection[LogId]]
    ) -> None:
        """Write the recovery points that `read` returns.

        A truncation lowers the file before it cuts anything. `read` is called while that cannot come between, and what
        it reads is bounded BEFORE the file is lowered (`Log.claimed_recovery_point`): no later checkpoint claims more.

        Logs that are `offline` keep theirs, unless `read` knows a newer one: without it, the next start would take
        their rot for a torn tail. Where it is not known, because there is no good checkpoint, there must be none until
        they are repaired or set aside.
        `offline` is called AFTER `read`: a log that goes offline meanwhile is in either.
        """
        points = self._recovery_points

        def lines() -> OffsetLines | None:
            found, kept = read(), offline()
            return _lines(_kept(points, kept), found) if points.is_good or not kept else None

        with self._mutex:
            self._write(points, lines)

    def checkpoint_log_starts(self, read: Callable[[], Offsets], offline: Callable[[], Names]) -> None:
        with self._mutex:
            self._write_keeping(self._log_starts, offline, read)

    def checkpoint_high_watermarks(self, read: Callable[[], Offsets], offline: Callable[[], Names]) -> None:
        with self._mutex:
            self._write_keeping(self._high_watermarks, offline, read)

    def lower_high_watermarks(self, log_ends: Offsets) -> None:
        """Make durable that no high watermark is above the end of its log; writes only if one is."""
        with self._mutex:
            self._high_watermarks.lower(log_ends)

    def _write_keeping(
        self, checkpoint: OffsetCheckpoint, offline: Callable[[], Names], read: Callable[[], Offsets]
    ) -> None:
        def lines() -> OffsetLines:
            found, kept = read(), offline()  # in this order, as for recovery points
            return OffsetLines({tp: at for tp, at in checkpoint.offsets.items() if tp in kept} | dict(found), NO_IDS)

        self._write(checkpoint, lines)

    def _write(self, checkpoint: OffsetCheckpoint, read: Callable[[], OffsetLines | None]) -> None:
        """The lines that `read` returns, if any; they count as claimed BEFORE they are. A file without lines is not
        begun."""
        with self._claims:
            lines = read()
            if lines is None:
                return
            self._under_way = lines.offsets
        try:
            if lines.offsets or checkpoint.offsets or checkpoint is self._recovery_points:
                checkpoint.replace(*lines)
        finally:
            with self._claims:
                self._under_way = {}
        self._reserve.refill()

    def _is_claimed_above(self, topic_partition: TopicPartition, offset: int, log_start: int) -> bool:
        with self._claims:
            claims = self._recovery_points, self._high_watermarks
            above = max(self._under_way.get(topic_partition, 0), *(one.claim(topic_partition) for one in claims))
            return above > offset or self._log_starts.claim(topic_partition) > log_start

    def expect_cut(self, topic_partition: TopicPartition, offset: int, is_wanted: Callable[[], bool]) -> None:
        """The log will be cut at `offset`: the next write for a cut lowers its lines too, if that is still wanted then.
        Should the log not be cut after all, its lines are lower than they need be until the next checkpoint."""
        with self._claims:
            self._expected_cuts[topic_partition] = offset, is_wanted

    def lower_checkpoints(self, topic_partition: TopicPartition, offset: int, log_start: int | None = None) -> None:
        """Make durable that no checkpoint claims more than `offset` for the log: it is truncated, or created anew. The
        log start of a log that is emptied and begins at `log_start` may be as high as that.

        The log's own claims are bounded BEFORE this, or it is not here: no later checkpoint claims more.
        """
        log_start = offset if log_start is None else log_start
        with self._claims:
            self._expected_cuts.pop(topic_partition, None)
        if self._is_claimed_above(topic_partition, offset, log_start):
            with self._mutex:
                expected = self._take_expected_cuts()
                for checkpoint in (self._recovery_points, self._high_watermarks):
                    checkpoint.lower(expected | {topic_partition: offset})
                self._log_starts.lower(expected | {topic_partition: log_start})
        self.cleaner_checkpoint.lower(topic_partition, offset)

    def _take_expected_cuts(self) -> dict[TopicPartition, int]:
        with self._claims:
            expected, self._expected_cuts = self._expected_cuts, {}
        return {tp: offset for tp, (offset, is_wanted) in expected.items() if is_wanted()}

    def forget(self, topic_partition: TopicPartition) -> None:
        """Make durable that no checkpoint has a line for the log: it was set aside."""
        with self._mutex:
            for checkpoint in self._checkpoints():
                checkpoint.forget(topic_partition)
            self.cleaner_checkpoint.remove(topic_partition)

    def _checkpoints(self) -> tuple[OffsetCheckpoint, ...]:
        return self._recovery_points, self._high_watermarks, self._log_starts

    def close(self, *, clean: bool, broker_epoch: int, directory_ids: Collection[str] = ()) -> None:
        """Release the dir; with `clean`, everything in it was flushed and checkpointed BEFORE. No marker stands beside
        a log that was never in use, or the next start would take it for the log (`unfinished_logs.py`)."""
        try:
            if clean:
                for path in tuple(self.unfinished):
                    with suppress(FileNotFoundError):
                        remove_tree(self._fs, path)
                    self.unfinished.discard(path)
                write_marker(self._fs, self.path, broker_epoch, directory_ids)
        finally:
            self._is_held = False  # BEFORE
            self._fs.close(self._lock_fd)

    def __repr__(self) -> str:
        return f"LogDirectory({self.path}, {self.clean_stop or 'not stopped in order'})"


def _kept(points: OffsetCheckpoint, logs: Iterable[LogId]) -> dict[LogId, int]:
    """The lines that the logs have now; a line of an older release gets to know whose it is."""
    return {LogId(tp, points.topic_ids.get(tp) or topic_id): points.offsets.get(tp, 0) for tp, topic_id in logs}


def _lines(*parts: Mapping[LogId, int]) -> OffsetLines:
    """Merges the lines. If two parts have a line for one name, the later part wins: the earlier log's directory is
    gone."""
    offsets: dict[TopicPartition, int] = {}
    topic_ids: dict[TopicPartition, str] = {}
    for log_id, offset in chain.from_iterable(part.items() for part in parts):
        offsets[log_id.topic_partition] = offset
        topic_ids[log_id.topic_partition] = log_id.topic_id
    return OffsetLines(offsets, {tp: topic_id for tp, topic_id in topic_ids.items() if topic_id})
