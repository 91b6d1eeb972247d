"""The idempotent producers of one log, from its opening to its end: asked by appends, told of every write, cut and
removal.

    leader's append    `answer_append` before the write: a duplicate is answered, what does not fit is refused
    any append         `take` after each write; a failed append is taken back. When a follower far behind gets a batch
                       tells nothing of when its producer wrote it (`producer_state.py`)
    roll, stop         a snapshot is noted, and the next flush writes it (`producer_snapshots.py`)
    truncation         if a producer has a batch at or above the cut, all is loaded anew from what is left: by a thread
                       BEFORE the cut (`producer_cut.py`), else by the next append
    retention          takes nothing from here: a producer is known, though its batches are deleted
    expiry             `forget_silent`, by a regular job
    move               the copy in another log dir takes over what the log in use knows

A log without bounds (`ids` is None: the quorum's own) takes no batches of producers and keeps no files. Used from one
thread. The rules are in `producer_rules.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial

from penstock import epochs
from penstock.errors import (
    ApiError,
    CorruptFileError,
    KafkaStorageError,
)
from penstock.record.batch import TRANSACTIONAL_BIT, BatchHeader
from penstock.types import NO_TIMESTAMP
from storage.append.append_info import AppendInfo
from storage.append.append_origin import COORDINATOR, AppendOrigin
from storage.append.counted_producers import CountedProducers
from storage.append.placing import Placed
from storage.append.producer_answers import answer, answer_again
from storage.append.producer_ids import ProducerIds
from storage.append.producer_rules import must_fit_coordinators, must_fit_unnumbered
from storage.append.producer_state import KnownProducers, ProducerEntry
from storage.disk.file_system import Bytes, FileSystem
from storage.log.file_changes import FileChanges
from storage.log.log_health import LogHealth
from storage.log.log_types import CleanedSegment
from storage.log.producers.producer_cut import PreparedCut
from storage.log.producers.producer_snapshots import ProducerSnapshots
from storage.log.segment_list import SegmentList
from storage.recovery.producer_recovery import LoadedProducers, load_producers, replay_of, take_unnumbered
from storage.recovery.producer_snapshot import ProducerSnapshot
from storage.recovery.transaction_files import TransactionFiles
from storage.segment.epoch_cache import EpochCache


class ProducerLog:
    """The idempotent producers of one log."""

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
        "_times_ms",
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
        self._counted = CountedProducers(ids, loaded.known, self._some_forgotten)
        self.is_changed = True
        """True if something has changed since the last `begin_append`."""
        self._prepared: PreparedCut | None = None
        self._times_ms: dict[int, tuple[int, int]] = {}
        """The times at which producers wrote that were known before, while it is stale."""
        self.is_stale = False
        """A truncation took batches of producers: `reload` before the next use."""
        self._files = TransactionFiles(health.path, loaded.aborted, loaded.indexes)
        self.snapshots = ProducerSnapshots(
            fs=fs,
            directory=health.path,
            names=epoch_cache.names,
            offsets=loaded.snapshots,
            left_out=self._left_out,
            files=self._files,
        )
        newest = loaded.snapshots[-1] if loaded.snapshots else -1
        self._is_saved = newest == segments.active.next_offset
        """True if the newest snapshot has all that is known."""
        self._counted.settle(self._known)
        if (len(segments) > 1 or self._known) and newest < segments.active.base_offset:
            self.note_snapshot(segments.active.next_offset)  # the next start need not read so much

    def __len__(self) -> int:
        return len(self._known)

    @property
    def known(self) -> KnownProducers:
        """The producers that the log knows, for reading only."""
        return self._known

    def known_now(self) -> KnownProducers:
        """The producers that the log knows, after `reload`; KafkaStorageError if the disk does not tell."""
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
        return answer_again(records, self._known, self._ids)

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
        return answer(batches[0][1], self._known, self._ids) if batches[0][1].is_numbered else None

    def must_take_unnumbered(self, producer_id: int, epoch: int) -> None:
        """Raises what an append of a coordinator's transactional batch of this producer would raise."""
        must_fit_unnumbered(producer_id, epoch, self.known_now().get(producer_id))

    def answer_refused(self, records: Bytes, refusal: ApiError) -> AppendInfo:
        """The answer to records that an append refuses, if they are a duplicate; else it raises the refusal."""
        again = answer_again(records, self._known, self._ids)
        if again is None:
            raise refusal
        return again

    # -- what is written -----------------------------------------------------------------------------------------------

    def begin_append(self) -> None:
        """Makes `take_back` return to what is known now. Needed only if `is_changed`."""
        self._known.begin_append()
        self.is_changed = False

    def take(self, placed: Placed, old_below: int = 0) -> None:
        """Takes over batches that were written. Batches below `old_below` were not sent just now, but read from a
        log."""
        ids, known = self._ids, self._known
        if ids is None:
            return
        for header in placed.headers:
            if header.is_numbered:
                self.is_changed, self._is_saved = True, False
                take = known.take_read if header.base_offset < old_below else known.take
                if take(header, ids.clock.wall_ms(), silent_from_ms=ids.clock.now_ms()):
                    self._counted.keep_bounds(ids)
            elif header.attributes & TRANSACTIONAL_BIT and header.producer_id >= 0:
                self.is_changed, self._is_saved = True, False
                now_ms = ids.clock.wall_ms()
                likely_ms = known.likely_ms(header, now_ms) if header.base_offset < old_below else NO_TIMESTAMP
                batch = partial(placed.batch_of, header)
                if take_unnumbered(known, self.aborted, header, batch, (now_ms, likely_ms, ids.clock.now_ms())):
                    self._counted.keep_bounds(ids)

    def take_over(self, producers: Mapping[int, ProducerEntry]) -> None:
        """Takes over the producers that another log knows, of which this one is a copy in another log dir. They include
        the times of their batches, and producers whose batches are deleted."""
        if self._ids is not None:
            known = KnownProducers(producers, self._known.undecided.saved_ended())
            self._known, self.is_stale, self.is_changed, self._is_saved = known, False, True, False
            self._times_ms = {}
            self._counted.settle(self._known)

    def take_back(self, log_end_offset: int) -> None:
        """The append failed."""
        self._known.take_back()
        if self.aborted.cut(log_end_offset):
            self._files.changed()
        self.snapshots.forget_above(log_end_offset)
        self._counted.recount()

    def note_snapshot(self, offset: int, *, must_be_written: bool = False) -> None:
        """Notes a snapshot of all that is known, at the log end."""
        if self._ids is not None and not self.is_stale:
            leader_epoch = epochs.epoch_for_offset(self._epochs.entries, offset - 1)
            ended = self._known.undecided.saved_ended()
            watched_at_ms = self._ids.clock.now_ms() if self._ids.nears_bound(len(self._known)) else None
            snapshot = ProducerSnapshot(offset, leader_epoch, self._known.copy(), ended, watched_at_ms=watched_at_ms)
            self.snapshots.note(snapshot, self._segments, must_be_written=must_be_written)

    def closing(self, flushed_offset: int, changes: FileChanges) -> None:
        """A clean stop: the flush that follows must write a snapshot, unless there is nothing to tell."""
        tells_silence = self._ids is not None and self._known and self._ids.nears_bound(len(self._known))
        is_saved = self._is_saved and not tells_silence  # the silence is longer now than in what was written
        if (self._known or self.snapshots.offsets or self.aborted) and not is_saved:
            self.note_snapshot(self._segments.active.next_offset, must_be_written=not self._is_saved)
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
            self._found(KnownProducers() if left is None else left, is_stale=left is None and self._ids is not None)
            self._is_saved = False

    def _found(self, known: KnownProducers, *, is_stale: bool) -> None:
        """Takes what the log says after a cut, or does not say yet. Nobody was silent longer than was known before."""
        times_ms = {**self._times_ms, **self._known.times()}
        known.count_no_sooner(times_ms)
        if self._ids is not None:  # also of those that wrote what was cut
            known.were_silent({}, self._ids.clock.now_ms())
        self._times_ms = times_ms if is_stale else {}
        self._known, self.is_stale, self.is_changed = known, is_stale, True
        self._counted.settle(known)

    def reload(self) -> None:
        """Loads anew what the log tells, if it is stale. Waits for the disk."""
        replay = replay_of(self._ids) if self.is_stale else None
        if replay is not None:
            offsets, segments, entries = self.snapshots.offsets, tuple(self._segments), self._epochs.entries
            with self._health.refusing("read the producers"):
                loaded = load_producers(
                    self._fs, self._health.path, offsets, segments, entries, replay, with_aborted=False
                )
            if loaded.snapshots != offsets:
                self.snapshots.removed(set(offsets).difference(loaded.snapshots))
            self._found(loaded.known, is_stale=False)

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

    def files_removed(self) -> None:
        """Files were unlinked: a snapshot that found no room is written now, durably. Blocks, in any thread."""
        self.snapshots.write_owed()

    def cleaning(self, cleaned: CleanedSegment, changes: FileChanges) -> None:
        """A cleaned segment is about to replace others."""
        if self._ids is not None:
            changes.then(partial(self.snapshots.remove_open, cleaned.next_offset))
        if self.aborted.count(cleaned.base_offset, cleaned.next_offset):
            self.aborted.replace(cleaned.base_offset, cleaned.next_offset, cleaned.aborted)
            self._files.changed()

    # -- silence, and the end ------------------------------------------------------------------------------------------

    def forget_silent(self) -> None:
        """Forgets expired producers, and silent ones above the bound of the node; see `CountedProducers`."""
        self._counted.forget_silent()

    def _some_forgotten(self) -> None:
        self.is_changed, self._is_saved = True, False

    def close(self) -> None:
        self._counted.close()

    def _left_out(self) -> None:
        if self._ids is not None:
            self._ids.counts.snapshots_left_out += 1

    def __repr__(self) -> str:
        return f"ProducerLog({self._health.path}, {self._known!r}, {self.snapshots!r})"
