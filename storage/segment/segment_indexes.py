"""The two indexes of one segment: loaded when needed, checked, and rebuilt from the log if lost or damaged.

An index has no checksum, so no entry is believed unchecked. A file that cannot be an index is refused when it is
loaded, and an entry is compared with its batch before it is used. If either fails, both indexes are rebuilt from the
.log. So a damaged index costs time and nothing else. A batch is checked before its timestamp is believed, because a
look-up by time skips batches that seem too old.

What of the files is believed is decided in `index_files.py`. Their bytes are in `offset_index.py` and `time_index.py`,
the .log in `segment.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.errors import CorruptFileError
from penstock.record.batch import BatchHeader
from penstock.types import NO_TIMESTAMP
from storage.disk.file_names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.disk.file_system import FileSystem
from storage.segment import index_files, offset_index, time_index
from storage.segment.batch_scan import (
    SCAN_CHUNK_BYTES,
    LogFile,
    NotCachedError,
    scan_verified,
)
from storage.segment.offset_index import INTERVAL_BATCHES_MAX, INTERVAL_BYTES_MAX, IndexEntry, OffsetIndex
from storage.segment.time_index import TimeIndex

_log = logging.getLogger(__name__)
_OLDER_THAN_ALL = -(2**63)
_NO_OFFSETS, _NO_TIMES = OffsetIndex(), TimeIndex()
"""Shared by all segments whose indexes are not loaded, so that idle ones cost no memory. Never changed."""


class SegmentIndexes:
    """Finds offsets and times in one .log."""

    __slots__ = (
        "_batches_since_entry",
        "_bytes_since_entry",
        "_files_are_stale",
        "_fs",
        "_max_timestamp_ms",
        "_offset_of_max_timestamp",
        "_offsets",
        "_stem",
        "_times",
        "base_offset",
        "dirty",
        "interval_bytes",
        "loaded",
        "rebuilds",
    )

    def __init__(self, fs: FileSystem, stem: str, base_offset: int, interval_bytes: int) -> None:
        self._fs, self._stem = fs, stem
        self.base_offset, self.interval_bytes = base_offset, min(interval_bytes, INTERVAL_BYTES_MAX)
        self.rebuilds = 0
        self.dirty = False
        """True while memory has entries that the files do not have."""
        self.loaded = False
        """True once the indexes are in memory; until then call `load` before `note`."""
        self._files_are_stale = False
        self._clear(_NO_OFFSETS, _NO_TIMES)

    def _clear(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        self._offsets, self._times = offsets, times
        self._bytes_since_entry = self._batches_since_entry = 0
        self._max_timestamp_ms, self._offset_of_max_timestamp = _OLDER_THAN_ALL, -1

    # -- writing -------------------------------------------------------------------------------------------------------

    def index_every(self, interval_bytes: int) -> None:
        """The bytes between two entries, from the next entry on; never more than `INTERVAL_BYTES_MAX`, nor than
        `INTERVAL_BATCHES_MAX` batches."""
        self.interval_bytes = min(interval_bytes, INTERVAL_BYTES_MAX)

    def start_empty(self) -> None:
        """Starts the empty indexes of a segment that was just created."""
        self._clear(OffsetIndex(), TimeIndex())
        self.loaded = self.dirty = True

    def note(self, position: int, header: BatchHeader) -> None:
        """A batch begins at `position`; called once for each batch, in order, when the indexes are loaded."""
        if header.max_timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms, self._offset_of_max_timestamp = header.max_timestamp_ms, header.last_offset
        if self._bytes_since_entry > self.interval_bytes or self._batches_since_entry >= INTERVAL_BATCHES_MAX:
            self._offsets.append(header.last_offset - self.base_offset, position)
            self._times.maybe_append(self._max_timestamp_ms, self._offset_of_max_timestamp - self.base_offset)
            self._bytes_since_entry = self._batches_since_entry = 0
        self._bytes_since_entry += header.size_bytes
        self._batches_since_entry += 1
        self.dirty = True

    def is_full(self, max_bytes: int) -> bool:
        """True when another entry would not fit (segment.index.bytes)."""
        fits_offsets = len(self._offsets) < max_bytes // offset_index.ENTRY_BYTES
        fits_times = len(self._times) + 1 < max_bytes // time_index.ENTRY_BYTES  # and the closing entry
        return not (fits_offsets and fits_times)

    def truncate_to(self, position: int, offset: int, file: LogFile) -> None:
        """The .log now ends at `position`, and its next offset is `offset`; also called after a failed `note`."""
        self.load(file)
        self._offsets.truncate_to_position(position)
        self._times.truncate_to_relative_offset(offset - self.base_offset)
        self._max_timestamp_ms, self._offset_of_max_timestamp = _OLDER_THAN_ALL, -1
        if index_files.fault_of(self._offsets, self._times, file) is not None:
            # files of before an earlier cut: only the last entry of a file is looked at when it is loaded
            self.rebuild(file, "the last entry below a cut does not fit its batch")
            return
        self._replay_tail(file)
        self.dirty = True

    def _replay_tail(self, file: LogFile) -> None:
        """Bring the counters up to date from the last entries and the batches behind them."""
        last, last_time = self._offsets.last(), self._times.last()
        if last_time is not None:
            self._max_timestamp_ms = last_time.timestamp_ms
            self._offset_of_max_timestamp = self.base_offset + last_time.relative_offset
        self._bytes_since_entry = self._batches_since_entry = 0
        next_offset = self.base_offset
        for _, header in scan_verified(file, last.position if last else 0):
            next_offset = header.next_offset
            if header.max_timestamp_ms > self._max_timestamp_ms:
                self._max_timestamp_ms, self._offset_of_max_timestamp = header.max_timestamp_ms, header.last_offset
            self._bytes_since_entry += header.size_bytes
            self._batches_since_entry += 1
        file.must_end(next_offset)

    def contents(self) -> tuple[tuple[str, bytes], ...]:
        """The two files as (path, bytes), closed with the largest timestamp; writing them is the caller's."""
        if self._max_timestamp_ms != _OLDER_THAN_ALL:
            self._times.maybe_append(self._max_timestamp_ms, self._offset_of_max_timestamp - self.base_offset)
        return (
            (self._stem + INDEX_SUFFIX, self._offsets.to_bytes()),
            (self._stem + TIME_INDEX_SUFFIX, self._times.to_bytes()),
        )

    # -- reading -------------------------------------------------------------------------------------------------------

    def position_at_or_before(self, offset: int, file: LogFile) -> int:
        """The position of a batch at or before the one that holds `offset`, near to it."""
        relative = offset - self.base_offset
        return self._position(lambda: self._offsets.floor_offset(relative), file)

    def position_near(self, position: int, file: LogFile) -> int:
        """The last indexed position that is not behind `position`."""
        return self._position(lambda: self._offsets.floor_position(position), file)

    def _position(self, find: Callable[[], IndexEntry | None], file: LogFile) -> int:
        self.load(file)
        entry = find()
        if entry is not None and not index_files.is_true(entry, file):
            self.rebuild(file, f"{entry} does not point to its batch")
            entry = find()
        return entry.position if entry is not None else 0

    def offset_at_or_before_time(self, timestamp_ms: int, file: LogFile) -> int:
        """An offset such that every batch before its batch is older than the time."""
        self.load(file)
        entry = self._times.before(timestamp_ms)
        if entry is not None and not index_files.is_true_time(entry, self._offsets, file):
            self.rebuild(file, f"{entry} does not fit its batch")
            entry = self._times.before(timestamp_ms)
        return self.base_offset + (entry.relative_offset if entry is not None else 0)

    def max_timestamp(self, file: LogFile) -> tuple[int, int]:
        """The largest timestamp in the segment and the last offset of its batch; (-1, -1) when it is empty."""
        self.load(file)
        if self._max_timestamp_ms == _OLDER_THAN_ALL:
            return NO_TIMESTAMP, -1
        return self._max_timestamp_ms, self._offset_of_max_timestamp

    def max_timestamp_below(self, offset: int, file: LogFile) -> tuple[int, int]:
        """The largest timestamp in the batches that end below the offset, and the last offset of its batch. The time
        index has the answer up to an index entry; the batches behind that entry, one interval, are read."""
        position = self.position_at_or_before(offset - 1, file)
        near = self._offsets.floor_offset(offset - 1 - self.base_offset)
        known = self._times.floor_offset(near.relative_offset) if near is not None else None
        if known is not None and not index_files.is_true_time(known, self._offsets, file):
            self.rebuild(file, f"{known} does not fit its batch")
            return self.max_timestamp_below(offset, file)
        best_ms, best = _OLDER_THAN_ALL, -1
        if known is not None:
            best_ms, best = known.timestamp_ms, self.base_offset + known.relative_offset
        for _, header in scan_verified(file, position):
            if header.last_offset >= offset:
                break
            if header.max_timestamp_ms > best_ms:
                best_ms, best = header.max_timestamp_ms, header.last_offset
        return (best_ms, best) if best >= 0 else (NO_TIMESTAMP, -1)

    def last_position(self, file: LogFile) -> int:
        """The position of the last indexed batch; 0 without an entry."""
        return self._position(self._offsets_last, file)

    def _offsets_last(self) -> IndexEntry | None:
        return self._offsets.last()

    def peek_last_position(self, file: LogFile) -> int:
        """The last position as `last_position` gives it. Loads nothing if the last entry on disk is enough: the log may
        stay idle."""
        if self.loaded or self._files_are_stale:
            return self.last_position(file)
        if file.size_bytes <= SCAN_CHUNK_BYTES:
            return 0
        entry = index_files.last_on_disk(self._fs, self._stem)
        if entry is None or not 0 <= entry.position < file.size_bytes or not index_files.is_true(entry, file):
            return self.last_position(file)
        return entry.position

    # -- loading and rebuilding ----------------------------------------------------------------------------------------

    def load(self, file: LogFile) -> None:
        """Make the indexes usable; does nothing when they are. NotCachedError for a reader that may not wait."""
        if self.loaded:
            return
        if file.nowait:
            raise NotCachedError
        try:
            why = self._read_files(file)
        except CorruptFileError:
            self.loaded = False  # or the next call would use a half-loaded index
            raise
        if why is not None:
            self.rebuild(file, why)

    def distrust_files(self) -> None:
        """The files of this name still belong to the segment that is being replaced."""
        self._files_are_stale = True

    def trust_files(self) -> None:
        self._files_are_stale = False

    def _read_files(self, file: LogFile) -> str | None:
        """Load the files; returns why they cannot be the indexes of this .log, or None."""
        self._clear(_NO_OFFSETS, _NO_TIMES)
        if self._files_are_stale:
            return "the files are not written yet"
        found = index_files.read(self._fs, self._stem, file, self.interval_bytes)
        if isinstance(found, str):
            return found
        self._offsets, self._times = found
        self.loaded = True
        if len(self._times):
            self._replay_tail(file)
        return None

    def rebuild(self, file: LogFile, why: str) -> None:
        """Build both indexes from the .log. Every batch is checked, because its entry is not compared again."""
        if file.nowait:
            raise NotCachedError
        _log.warning("%s: rebuilding the indexes from the log: %s", self._stem, why)
        self.rebuilds += 1
        self._clear(OffsetIndex(), TimeIndex())
        self.loaded = False  # until the rebuild is complete, or half an index would be used
        next_offset = self.base_offset
        for position, header in scan_verified(file, 0):
            self.note(position, header)
            next_offset = header.next_offset
        file.must_end(next_offset)
        self.loaded = self.dirty = True

    # -- copies, for a reader in another thread ------------------------------------------------------------------------

    def copy_from(self, other: SegmentIndexes) -> None:
        """Be what the other is now; neither sees what becomes of the other one."""
        self._files_are_stale = other._files_are_stale
        if other.loaded:
            self._take(other)
            self._offsets, self._times = other._offsets.copy(), other._times.copy()

    def take_over(self, copy: SegmentIndexes) -> None:
        """Takes over the entries that a copy has loaded or rebuilt; the copy is not used any more. Nothing was appended
        or cut since."""
        if copy.loaded and (copy.rebuilds or not self.loaded):
            self._take(copy)
            self.rebuilds += copy.rebuilds

    def _take(self, other: SegmentIndexes) -> None:
        self._offsets, self._times = other._offsets, other._times
        self._bytes_since_entry, self._batches_since_entry = other._bytes_since_entry, other._batches_since_entry
        self._max_timestamp_ms, self._offset_of_max_timestamp = other._max_timestamp_ms, other._offset_of_max_timestamp
        self.loaded, self.dirty = True, other.dirty

    def release(self) -> None:
        """Drop from memory what the files have."""
        if self.loaded and not self.dirty:
            self._clear(_NO_OFFSETS, _NO_TIMES)
            self.loaded = False

    def __repr__(self) -> str:
        return f"SegmentIndexes({self._stem}, loaded={self.loaded}, {self._offsets!r}, {self._times!r})"
