"""Opens the files of one log: what is left behind is tidied, what a crash tore is cut, what has rotted is refused.

The *recovery point* R is an offset below which everything was flushed, as the last checkpoint of the log dir knew it
(the truth may be further on). After a clean stop it is the log end, and only the end of the newest segment is looked
at. Otherwise every batch is checked, from the segment on that holds the record before R: checksum, length, and that
offsets follow on: densely, unless records were taken out of the middle of this log (`offset_gaps.py`); and a segment
begins where the one before ends, in every log.
At the first bad byte, which stands where offset X should:

  X < R              ROT. It was on the disk once, so no crash explains it. CorruptFileError; nothing is touched. The
                     replica goes offline; moved away, it is fetched anew (FAST'18: never truncate what was acked).
  X >= R             A TORN TAIL, as far as anybody can tell: R is the last checkpoint; rot in what was flushed since
                     looks the same; other replicas have it. The log is cut at X, and segments behind X go too,
                     newest first. Rolling does not wait for a flush, so the tear may be in an older segment, and all
                     that follows it was unflushed as well: one flush covers all segments up to its end.
  R not known        The checkpoint is missing or damaged. A log that has no line in a *good* checkpoint is younger than
                     it, and R is its start. Without a good checkpoint a bad byte in an older segment is far more likely
                     rot than a tear, and cutting would drop whole segments: CorruptFileError. In the newest segment it
                     is taken for a tear.

What survives is synced before it counts: a process that was killed leaves records in the page cache that no disk has.
A log that ends below R is refused as well. Indexes are rebuilt for each segment that is checked. The epoch checkpoint
has no checksum, so each entry is compared with its batch; if one is wrong the epochs are taken from the log.

Not here: where R comes from (`log_directory.py`), what an offline log means (broker).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from penstock import epochs
from penstock.errors import CorruptFileError
from penstock.record.batch import BatchHeader
from penstock.types import EpochEntry
from storage.batch_scan import read_header_at, scan_headers, verify
from storage.checkpoint_file import read_epochs, write_epochs
from storage.epoch_cache import EpochCache
from storage.file_names import LEADER_EPOCH_CHECKPOINT
from storage.file_system import FileSystem
from storage.log_config import LogConfig
from storage.offset_gaps import may_have_gaps
from storage.segment import Place, Segment
from storage.segment_files import find_segments, tidy

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LastKnown:
    """What the log dir knew about a log when it last wrote its checkpoints."""

    clean: bool = False
    recovery_point: int | None = None
    """None: there is no good checkpoint."""
    log_start_offset: int = 0


@dataclass(frozen=True, slots=True)
class RecoveredLog:
    """The state of an opened log. Invariant: all of it is durable."""

    segments: list[Segment]
    epoch_cache: EpochCache
    log_start_offset: int
    log_end_offset: int
    cut_bytes: int
    """How much of a torn tail was cut."""


def open_segments(fs: FileSystem, directory: str, config: LogConfig, last_known: LastKnown) -> RecoveredLog:
    """Everything needed to go on with a log; creates the first segment of an empty one."""
    tidy(fs, directory)
    segments = find_segments(fs, directory, config.index_interval_bytes)
    recovery = _Recovery(fs, directory, config, last_known, segments)
    try:
        recovery.run()
        return recovery.result()
    except BaseException:  # a log that is offline keeps no file open
        for segment in segments:
            segment.close()
        raise


class _Recovery:
    """One opening of one log."""

    def __init__(
        self, fs: FileSystem, directory: str, config: LogConfig, last_known: LastKnown, segments: list[Segment]
    ) -> None:
        self._fs, self._directory, self._config, self._last_known = fs, directory, config, last_known
        self._may_have_gaps = may_have_gaps(fs, directory)
        self._segments = segments
        self._cut_bytes = 0
        self._bound = last_known.recovery_point or 0

    def run(self) -> None:
        for segment in self._segments[:-1]:
            if segment.size_bytes == 0 and segment.next_offset <= self._bound:
                raise CorruptFileError(segment.log_path, 0, "the file is empty, but its records were flushed")
        if not self._segments:
            self._must_end_at_bound(self._directory, 0, 0)
            self._create_first()
        elif not (self._last_known.clean and self._ends_at_recovery_point()):
            self._check_from_recovery_point()

    def _create_first(self) -> None:
        start = self._last_known.log_start_offset
        first = Segment(self._fs, self._directory, start, self._config.index_interval_bytes)
        first.create()
        self._segments.append(first)

    def _ends_at_recovery_point(self) -> bool:
        """After a clean stop: walk the headers behind the newest segment's last index entry."""
        newest = self._segments[-1]
        file = newest.file()
        end = Place(0, newest.base_offset)
        try:
            for position, header in scan_headers(file, newest.indexes.last_position(file)):
                end = Place(position + header.size_bytes, header.next_offset)
        except CorruptFileError as damage:
            _log.warning("%s; checking the log, although it was closed cleanly", damage)
            return False
        if end.offset != self._bound:
            return False
        newest.adopt(newest.size_bytes, end.offset)
        return True

    def _check_from_recovery_point(self) -> None:
        first = max((i for i, s in enumerate(self._segments) if s.base_offset < self._bound), default=0)
        at, expected = first, self._segments[first].base_offset
        while at < len(self._segments):
            segment = self._segments[at]
            place, damage = self._check(segment, expected)
            if damage is not None:
                self._cut(at, place, damage)
                if (
                    place.position == 0 and at > first
                ):  # nothing of it is good, or it does not follow on: the one before is the newest
                    self._drop_newest()
                    break
            self._fs.fdatasync(segment.fd())
            segment.adopt(place.position, place.offset, checked=True)
            expected = place.offset
            at += 1
        self._fs.fsync_dir(self._directory)
        newest = self._segments[-1]
        self._must_end_at_bound(newest.log_path, newest.size_bytes, newest.next_offset)

    def _check(self, segment: Segment, expected: int) -> tuple[Place, CorruptFileError | None]:
        """Where the good part of the segment ends, and why there if it is not the end of the file."""
        segment.indexes.start_empty()
        place = Place(0, expected)
        if segment.base_offset != expected:
            why = f"the segment begins at offset {segment.base_offset}, but the one before ends at {expected}"
            return place, CorruptFileError(segment.log_path, 0, why)
        place = Place(0, segment.base_offset)
        try:
            for position, header in verify(segment.file(), 0):
                if self._breaks_off(header.base_offset, place.offset):
                    why = f"offset {header.base_offset} where {place.offset} should follow"
                    return place, CorruptFileError(segment.log_path, position, why)
                segment.indexes.note(position, header)
                place = Place(position + header.size_bytes, header.next_offset)
        except CorruptFileError as damage:
            return place, damage
        return place, None

    def _breaks_off(self, offset: int, expected: int) -> bool:
        """Offsets are dense, but for what the cleaner took out."""
        return offset < expected or (offset > expected and not self._may_have_gaps)

    def _cut(self, at: int, place: Place, damage: CorruptFileError) -> None:
        """End the log at `place`, which is in segment `at`; refuse when that would drop flushed records."""
        if place.offset < self._bound:
            raise damage
        if self._last_known.recovery_point is None and at < len(self._segments) - 1:
            raise damage
        while len(self._segments) > at + 1:
            self._drop_newest()
        segment = self._segments[at]
        self._cut_bytes += segment.size_bytes - place.position
        segment.size_bytes = place.position
        self._fs.truncate(segment.fd(), place.position)
        _log.warning("%s; the tail was never flushed (recovery point %d) and is cut", damage, self._bound)

    def _drop_newest(self) -> None:
        """Newest first, each gone for good before the next: a crash in between leaves a log without holes."""
        segment = self._segments.pop()
        self._cut_bytes += segment.size_bytes
        segment.delete()
        self._fs.fsync_dir(self._directory)

    def _must_end_at_bound(self, path: str, position: int, log_end_offset: int) -> None:
        bound = self._last_known.recovery_point or 0
        if log_end_offset < bound:
            raise CorruptFileError(
                path, position, f"the log ends at offset {log_end_offset}, but was flushed up to offset {bound}"
            )

    def result(self) -> RecoveredLog:
        first, newest = self._segments[0], self._segments[-1]
        log_end = newest.next_offset
        log_start = min(max(first.base_offset, self._last_known.log_start_offset), log_end)
        on_disk, entries = self._epochs(log_start, log_end)
        if entries != on_disk:  # the log end is about to count as flushed, and below it the file must know every epoch
            write_epochs(self._fs, self._epochs_path, entries)
        for segment in self._segments[:-1]:
            segment.release()
        cache = EpochCache(self._fs, self._directory, entries)
        return RecoveredLog(self._segments, cache, log_start, log_end, self._cut_bytes)

    # Epochs

    @property
    def _epochs_path(self) -> str:
        return f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}"

    def _epochs(self, log_start: int, log_end: int) -> tuple[tuple[EpochEntry, ...], tuple[EpochEntry, ...]]:
        """(what the checkpoint says, what is true)."""
        path = self._epochs_path
        on_disk: tuple[EpochEntry, ...] | None = None
        try:
            on_disk = read_epochs(self._fs, path)
        except CorruptFileError as damage:
            _log.warning("%s; taking the epochs from the log", damage)
        if on_disk is not None:
            entries = epochs.truncate_from_start(epochs.truncate_from_end(on_disk, log_end), log_start)
            entries = self._add_from_log(entries)
            if self._fits(entries, log_start):
                return on_disk, entries
            _log.warning("%s: does not fit the log; taking the epochs from the log", path)
        return on_disk or (), epochs.truncate_from_start(self._from_log((), self._segments), log_start)

    def _add_from_log(self, entries: tuple[EpochEntry, ...]) -> tuple[EpochEntry, ...]:
        """Epochs of records that were recovered, or flushed while the checkpoint was lost."""
        start = entries[-1].start_offset if entries else 0
        newest = [s for s in self._segments if s.next_offset > max(start, self._bound)]
        return self._from_log(entries, newest) if newest and not self._last_known.clean else entries

    def _from_log(self, entries: tuple[EpochEntry, ...], segments: list[Segment]) -> tuple[EpochEntry, ...]:
        """An epoch whose first records were cleaned away begins where the one before ends: a follower that has other
        records in the gap must cut them."""
        for segment in segments:
            expected = segment.base_offset
            for _, header in scan_headers(segment.file(), 0):
                if header.leader_epoch > (entries[-1].epoch if entries else -1):
                    entries = epochs.assign(entries, header.leader_epoch, expected)
                expected = header.next_offset
        return entries

    def _fits(self, entries: tuple[EpochEntry, ...], log_start: int) -> bool:
        """They reach down to the log start, each begins where its records do, the last is that of the last batch."""
        is_empty = not any(segment.size_bytes for segment in self._segments)
        if not is_empty and (not entries or entries[0].start_offset > log_start):
            return False
        if not all(self._begins_with_its_records(entry, log_start) for entry in entries):
            return False
        return self._last_epoch() in (-1, entries[-1].epoch if entries else -1)

    def _begins_with_its_records(self, entry: EpochEntry, log_start: int) -> bool:
        """Where the cleaner took records out, the next one there is must do."""
        start = entry.start_offset
        here = self._header_holding(start)
        if here is not None and here.base_offset <= start:
            begins = here.base_offset == start or start == log_start
            if not begins or here.leader_epoch != entry.epoch:
                return False
        before = self._header_holding(start - 1) if start > log_start else None
        return before is None or before.base_offset >= start or before.leader_epoch < entry.epoch

    def _header_holding(self, offset: int) -> BatchHeader | None:
        """The first batch that ends at or above the offset, in the segment where the offset belongs."""
        segment = next((s for s in reversed(self._segments) if s.base_offset <= offset), self._segments[0])
        place = segment.place_of(offset)
        return read_header_at(segment.file(), place.position) if place.position < segment.size_bytes else None

    def _last_epoch(self) -> int:
        """The epoch of the last batch in the newest segment that has any; -1 in an empty log."""
        epoch = -1
        for segment in reversed(self._segments):
            if segment.size_bytes:
                file = segment.file()
                for _, header in scan_headers(file, segment.indexes.last_position(file)):
                    epoch = header.leader_epoch
                return epoch
        return epoch
