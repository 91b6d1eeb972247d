"""Writes batches at the end of a log, in the active segment or in new ones: all of an append, or nothing.

If an append fails after its first byte, with any exception, the log is taken back to its old end: the file is cut, new
segments are removed, and the indexes, the epoch cache and the producers forget the append. That needs no room and no
descriptor, so a shortage in the middle of an append refuses the append and nothing else. A disk that cannot even cut a
file fails the log. After a power cut, unflushed bytes of a refused append may be in the file, as those of any append
may. If no whole batch of it was ever in a file, no recovery can find one. The error of a shortage then says that
nothing was written, and a producer may send the records again without making duplicates.

A roll makes a name, and a disk that hangs holds it up, with its thread. Where that must not be, the full segment goes
on, and the log says that it awaits a roll; the caller rolls once the disk has completed a flush (`group_commit.py`). A
segment that cannot take the batches at all refuses them until then. That is seldom: it counts as full long before.

`batch_validation.py` decides what may be appended, `placing.py` where, `segment_roll.py` when a segment is full.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from penstock.errors import ApiError, KafkaStorageError
from penstock.record.batch import BatchHeader
from storage.append.placing import Placed
from storage.disk.disk_errors import RollAwaitedError, is_shortage, storage_error
from storage.log.log_parts import LogParts
from storage.log.log_probe import UNHEARD_LOG, LogProbe
from storage.log.segment_roll import must_roll, roll_is_due
from storage.log_config import LogConfig
from storage.segment.places import Place
from storage.segment.segment import Segment


class LogWriter:
    """Appends to one log: to its segments, indexes and epoch cache."""

    __slots__ = (
        "_counters",
        "_epochs",
        "_flushing",
        "_health",
        "_probe",
        "_producers",
        "_rolls_when_flushed",
        "_segments",
        "awaits_roll",
    )

    def __init__(self, parts: LogParts, *, rolls_when_flushed: bool = False, probe: LogProbe = UNHEARD_LOG) -> None:
        self._segments, self._epochs, self._flushing = parts.segments, parts.epochs, parts.flushing
        self._health, self._counters, self._producers = parts.health, parts.counters, parts.producers
        self._rolls_when_flushed, self._probe = rolls_when_flushed, probe
        self.awaits_roll = False
        """The active segment is full, and goes on until `roll`."""

    def append(self, runs: Iterable[Placed], log_end_offset: int, config: LogConfig, old_below: int = 0) -> int:
        """Write all runs from the log end on, each in one segment; returns the new log end. `old_below`: of batches
        below it nobody knows here when they were written first."""
        active, entries = self._segments.active, self._epochs.entries
        first_bytes, has_batch = 0, False
        self._probe.appending(self._health.path)
        if self._producers.is_changed:
            self._producers.begin_append()
        try:
            end = active.mark()
            try:
                for placed in runs:
                    first_bytes = first_bytes or placed.headers[0].size_bytes
                    held_before = end.position if self._segments.active is active else 0
                    log_end_offset = self._write(placed, log_end_offset, config, old_below, held_before)
            except BaseException as error:
                has_batch = self._may_have_batch(active, end, first_bytes)  # BEFORE it is taken back
                self._epochs.restore(entries)
                if active.size_bytes > end.position or not isinstance(error, RollAwaitedError):
                    self._take_back(active, end)
                self._producers.take_back(end.offset)
                raise
            finally:
                active.unpin()
        except OSError as error:
            refusal = storage_error("append", active.log_path, error, is_tried_again=True)
            refusal.nothing_written = is_shortage(error) and not has_batch
            self._probe.append_refused(self._health.path, refusal)
            raise refusal from error
        except ApiError as refusal:
            self._probe.append_refused(self._health.path, refusal)
            raise
        return log_end_offset

    def _write(self, placed: Placed, log_end_offset: int, config: LogConfig, old_below: int, held_before: int) -> int:
        """`held_before`: bytes that the active segment held before this append. If it held none, a roll before the next
        try would change nothing: batches of one fetch may be more than 31 bits of offsets apart."""
        active, last = self._segments.active, placed.headers[-1]
        if self.awaits_roll or roll_is_due(active, placed, config, len(self._segments)):
            fits = self._rolls_when_flushed and not must_roll(active, placed)
            if not fits and not (self._rolls_when_flushed and held_before):
                self.roll(log_end_offset, config)
                active = self._segments.active
            else:
                self.awaits_roll = True
                if not fits:
                    raise RollAwaitedError(active.log_path)
        active.append(placed.buffers, placed.size_bytes, placed.headers)
        if last.producer_id >= 0 or len(placed.headers) > 1:
            self._producers.take(placed, old_below)
        if last.leader_epoch > self._epochs.latest_epoch:  # they never fall
            self._note_epochs(placed.headers)
        return last.next_offset

    def _note_epochs(self, headers: Sequence[BatchHeader]) -> None:
        for header in headers:
            if header.leader_epoch > self._epochs.latest_epoch:
                self._epochs.assign(header.leader_epoch, header.base_offset)

    def _may_have_batch(self, active: Segment, end: Place, first_bytes: int) -> bool:
        """True if the files may hold a whole batch of the append that failed."""
        try:
            held_bytes = active.bytes_behind(end.position)
            for segment in takewhile(lambda one: one is not active, self._segments.newest_first()):
                held_bytes += segment.bytes_behind(0)
        except OSError:
            return True
        return held_bytes >= first_bytes

    def _take_back(self, active: Segment, end: Place) -> None:
        with self._health.failing("take back an append"):
            if self._segments.back_to(active, end):
                self._flushing.append_taken_back()

    def roll(self, log_end_offset: int, config: LogConfig) -> None:
        """Begin a new segment at the log end; does nothing when the active one is empty.

        At most one creation is ever unsynced, so no crash can lose a segment between two others.
        """
        full = self._segments.active
        if not full.size_bytes:
            self.awaits_roll = False
            return
        with self._health.refusing("flush"):
            self._flushing.sync_directories()
        self._segments.start_new(log_end_offset, config.index_interval_bytes)
        self.awaits_roll = False
        self._flushing.rolled(full)
        self._producers.note_snapshot(log_end_offset)
        self._counters.rolls += 1
        self._probe.rolled(self._health.path)

    def try_roll(self, log_end_offset: int, config: LogConfig) -> BaseException | None:
        """Rolls, and returns the error of a disk that refused. A shortage puts the roll off until the next flush."""
        try:
            self.roll(log_end_offset, config)
        except (KafkaStorageError, OSError) as error:
            if not is_shortage(error):
                return error if isinstance(error, OSError) else error.__cause__ or error
        return None

    def __repr__(self) -> str:
        return f"LogWriter({self._segments!r})"
