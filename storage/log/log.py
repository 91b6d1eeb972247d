"""One partition's log: its segments in order, its epoch cache, and its offsets.

    log_start_offset <= log_end_offset, flushed_offset <= log_end_offset

Used from one thread (the event loop); only `PendingFlush.run`, `run_file_changes` and `delete_expired_files` may be
elsewhere. On the loop only a truncation waits for the disk: it must be durable before it counts. The promise of the
package ends in `flushed_offset`: every record below it survives a power cut, because it moves only in
`complete_flush`. With `flush.policy=os` it is the log end instead, which is LOSSY and opt-in; the recovery point is
always the truth. A shortage (a full disk, no descriptors) refuses the operation and nothing more.

Not here: the high watermark, ISR and acks (broker); what is to go (retention, cleaner).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from os.path import dirname

from penstock import epochs
from penstock.errors import ApiError, InvariantViolation, OffsetOutOfRangeError
from penstock.types import NO_TIMESTAMP, EpochEndOffset, EpochEntry, TimestampAndOffset, TopicPartition
from storage.append.append_origin import PRODUCER, AppendOrigin
from storage.append.batch_validation import check_fetched
from storage.append.placing import Placed, fetched_runs, place_as_leader
from storage.append.recompression import prepared
from storage.append.stretched_batch import without_overlap
from storage.disk.file_system import Bytes, FileSystem
from storage.disk.small_file_writes import SmallFileWrites
from storage.log.file_changes import FileChanges
from storage.log.flush import FlushTracker, PendingFlush
from storage.log.flush_schedule import FlushSchedule
from storage.log.log_cut import NO_LIMIT, CutParts, LogCut, LogSpan, WrittenStart
from storage.log.log_health import LogHealth
from storage.log.log_reader import LogReader, Records
from storage.log.log_transactions import LogTransactions
from storage.log.log_types import AppendInfo, CleanedSegment, FetchData, LogCounters, LogOptions, LogStatistics
from storage.log.log_writer import LogWriter
from storage.log.partition_metadata import note_topic_id, write_topic_id
from storage.log.producer_log import ProducerLog, replay_of
from storage.log.segment_list import SegmentList
from storage.log_config import FlushPolicy, LogConfig
from storage.recovery.recovery import RecoveryOptions, open_segments
from storage.segment.cold_read import ColdRead
from storage.segment.segment import Segment, Wanted
from storage.segment.timestamp_lookup import TimeLookUp


class Log:
    """An append-only sequence of record batches with dense offsets."""

    def __init__(
        self, fs: FileSystem, directory: str, topic_partition: TopicPartition, config: LogConfig, options: LogOptions
    ) -> None:
        """Opens what the directory holds, with recovery as `options.last_known` tells; see `recovery.py`."""
        self._fs, self.directory, self.topic_partition, self.config = fs, directory, topic_partition, config
        self.log_dir, self.topic_id, self.flush_policy = dirname(directory), options.topic_id, options.flush_policy
        names, ids = SmallFileWrites(options.threads), options.producer_ids if config.keeps_producers else None
        recovering = RecoveryOptions(options.before_doubtful_cut, replay_of(ids), options.on_segment_checked)
        recovered = open_segments(fs, directory, config, options.last_known, names, recovering)
        self._segments = SegmentList(fs, directory, recovered.segments, options.open_files)
        self._epochs, self._health = recovered.epoch_cache, LogHealth(directory)
        self.producers = ProducerLog(fs, self._health, ids, self._segments, self._epochs, recovered.producers)
        snapshots, end = self.producers.snapshots, recovered.log_end_offset
        self._flushing = FlushTracker(fs, directory, self._segments, self._epochs, snapshots, end, options.probe)
        self._flush_schedule, self._changes = FlushSchedule(), FileChanges(fs, directory, options.threads.lock())
        self._span, self.transactions = LogSpan(recovered.log_start_offset, end), LogTransactions(self.producers)
        self._counters = LogCounters(recovery_cut_bytes=recovered.cut_bytes)
        self.reader = LogReader(self._segments, self._epochs, self._health, self._counters)
        written = (self._segments, self._epochs, self._flushing, self._health, self._counters, self.producers)
        self._writer = LogWriter(*written, rolls_when_flushed=options.rolls_when_flushed, probe=options.probe)
        parts = CutParts(self._span, self._segments, self._epochs, self._flushing, self._changes, self.producers)
        self.written_start = WrittenStart(self._span, self._segments, self._changes)
        self._cut = LogCut(parts, self._health, self._counters, partial(options.lower_checkpoints, topic_partition))

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
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self._span.end

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
        return self.log_end_offset if self.flush_policy == "os" else self._flushing.recovery_point

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
        self.config, self.flush_policy = config, flush_policy or self.flush_policy
        for segment in self._segments:
            segment.indexes.index_every(config.index_interval_bytes)

    # -- appending -----------------------------------------------------------------------------------------------------

    def append_as_leader(
        self, records: Bytes, leader_epoch: int, now_ms: int, origin: AppendOrigin = PRODUCER
    ) -> AppendInfo:
        """Check the batches, place them, and write all or none; a producer's duplicate is only answered. Wall time."""
        self._health.must_be_writable()
        self.producers.reload()
        try:
            records, batches, _ = prepared(records, self.config, now_ms, origin=origin)
        except ApiError as refusal:
            return self.producers.answer_refused(records, refusal)
        is_of_producer = batches[0][1].producer_id >= 0 or origin is not PRODUCER
        if is_of_producer and (answer := self.producers.answer_append(records, batches, origin)) is not None:
            return answer
        if leader_epoch < self.latest_epoch:
            raise InvariantViolation(f"{self!r}: append with epoch {leader_epoch} after {self.latest_epoch}")
        append_time_ms = now_ms if self.config.message_timestamp_type == "LogAppendTime" else NO_TIMESTAMP
        placed = place_as_leader(records, batches, self.log_end_offset, leader_epoch, append_time_ms)
        return self._append((placed,), AppendInfo.of(placed.headers, placed.size_bytes, append_time_ms))

    def append_as_follower(self, records: Bytes, old_below: int = NO_LIMIT) -> AppendInfo:
        """Write the leader's batches, all or none; they must continue this log. `old_below`: see `LogWriter.append`."""
        self._health.must_be_writable()
        self.producers.reload()
        records = without_overlap(records, self.log_end_offset)
        batches = check_fetched(records, self.log_end_offset, self.latest_epoch)
        info = AppendInfo.of([header for _, header in batches], len(records), NO_TIMESTAMP)
        room = self.config.segment_bytes - self._segments.active.size_bytes
        return self._append(fetched_runs(records, batches, room, self.config.segment_bytes), info, old_below)

    def _append(self, runs: Iterable[Placed], info: AppendInfo, old_below: int = 0) -> AppendInfo:
        self._span.end = self._writer.append(runs, self._span.end, self.config, old_below)
        self._counters.appended_bytes += info.size_bytes
        self._counters.appended_records += info.record_count
        return info

    @property
    def awaits_roll(self) -> bool:
        """It is full: call `roll` after the next flush (`LogOptions.rolls_when_flushed`)."""
        return self._writer.awaits_roll and self._health.failure is None

    def roll(self) -> None:
        """Begin a new segment at the log end; does nothing when the active one is empty."""
        self._writer.roll(self.log_end_offset, self.config)

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(
        self, start_offset: int, max_bytes: int, *, max_offset: int | None = None, min_one_batch: bool = True
    ) -> FetchData:
        """Whole batches from the one that holds `start_offset`, all below `max_offset`; CorruptFileError if damaged."""
        wanted = self._wanted(start_offset, max_bytes, max_offset, min_one_batch)
        found = self.reader.read(wanted) if start_offset < wanted.end_offset else Records(b"", start_offset)
        return FetchData(found.records, found.next_offset, self.log_start_offset, self.log_end_offset)

    def read_nowait(
        self, start_offset: int, max_bytes: int, max_offset: int, *, min_one_batch: bool = True
    ) -> Records | ColdRead:
        """The same at once; or what a thread has to do first, because the disk must be asked."""
        wanted = self._wanted(start_offset, max_bytes, max_offset, min_one_batch)
        return self.reader.read_nowait(wanted) if start_offset < wanted.end_offset else Records(b"", start_offset)

    def finish_read(self, cold: ColdRead, start_offset: int, max_offset: int) -> Records | None:
        """The records that a thread has read; None when they are not from this offset, or the log has changed there."""
        return self.reader.finish(cold, self._wanted(start_offset, 0, max_offset, True))

    def _wanted(self, start_offset: int, max_bytes: int, max_offset: int | None, min_one_batch: bool) -> Wanted:
        self._health.must_be_open()
        end = self.log_end_offset if max_offset is None else min(max_offset, self.log_end_offset)
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise self._out_of_range(start_offset)
        return Wanted(start_offset, end, max_bytes, min_one_batch)

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampAndOffset | None:
        """The first record at or after the time; None when there is none. Waits for the disk."""
        return self.reader.look_up(TimeLookUp(self.log_start_offset, timestamp_ms))

    def max_timestamp(self, below: int | None = None) -> TimestampAndOffset | None:
        """The first record with the largest timestamp, of all or of those below an offset. Waits for the disk."""
        return self.reader.look_up(TimeLookUp(self.log_start_offset, None, below))

    # -- flushing ------------------------------------------------------------------------------------------------------

    def prepare_flush(self) -> PendingFlush | None:
        """A flush of every record up to the log end; None when all are durable, or the log is out of use."""
        return None if self.closed or self._health.failure is not None else self._flushing.prepare(self.log_end_offset)

    def complete_flush(self, pending: PendingFlush) -> int:
        """`pending.run` has returned: the flushed offset advances, unless the log was truncated meanwhile."""
        self._flushing.complete(pending)
        self._flush_schedule.flushed()
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

    @property
    def has_unflushed_segment(self) -> bool:
        """A full one: it is flushed soon with flush.policy=os as well, or it could not be cleaned."""
        return self._flushing.recovery_point < self._segments.active.base_offset

    def flush_is_due(self, now_ms: int) -> bool:
        """True if a roll, flush.messages or flush.ms asks for a flush; called regularly, with monotonic time."""
        unflushed = self.log_end_offset - self.recovery_point
        return self.has_unflushed_segment or self._flush_schedule.is_due(unflushed, self.config, now_ms)

    # -- cutting -------------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Cut every batch that holds `offset` or comes after it; durable when it returns."""
        self._health.must_be_writable()
        if offset >= self.log_end_offset:
            self._epochs.truncate_from_end(offset)
        elif offset < self.log_start_offset:
            self._cut.to_nothing(offset, self.config.index_interval_bytes)
        else:
            self._cut.to(offset)
        if self._flushing.cut_is_unflushed:
            self._flush_now()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop every record; the next record has `offset`. Durable when it returns."""
        self._health.must_be_writable()
        self._cut.to_nothing(offset, self.config.index_interval_bytes)
        self._flush_now()

    def advance_log_start(self, offset: int) -> None:
        """Delete the records below `offset`: they cannot be read any more, and retention removes their segments."""
        self._health.must_be_writable()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise self._out_of_range(offset)
        self._span.start = offset
        self._epochs.truncate_from_start(offset)

    def _out_of_range(self, offset: int) -> OffsetOutOfRangeError:
        why = f"{self.topic_partition}: offset {offset} is not in {self.log_start_offset}..{self.log_end_offset}"
        return OffsetOutOfRangeError(why, log_start_offset=self.log_start_offset, log_end_offset=self.log_end_offset)

    # -- full segments removed and replaced: at once in memory, in the directory by `run_file_changes` -----------------

    def remove_oldest(self, count: int) -> None:
        """The `count` oldest full segments leave the log, if they are flushed; the log start is raised to fit."""
        self._health.must_be_writable()
        flushed = sum(1 for segment in self.segments[:count] if segment.next_offset <= self.flushed_offset)
        removed = self._segments.oldest_full(flushed)  # a crash brings an unflushed one back, and it may be torn
        if removed:
            self.producers.leaving(removed[-1].next_offset, self.flushed_offset, self._changes)
        self._changes.remove(removed)  # BEFORE the list changes: another thread may read both
        self._segments.take(removed)
        self._counters.removed_segments += len(removed)
        self._flushing.segments_left()
        self.producers.left(self.flushed_offset, self._changes)
        if self.log_start_offset < self._segments.oldest.base_offset:
            self.advance_log_start(self._segments.oldest.base_offset)

    def cleanable_segments(self, below: int) -> tuple[Segment, ...]:
        """The full, flushed segments that end at or below the offset; oldest first."""
        bound = min(below, self.recovery_point)
        return tuple(s for s in self._segments if s.next_offset <= bound and s is not self._segments.active)

    def replace_segments(self, cleaned: CleanedSegment, replaced: tuple[Segment, ...]) -> None:
        """From now on readers see `cleaned` in place of `replaced`; CleaningAbortedError if those have changed."""
        self._health.must_be_writable()
        with self._health.refusing("open a cleaned segment"):
            new = self._segments.replace(cleaned, replaced, self.config.index_interval_bytes)
        self.producers.cleaning(cleaned, self._changes)
        self._counters.replaced_segments += len(replaced)
        self._flushing.segments_left()
        self._changes.replace(new, replaced)
        self.producers.left(self.flushed_offset, self._changes)

    @property
    def has_file_changes(self) -> bool:
        return len(self._changes) > 0

    def run_file_changes(self, *, sync: bool = False) -> None:
        """Carry out queued removals and replacements; with `sync`, sync the directory. Blocks, in any thread. OSError
        when the disk failed; after a shortage (`is_shortage`) it may be called again."""
        self._changes.run(sync=sync)

    def delete_expired_files(self, now_ms: int) -> int:
        """Unlink files that were removed `file.delete.delay.ms` ago; returns how many. Blocks, in any thread."""
        return self._changes.delete_expired(now_ms, self.config.file_delete_delay_ms)

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
            **self._counters.as_fields(),
        )

    def __repr__(self) -> str:
        offsets = f"{self.log_start_offset}..{self.log_end_offset}, flushed {self.flushed_offset}"
        return f"Log({self.directory}, {offsets}, epoch {self.latest_epoch})"
