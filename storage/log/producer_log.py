"""The idempotent producers of one log, from its opening to its end: asked by appends, told of every write, cut and
removal.

    leader's append    `answer` before the write: a duplicate is answered, what does not fit is refused
    any append         `take` after each write; a failed append is taken back. When a follower far behind gets a batch
                       tells nothing of when its producer wrote it (`producer_state.py`)
    roll, stop         a snapshot is noted, and the next flush writes it (`producer_snapshots.py`)
    truncation         if a producer has a batch at or above the cut, all is loaded anew from what is left: by a thread
                       BEFORE the cut (`producer_cut.py`), else by the next append
    retention          takes nothing from here: a producer is known, though its batches are deleted
    expiry             `expire`, by a regular job
    move               the copy in another log dir takes over what the log in use knows

A log without bounds (`ids` is None: the quorum's own) takes no batches of producers and keeps no files. Used from one
thread. The rules are in `producer_state.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial

from penstock import epochs
from penstock.errors import (
    ApiError,
    CorruptFileError,
    CorruptMessageError,
    InvalidProducerEpochError,
    InvalidRecordError,
    KafkaStorageError,
    OutOfOrderSequenceError,
    UnknownProducerIdError,
)
from penstock.record.batch import TRANSACTIONAL_BIT, BatchHeader, read_header, verify_crc
from penstock.types import NO_TIMESTAMP
from storage.append.append_origin import COORDINATOR, AppendOrigin
from storage.append.placing import Placed
from storage.append.producer_rules import must_fit, must_fit_coordinators, must_fit_unnumbered
from storage.append.producer_state import KnownProducers, ProducerEntry
from storage.disk.file_system import Bytes, FileSystem
from storage.log.file_changes import FileChanges
from storage.log.log_health import LogHealth
from storage.log.log_types import AppendInfo, CleanedSegment
from storage.log.producer_cut import PreparedCut
from storage.log.producer_ids import ProducerIds
from storage.log.producer_snapshots import ProducerSnapshots
from storage.log.segment_list import SegmentList
from storage.recovery.producer_recovery import LoadedProducers, ProducerReplay, load_producers, take_unnumbered
from storage.recovery.producer_snapshot import ProducerSnapshot
from storage.recovery.transaction_files import TransactionFiles
from storage.segment.epoch_cache import EpochCache


class ProducerLog:
    """See the module."""

    __slots__ = (
        "_counted",
        "_epochs",
        "_files",
        "_fs",
        "_health",
        "_ids",
        "_is_saved",
        "_known",
        "_prepared",
        "_segments",
        "aborted",
        "is_changed",
        "is_stale",
        "snapshots",
    )

    def __init__(
        self,
        fs: FileSystem,
        health: LogHealth,
        ids: ProducerIds | None,
        segments: SegmentList,
        epoch_cache: EpochCache,
        loaded: LoadedProducers,
    ) -> None:
        self._fs, self._health, self._ids = fs, health, ids
        self._segments, self._epochs = segments, epoch_cache
        self._known, self.aborted = loaded.known, loaded.aborted
        self._counted = 0
        self.is_changed = True
        """Since the last `begin_append`."""
        self._prepared: PreparedCut | None = None
        self.is_stale = False
        """A truncation took batches of producers: `reload` before the next use."""
        self._files = TransactionFiles(health.path, loaded.aborted, loaded.indexes)
        self.snapshots = ProducerSnapshots(
            fs, health.path, epoch_cache.names, loaded.snapshots, self._left_out, self._files
        )
        newest = loaded.snapshots[-1] if loaded.snapshots else -1
        self._is_saved = newest == segments.active.next_offset
        """True if the newest snapshot has all that is known."""
        self._settle()
        if (len(segments) > 1 or self._known) and newest < segments.active.base_offset:
            self.note_snapshot(segments.active.next_offset)  # the next start need not read so much

    def __len__(self) -> int:
        return len(self._known)

    @property
    def known(self) -> KnownProducers:
        """To be looked at."""
        return self._known

    def known_now(self) -> KnownProducers:
        """The same, after `reload`; KafkaStorageError if the disk does not tell."""
        try:
            self.reload()
        except CorruptFileError as damage:  # the next append meets it, too, and has it repaired
            raise KafkaStorageError(f"{self._health.path}: {damage}") from damage
        return self._known

    # -- a leader's batch ----------------------------------------------------------------------------------------------

    def answer_duplicate(self, records: Bytes) -> AppendInfo | None:
        """The answer to records that were refused before an append, if they are a duplicate; None if they are not."""
        self.must_be_writable()
        self.known_now()
        return self._answer_again(records)

    def must_be_writable(self) -> None:
        """KafkaStorageError if the log is closed or has failed."""
        self._health.must_be_writable()

    def answer_append(
        self, records: Bytes, batches: Sequence[tuple[int, BatchHeader]], origin: AppendOrigin
    ) -> AppendInfo | None:
        """The answer to checked batches if they are a duplicate; None if they are to be written. Raises if they do not
        fit."""
        if origin is COORDINATOR:
            must_fit_coordinators(records, batches, self._known)
        return self.answer(batches[0][1]) if batches[0][1].is_numbered else None

    def must_take_unnumbered(self, producer_id: int, epoch: int) -> None:
        """Raises what an append of a coordinator's transactional batch of this producer would raise."""
        must_fit_unnumbered(producer_id, epoch, self.known_now().get(producer_id))

    def answer_refused(self, records: Bytes, refusal: ApiError) -> AppendInfo:
        """The answer to records that an append refuses, if they are a duplicate; else it raises the refusal."""
        again = self._answer_again(records)
        if again is None:
            raise refusal
        return again

    def answer(self, header: BatchHeader) -> AppendInfo | None:
        """The answer to a producer's checked batch if it is a duplicate; None if it is to be written. Raises if it does
        not fit."""
        ids = self._ids
        if ids is None:
            raise InvalidRecordError("this log takes no batches of idempotent producers")
        known = self._known.get(header.producer_id)
        if known is not None and known.goes_on_with(header):
            return None
        if known is not None and (first := known.has(header)) is not None:
            ids.counts.duplicates += 1
            return AppendInfo(
                first_offset=first.base_offset,
                last_offset=first.last_offset,
                max_timestamp_ms=header.max_timestamp_ms,
                log_append_time_ms=first.append_time_ms,
                record_count=header.record_count,
                size_bytes=header.size_bytes,
                is_duplicate=True,
            )
        try:
            must_fit(header, known)
        except ApiError as refusal:
            _count(ids, refusal)
            raise
        if known is None:
            ids.make_room(len(self._known), self._known.silent_since_ms)
        return None

    def _answer_again(self, records: Bytes) -> AppendInfo | None:
        """The answer to records that the log's present configuration refuses, if they are a duplicate: it was accepted
        once. None if they are not."""
        with contextlib.suppress(CorruptMessageError):
            header = read_header(records)
            known = self._known.get(header.producer_id)
            if known is not None and known.has(header) is not None:
                is_whole = header.size_bytes == len(records) and verify_crc(records, 0, header)
                return self.answer(header) if is_whole else None
        return None

    # -- what is written -----------------------------------------------------------------------------------------------

    def begin_append(self) -> None:
        """From now on `take_back` returns to what is known now. Needed only if `is_changed`."""
        self._known.begin_append()
        self.is_changed = False

    def take(self, placed: Placed, old_below: int = 0) -> None:
        """These batches were written. Those below `old_below` were not sent just now, but read from a log."""
        ids, known = self._ids, self._known
        if ids is None:
            return
        for header in placed.headers:
            if header.is_numbered:
                self.is_changed, self._is_saved = True, False
                take = known.take_read if header.base_offset < old_below else known.take
                if take(header, ids.clock.wall_ms()):
                    self._keep_bounds(ids)
            elif header.attributes & TRANSACTIONAL_BIT and header.producer_id >= 0:
                self.is_changed, self._is_saved = True, False
                now_ms = ids.clock.wall_ms()
                likely_ms = known.likely_ms(header, now_ms) if header.base_offset < old_below else NO_TIMESTAMP
                batch = partial(placed.batch_of, header)
                if take_unnumbered(known, self.aborted, header, batch, (now_ms, likely_ms)):
                    self._keep_bounds(ids)

    def _keep_bounds(self, ids: ProducerIds) -> None:
        known, count = self._known, len(self._known)
        while len(known) > ids.config.max_per_partition and known.forget_oldest():
            pass
        self._recount()
        for _ in range(min(ids.above_bound, len(known))):
            if not ids.is_silent(known.surely_silent_since_ms):
                break
            known.forget_oldest()
        if len(known) < count:
            self._is_saved = False
            ids.counts.evicted += count - len(known)
            self._recount()

    def _settle(self) -> None:
        """All that is known was loaded: whoever is too many makes room, and does not come back."""
        self._recount()
        if self._ids is not None:
            self._keep_bounds(self._ids)
            self._known.begin_append()

    def take_over(self, producers: Mapping[int, ProducerEntry]) -> None:
        """This log has the same batches as another one, in another log dir, which knows these producers: also when they
        wrote, and those whose batches are deleted."""
        if self._ids is not None:
            known = KnownProducers(producers, self._known.undecided.saved_ended())
            self._known, self.is_stale, self.is_changed, self._is_saved = known, False, True, False
            self._settle()

    def take_back(self, log_end_offset: int) -> None:
        """The append failed."""
        self._known.take_back()
        if self.aborted.cut(log_end_offset):
            self._files.changed()
        self.snapshots.forget_above(log_end_offset)
        self._recount()

    def note_snapshot(self, offset: int, *, must_be_written: bool = False) -> None:
        """Notes a snapshot of all that is known, at the log end."""
        if self._ids is not None and not self.is_stale:
            leader_epoch = epochs.epoch_for_offset(self._epochs.entries, offset - 1)
            ended = self._known.undecided.saved_ended()
            snapshot = ProducerSnapshot(offset, leader_epoch, self._known.copy(), ended)
            self.snapshots.note(snapshot, self._segments, must_be_written=must_be_written)

    def closing(self, flushed_offset: int, changes: FileChanges) -> None:
        """A clean stop: the flush that follows must write a snapshot, unless there is nothing to tell."""
        if (self._known or self.snapshots.offsets or self.aborted) and not self._is_saved:
            self.note_snapshot(self._segments.active.next_offset, must_be_written=True)
            self.left(flushed_offset, changes)

    # -- what is cut and removed ---------------------------------------------------------------------------------------

    def prepare_cut(self, offset: int) -> PreparedCut | None:
        """The work that a thread should `run` before the log is cut there; None if a cut needs nothing, or has to do
        without."""
        self._prepared = None
        replay = replay_of(self._ids)
        if replay is not None and (self.is_stale or self._known.newest_offset >= offset):
            with contextlib.suppress(OSError):  # no descriptors
                self._prepared = PreparedCut(
                    self._fs, offset, self._segments, self._epochs.entries, self.snapshots, replay
                )
        return self._prepared

    def cutting(self, offset: int) -> None:
        """The log is about to be cut there. Blocks."""
        if self._ids is not None:
            if any(above > offset for above in self.snapshots.offsets):
                self._is_saved = False  # also where no producer has a batch above the cut
            self.snapshots.cutting(offset)

    def cut(self, log_end_offset: int, *, all_of_it: bool) -> None:
        """The log was cut. Cut batches are forgotten at once. The producers of the rest were found out before, or
        `reload` finds them."""
        prepared, self._prepared = self._prepared, None
        self._files.cut(self._fs, 0 if all_of_it else log_end_offset, self._segments.active.base_offset)
        if all_of_it or self.is_stale or self._known.newest_offset >= log_end_offset:
            left = prepared.known_at(log_end_offset) if prepared is not None and not all_of_it else None
            self._known, self.is_changed = KnownProducers() if left is None else left, True
            self.is_stale, self._is_saved = left is None and self._ids is not None, False
            self._settle()

    def reload(self) -> None:
        """If it is stale, load anew what the log tells. Waits for the disk."""
        replay = replay_of(self._ids) if self.is_stale else None
        if replay is not None:
            offsets, segments, entries = self.snapshots.offsets, tuple(self._segments), self._epochs.entries
            with self._health.refusing("read the producers"):
                loaded = load_producers(
                    self._fs, self._health.path, offsets, segments, entries, replay, with_aborted=False
                )
            if loaded.snapshots != offsets:
                self.snapshots.removed(set(offsets).difference(loaded.snapshots))
            self._known, self.is_stale, self.is_changed = loaded.known, False, True
            self._settle()

    def leaving(self, first_offset: int, flushed_offset: int, changes: FileChanges) -> None:
        """The segments below the offset are about to be removed: a snapshot that a start can use instead of them is
        written BEFORE."""
        if self._ids is not None:
            if not self.snapshots.covers(first_offset, flushed_offset):
                self.reload()
                self.note_snapshot(self._segments.active.next_offset)
            noted = self.snapshots.noted()  # now: while an append is under way there may be one that is taken back
            if noted:
                changes.then(partial(self.snapshots.write, noted))

    def left(self, flushed_offset: int, changes: FileChanges) -> None:
        """Segments were removed or replaced. Snapshots that are not needed any more go AFTER these changes: until then
        a crash brings the old segments back."""
        self._files.forget_below(self._segments.oldest.base_offset)
        if self.aborted and not self._files.is_known:
            self.note_snapshot(self._segments.active.next_offset)  # else the next start reads the log for them
        if self._ids is not None and self.snapshots.offsets:
            bases = frozenset(segment.base_offset for segment in self._segments)
            first_offset = self._segments.oldest.base_offset
            changes.then(partial(self.snapshots.remove_unneeded, bases, first_offset, flushed_offset))

    def cleaning(self, cleaned: CleanedSegment, changes: FileChanges) -> None:
        """A cleaned segment is about to replace others."""
        if self._ids is not None:
            changes.then(partial(self.snapshots.remove_open, cleaned.next_offset))
        if self.aborted.count(cleaned.base_offset, cleaned.next_offset):
            self.aborted.replace(cleaned.base_offset, cleaned.next_offset, cleaned.aborted)
            self._files.changed()

    # -- silence, and the end ------------------------------------------------------------------------------------------

    @property
    def silent_since_ms(self) -> int | None:
        return self._known.silent_since_ms

    def forget_oldest(self) -> None:
        """The producer that was silent longest: for good, as `forget` frees the memory of a log that is idle, too."""
        producer_id = self._known.longest_silent
        if producer_id is not None:
            self._known.forget((producer_id,))
        self.is_changed, self._is_saved = True, False
        self._recount()

    def expire(self, now_ms: int) -> None:
        """Forget the producers that were silent for `producer.id.expiration.ms`; `now_ms` is wall time, believed."""
        ids = self._ids
        if ids is not None and self._known:
            silent = self._known.silent_before(now_ms - ids.config.expiration_ms)
            self._known.forget(silent)
            self._known.count_as_appended(now_ms)
            self._is_saved = self._is_saved and not silent
            ids.counts.expired += len(silent)
            self._recount()

    def close(self) -> None:
        if self._ids is not None:
            self._ids.remove(self, self._counted)
            self._counted = 0

    def _recount(self) -> None:
        """Tell the node how many there are now."""
        count = len(self._known)
        if count != self._counted and self._ids is not None:
            self._ids.add(self, count - self._counted)
            self._counted = count

    def _left_out(self) -> None:
        if self._ids is not None:
            self._ids.counts.snapshots_left_out += 1

    def __repr__(self) -> str:
        return f"ProducerLog({self._health.path}, {self._known!r}, {self.snapshots!r})"


def replay_of(ids: ProducerIds | None) -> ProducerReplay | None:
    """How the batches of a log are replayed now; None if it keeps no producers."""
    return ProducerReplay(ids.clock.wall_ms(), ids.config.max_per_partition) if ids is not None else None


def _count(ids: ProducerIds, refusal: ApiError) -> None:
    counts = ids.counts
    counts.out_of_order += isinstance(refusal, OutOfOrderSequenceError)
    counts.fenced += isinstance(refusal, InvalidProducerEpochError)
    counts.unknown += isinstance(refusal, UnknownProducerIdError)
