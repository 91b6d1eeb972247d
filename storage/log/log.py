"""One partition's log: its segments in order, its epoch cache, and its offsets.

    log_start_offset <= log_end_offset, flushed_offset <= log_end_offset

Its parts do the rest: `append`, `reader`, `full` (the segments that retention and the cleaner take), `producers`,
`transactions`, `written_start`, `flush_schedule`. Used from one thread (the event loop); only `PendingFlush.run`, and
what `full` says, may be elsewhere. On the loop only a truncation waits for the disk: it must be durable before it
counts. The promise of the package ends in `flushed_offset`: every record below it survives a power cut, because it
moves only in `complete_flush`. With `flush.policy=os` it is the log end instead, which is LOSSY and opt-in; the
recovery point is always the truth. A shortage (a full disk, no descriptors) refuses the operation and nothing more.

Not here: the high watermark, ISR and acks (broker); what is to go (retention, cleaner).
"""

from __future__ import annotations

import logging
from functools import partial
from os.path import dirname

from penstock import epochs
from penstock.types import EpochEndOffset, EpochEntry, TopicPartition
from storage.disk.file_system import FileSystem
from storage.disk.partition_metadata import note_topic_id, write_topic_id
from storage.log.flush import PendingFlush
from storage.log.flush_schedule import FlushSchedule
from storage.log.full_segments import FullSegments
from storage.log.log_append import LogAppend
from storage.log.log_cut import LogCut
from storage.log.log_health import LogHealth
from storage.log.log_parts import open_parts
from storage.log.log_reader import LogReader
from storage.log.log_span import WrittenStart
from storage.log.log_types import LogOptions, LogStatistics
from storage.log.log_writer import LogWriter
from storage.log.producers.log_transactions import LogTransactions
from storage.log_config import FlushPolicy, LogConfig
from storage.segment.segment import Segment

_log = logging.getLogger(__name__)


class Log:
    """An append-only sequence of record batches with dense offsets."""

    def __init__(
        self, fs: FileSystem, directory: str, topic_partition: TopicPartition, config: LogConfig, options: LogOptions
    ) -> None:
        """Opens what the directory holds, with recovery as `options.last_known` tells; see `recovery.py`."""
        self._fs, self.directory, self.topic_partition = fs, directory, topic_partition
        self.log_dir, self.topic_id = dirname(directory), options.topic_id
        self._parts = parts = open_parts(fs, directory, topic_partition, config, options)
        self.settings, self._span, self._segments = parts.settings, parts.span, parts.segments
        self._epochs, self._flushing, self._changes, self._health = (
            parts.epochs,
            parts.flushing,
            parts.changes,
            parts.health,
        )
        self.producers, self.transactions = parts.producers, LogTransactions(parts.producers)
        self._writer = LogWriter(parts, rolls_when_flushed=options.rolls_when_flushed, probe=options.probe)
        self._cut = LogCut(parts, partial(options.lower_checkpoints, topic_partition))
        self.append, self.reader = LogAppend(parts, self._writer), LogReader(parts)
        self.written_start = WrittenStart(parts.span, parts.segments, parts.changes)
        self.flush_schedule = FlushSchedule(parts)
        self.full = FullSegments(parts, self.flush_schedule)
        if self.log_end_offset < options.last_known.log_start_offset:
            self._begin_at_written_start(options.last_known.log_start_offset)

    def _begin_at_written_start(self, written_start: int) -> None:
        """A log start that was written stays, although a power cut took the records below it, which were not flushed
        here: all others have deleted them. The log begins there anew, as a follower does at its leader's log start."""
        _log.warning("%r: ends below its log start %d, and begins anew there", self, written_start)
        try:
            self.truncate_fully_and_start_at(written_start)
        except BaseException:
            self.abandon()
            raise

    @classmethod
    def create(
        cls, fs: FileSystem, directory: str, topic_partition: TopicPartition, config: LogConfig, options: LogOptions
    ) -> Log:
        """A new, empty log in a new directory; it is durable with its first flush."""
        with LogHealth(directory).refusing("create the log"):
            fs.mkdir(directory)
            if options.topic_id:
                note_topic_id(fs, directory, options.topic_id)
            log = cls(fs, directory, topic_partition, config, options)
        log._flushing.created(options.topic_id)
        return log

    def take_topic_id(self, topic_id: str) -> None:
        """An empty log that has no topic id gets this one; durable when it returns."""
        write_topic_id(self._fs, self.directory, topic_id)
        self._fs.fsync_dir(self.directory)
        self.topic_id = topic_id

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self._span.start

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that is read from a segment on this disk."""
        return self._span.local_start

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self._span.end

    @property
    def cuts(self) -> int:
        """Counts the cuts of the log since it was opened. While it stays the same, no record has become another."""
        return self._span.cuts

    @property
    def recovery_point(self) -> int:
        """Every record below it is on stable storage, whatever the flush policy."""
        return self._flushing.recovery_point

    @property
    def claimed_recovery_point(self) -> int:
        """The recovery point that a checkpoint may hold. In any thread, so the bound is read BEFORE the value."""
        return min(self._span.claims_below, self.recovery_point)

    @property
    def flushed_offset(self) -> int:
        """Every record below it counts as durable by the flush policy; acks wait for it."""
        return self.flush_schedule.flushed_offset

    @property
    def config(self) -> LogConfig:
        return self.settings.config

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Oldest first, the active one last. For retention, the cleaner and tools, which must not change them."""
        return tuple(self._segments)

    @property
    def epoch_entries(self) -> tuple[EpochEntry, ...]:
        return self._epochs.entries

    @property
    def latest_epoch(self) -> int:
        return self._epochs.latest_epoch

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """The largest epoch that is not above `epoch`, and its end offset (KIP-101, KIP-279)."""
        return epochs.end_offset_for(self._epochs.entries, epoch, self.log_end_offset)

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch of the record at the offset; -1 when not known."""
        return epochs.epoch_for_offset(self._epochs.entries, offset)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """A leader epoch begins, even if it never gets a record (KIP-279). Durable with the next flush."""
        self._health.must_be_writable()
        self._epochs.assign(epoch, start_offset)

    def update_config(self, config: LogConfig, flush_policy: FlushPolicy | None = None) -> None:
        """The settings for later writes; records that are written already stay as they are."""
        self.settings.config, self.settings.flush_policy = config, flush_policy or self.settings.flush_policy
        for segment in self._segments:
            segment.indexes.index_every(config.index_interval_bytes)

    # -- rolling -------------------------------------------------------------------------------------------------------

    @property
    def awaits_roll(self) -> bool:
        """True if the active segment is full: call `roll` after the next flush (`LogOptions.rolls_when_flushed`)."""
        return self._writer.awaits_roll and self._health.failure is None

    def roll(self) -> None:
        """Begin a new segment at the log end; does nothing when the active one is empty."""
        self._writer.roll(self.log_end_offset, self.settings.config)

    def try_roll(self) -> BaseException | None:
        """Begins a new segment as `roll` does; returns the error of a disk that refused, unless it was a shortage."""
        return self._writer.try_roll(self.log_end_offset, self.settings.config)

    # -- flushing ------------------------------------------------------------------------------------------------------

    def prepare_flush(self) -> PendingFlush | None:
        """A flush of every record up to the log end; None when all are durable, or the log is out of use."""
        return None if self.closed or self._health.failure is not None else self._flushing.prepare(self.log_end_offset)

    def complete_flush(self, pending: PendingFlush) -> int:
        """`pending.run` has returned: the flushed offset advances, unless the log was truncated meanwhile."""
        self._flushing.complete(pending)
        self.flush_schedule.flushed()
        return self.flushed_offset

    def flush(self) -> int:
        """Prepare, run and complete; blocks."""
        self._health.must_be_writable()
        return self._flush_now()

    def _flush_now(self, *, closing: bool = False) -> int:
        with self._health.refusing("flush"):
            pending = self._flushing.prepare(self.log_end_offset, closing=closing)
            if pending is not None:
                pending.run()
                self.complete_flush(pending)
        return self.flushed_offset

    def fail_flush(self, error: OSError) -> None:
        """A flush has failed in another thread: no record above the flushed offset can be promised any more."""
        self._health.fail("flush", error)

    # -- cutting -------------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Cut every batch that holds `offset` or comes after it; durable when it returns."""
        self._health.must_be_writable()
        if offset >= self.log_end_offset:
            self._epochs.truncate_from_end(offset)
        elif offset < self.local_log_start_offset:
            self._cut.to_nothing(offset, self.settings.config.index_interval_bytes)
        else:
            self._cut.to(offset)
        if self._flushing.cut_is_unflushed:
            self._flush_now()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop every record; the next record has `offset`. Durable when it returns."""
        self._health.must_be_writable()
        self._cut.to_nothing(offset, self.settings.config.index_interval_bytes)
        self._flush_now()

    def advance_log_start(self, offset: int) -> None:
        """Delete the records below `offset`: they cannot be read any more, and retention removes their segments."""
        self._health.must_be_writable()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise self._span.out_of_range(offset)
        self._parts.begin_at(offset)

    # -- end of life ---------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._health.closed

    def close(self) -> None:
        """Flush everything and write the indexes, so that the next start has nothing to recover."""
        if not self.closed:
            try:
                self._health.must_be_writable()  # a failed log is not durable, so its log dir gets no clean marker
                self.producers.reload()
                self.producers.closing(self.flushed_offset, self._changes)
                self._changes.run()
                self._changes.delete_all()
                self._flush_now(closing=True)
            finally:
                self.abandon()

    def abandon(self, *, wait: bool = True) -> None:
        """Close without a flush. `wait`, only BEFORE a rename: until no other thread writes files by name."""
        self._health.close()
        self.producers.close()
        self._changes.cancel(wait=wait)
        self._epochs.names.end(wait=wait)
        self._segments.close()

    def statistics(self) -> LogStatistics:
        return LogStatistics(
            topic_partition=self.topic_partition,
            size_bytes=self.size_bytes,
            segments=len(self._segments),
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            flushed_offset=self.flushed_offset,
            recovery_point=self.recovery_point,
            flushes=self._flushing.flushes,
            index_rebuilds=sum(segment.indexes.rebuilds for segment in self._segments),
            deleted_files=self._changes.deleted_files,
            failed=self._health.failure is not None,
            **self._parts.counters.as_fields(),
        )

    def __repr__(self) -> str:
        offsets = f"{self.log_start_offset}..{self.log_end_offset}, flushed {self.flushed_offset}"
        return f"Log({self.directory}, {offsets}, epoch {self.latest_epoch})"
