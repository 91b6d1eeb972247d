"""One segment of a log: a .log file of record batches from one base offset on, and its indexes.

Appends are one writev; reads are one pread of whole batches, which nobody parses. Finding the two ends of a read is
the work: positions of recent boundaries are remembered (a fetch at the tail asks for the end of some earlier append,
and a high watermark always is one), anything older is found by the index and a short walk over headers.

An append that fails may leave bytes behind; whoever appends cuts them off again (`mark`, `truncate_to`). Bytes that
this process neither wrote nor checked when it recovered the log may have rotted since: `unchecked` tells the reader to
look at them, once.

Not here: when to roll, fsync (`flush.py`), what a damaged batch is (`batch_check.py`, `recovery.py`).
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from typing import NamedTuple

from penstock.record.batch import BatchHeader
from storage.disk.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, file_stem
from storage.disk.file_system import Bytes, FileSystem
from storage.segment.batch_scan import LogFile, NotCachedError, read_header_at, scan_headers
from storage.segment.open_files import OpenFiles
from storage.segment.segment_indexes import SegmentIndexes

KNOWN_PLACES = 1024
"""Boundaries remembered in each of two generations: more than the appends between two high watermarks."""
_NONE_KNOWN: dict[int, int] = {}
"""Of every segment that was not read yet; never changed."""
_CLOSED = -1


class Place(NamedTuple):
    """A boundary between batches: the batch that begins with `offset` begins at `position`."""

    position: int
    offset: int


class Wanted(NamedTuple):
    """What a reader asks of a segment: whole batches from the one that holds `start_offset`, all below `end_offset`."""

    start_offset: int
    end_offset: int
    max_bytes: int
    min_one_batch: bool
    """Whether the first batch may exceed `max_bytes`."""


class Segment:
    """One .log file. Used from one thread; a flush uses its own descriptor, a cold read a copy (`detached`)."""

    __slots__ = (
        "_checked_to",
        "_fd",
        "_first_timestamp_ms",
        "_fs",
        "_known",
        "_known_before",
        "_opened_bytes",
        "_pinned",
        "base_offset",
        "cuts",
        "indexes",
        "log_path",
        "next_offset",
        "open_files",
        "size_bytes",
        "stem",
        "synced_bytes",
        "used",
    )

    def __init__(self, fs: FileSystem, directory: str, base_offset: int, interval_bytes: int) -> None:
        self._fs = fs
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.stem = f"{directory}/{file_stem(base_offset)}"
        self.log_path = self.stem + LOG_SUFFIX
        self.indexes = SegmentIndexes(fs, self.stem, base_offset, interval_bytes)
        self.size_bytes = 0
        self.synced_bytes = -1
        """How much of the file is durable; -1: not even that it is empty."""
        self.cuts = 0
        """A flush that began before a cut did not make that durable."""
        self.open_files: OpenFiles | None = None
        """Who bounds the number of open files; None while it is only this thread's."""
        self.used = False
        self._fd = _CLOSED
        self._pinned = False
        self._checked_to = self._opened_bytes = 0
        self._first_timestamp_ms: int | None = None
        self._known = self._known_before = _NONE_KNOWN

    def create(self) -> None:
        """Make the file; its name is durable only after an fsync of the directory."""
        fd = self._fs.open(self.log_path, create=True)
        try:
            self._opened(fd)
            self.indexes.start_empty()
        except BaseException:  # nobody would know of the file, and it would be in the way of the next one
            with contextlib.suppress(OSError):
                self.delete()
            raise

    def _opened(self, fd: int) -> int:
        self._fd = fd
        if self.open_files is not None:
            self.open_files.opened(self)
        return fd

    def adopt(self, size_bytes: int, next_offset: int, *, checked: bool = False) -> None:
        """The file exists, holds this much, all of it durable, and `next_offset` comes after it."""
        self.size_bytes = self.synced_bytes = size_bytes
        self.next_offset = next_offset
        self._opened_bytes, self._checked_to = size_bytes, size_bytes if checked else 0

    def adopt_cleaned(self, path: str, size_bytes: int, next_offset: int) -> None:
        """The records stand in a file that has another name until `settled`: its descriptor is kept open."""
        self._pinned = True
        self._opened(self._fs.open(path))
        self.adopt(size_bytes, next_offset, checked=True)
        self.indexes.distrust_files()

    def settled(self) -> None:
        """The file has its own name now, and so have its indexes."""
        self.indexes.trust_files()
        self._pinned = False

    def fd(self) -> int:
        if self._fd == _CLOSED:
            return self._opened(self._fs.open(self.log_path))
        self.used = True
        return self._fd

    def file(self, *, nowait: bool = False) -> LogFile:
        """To read from; `nowait`: nothing that the disk would have to be asked for, not even for the file's name."""
        if nowait and self._fd == _CLOSED:
            raise NotCachedError
        return LogFile(self._fs, self.fd(), self.log_path, self.size_bytes, self.base_offset, self.next_offset, nowait)

    # -- appending -----------------------------------------------------------------------------------------------------

    def mark(self) -> Place:
        """Where it ends, for `truncate_to` when the append that follows fails. It stays open until it is `unpinned`, so
        that this needs no descriptor."""
        if not self.indexes.loaded:
            self.indexes.load(self.file())
        self.fd()
        self._pinned = True
        return Place(self.size_bytes, self.next_offset)

    def bytes_behind(self, position: int) -> int:
        """How much the file holds behind a place, whether it belongs to the log or not."""
        return self._fs.size(self.log_path) - position

    def unpin(self) -> None:
        self._pinned = False

    def append(self, buffers: Sequence[Bytes], size_bytes: int, headers: Sequence[BatchHeader]) -> None:
        """Write the buffers, which are the batches that `headers` describes as placed; AFTER `mark`, or a `create`.

        Whatever it raises, part of it may be written: the caller truncates to the mark.
        """
        position = self.size_bytes
        written = self._fs.pwritev(self._fd, buffers, position)
        if written != size_bytes:
            raise OSError(errno.ENOSPC, f"only {written} of {size_bytes} bytes were taken; probably the disk is full")
        self._remember(self.next_offset, position)
        for header in headers:
            self.indexes.note(position, header)
            position += header.size_bytes
        self.size_bytes = position
        self.next_offset = headers[-1].next_offset
        if self._first_timestamp_ms is None:
            self._first_timestamp_ms = headers[0].max_timestamp_ms

    def first_timestamp_ms(self) -> int:
        """The time of the first batch, from which segment.ms counts; only of a segment that is not empty."""
        if self._first_timestamp_ms is None:
            self._first_timestamp_ms = read_header_at(self.file(), 0).max_timestamp_ms
        return self._first_timestamp_ms

    # -- reading -------------------------------------------------------------------------------------------------------

    def find(self, wanted: Wanted, *, nowait: bool = False) -> tuple[Place, Place]:
        """Where the batches begin and end that a reader wants; the same place when there are none."""
        begin = self.place_of(wanted.start_offset, nowait=nowait)
        end = self.place_of(wanted.end_offset, nowait=nowait)
        if begin.position >= end.position:
            return begin, begin
        if end.position - begin.position > wanted.max_bytes:
            end = self._cut(begin, wanted, nowait)
            self._remember(end.offset, end.position)
        return begin, end

    def read_between(self, begin: Place, end: Place, *, nowait: bool = False) -> bytes:
        """The batches between two places that `find` gave."""
        if begin.position == end.position:
            return b""
        return self.file(nowait=nowait).read(end.position - begin.position, begin.position)

    def detached(self, *, with_indexes: bool = True) -> Segment:
        """The same file as another object with a descriptor of its own, for a reader in another thread; it must be
        closed. Whatever becomes of this segment, the copy stays what this one is now."""
        copy = Segment(self._fs, os.path.dirname(self.log_path), self.base_offset, self.indexes.interval_bytes)
        copy.adopt(self.size_bytes, self.next_offset)
        copy._opened_bytes, copy._checked_to = self._opened_bytes, self._checked_to
        if with_indexes:
            copy.indexes.copy_from(self.indexes)
        if self._fd != _CLOSED:
            copy._fd = self._fs.dup(self._fd)
        return copy

    def learn(self, copy: Segment, begin: Place, end: Place) -> None:
        """Take over what reading a copy has found out, for the next reader; this segment was not cut since."""
        if copy.size_bytes == self.size_bytes:
            self.indexes.take_over(copy.indexes)
        self._remember(begin.offset, begin.position)
        self._remember(end.offset, end.position)
        if self.unchecked(begin, end):
            self.checked(begin, end)
        self.fd()

    def unchecked(self, begin: Place, end: Place) -> bool:
        """Whether some of what was read may have rotted unnoticed."""
        return begin.position < self._opened_bytes and min(end.position, self._opened_bytes) > self._checked_to

    def checked(self, begin: Place, end: Place) -> None:
        """What was read is good; a reader that goes through the file makes the whole of it so."""
        if begin.position <= self._checked_to:
            self._checked_to = max(self._checked_to, end.position)

    def distrust(self) -> None:
        """Somebody says that the bytes are bad: whatever is there now is looked at once more when it is read."""
        self._opened_bytes, self._checked_to = self.size_bytes, 0

    def place_of(self, offset: int, *, nowait: bool = False) -> Place:
        """Where the batch begins that holds `offset`, or the first one above it, or else the end of the file."""
        if offset >= self.next_offset:
            return Place(self.size_bytes, self.next_offset)
        position = self._known.get(offset, -1)
        if position < 0:
            position = self._known_before.get(offset, -1)
        if position >= 0:
            return Place(position, offset)
        file = self.file(nowait=nowait)
        for position, header in scan_headers(file, self.indexes.position_at_or_before(offset, file)):
            if header.last_offset >= offset:
                self._remember(header.base_offset, position)
                return Place(position, header.base_offset)
        return Place(self.size_bytes, self.next_offset)

    def _cut(self, begin: Place, wanted: Wanted, nowait: bool) -> Place:
        """The last boundary within `max_bytes`, or the one after the first batch."""
        limit = begin.position + wanted.max_bytes
        file = self.file(nowait=nowait)
        end = begin
        start = max(begin.position, self.indexes.position_near(limit, file))
        for position, header in scan_headers(file, start):
            after = position + header.size_bytes
            if after > limit and not (wanted.min_one_batch and position == begin.position):
                return Place(position, header.base_offset) if position > begin.position else begin
            end = Place(after, header.next_offset)
        return end

    def _remember(self, offset: int, position: int) -> None:
        if not self._known:
            self._known = {}
        elif len(self._known) >= KNOWN_PLACES:
            self._known_before, self._known = self._known, {}
        self._known[offset] = position

    # -- cutting, closing ----------------------------------------------------------------------------------------------

    def truncate_to(self, place: Place) -> None:
        """Cut the file at a boundary; durable only after a flush."""
        if place.position:
            self.indexes.load(self.file())
        self._fs.truncate(self.fd(), place.position)
        self._known = self._known_before = _NONE_KNOWN
        self.size_bytes, self.next_offset = place.position, place.offset
        self._opened_bytes = min(self._opened_bytes, place.position)
        self.synced_bytes = -1
        self.cuts += 1
        if place.position == 0:
            self._first_timestamp_ms = None
            self.indexes.start_empty()
        else:
            self.indexes.truncate_to(place.position, place.offset, self.file())

    def renewed(self) -> Segment:
        """The same file as another object, for a full segment that is cut: whoever looked at the old one knows."""
        segment = Segment(self._fs, os.path.dirname(self.log_path), self.base_offset, self.indexes.interval_bytes)
        segment.adopt(self.size_bytes, self.next_offset)
        segment._checked_to = self._checked_to
        segment.synced_bytes = self.synced_bytes
        segment.open_files = self.open_files
        self.close()
        return segment

    def release(self) -> None:
        """Give back the descriptor and the memory of the indexes; the next use gets them again."""
        if self._pinned:
            return
        self.indexes.release()
        self._known = self._known_before = _NONE_KNOWN
        self.close()

    def may_close(self, *, forced: bool) -> bool:
        """Whether the descriptor can be had again, and with it, unless `forced`, every error of what was written."""
        return not self._pinned and (forced or self.size_bytes <= self.synced_bytes)

    def close(self) -> None:
        if self._fd != _CLOSED:
            fd, self._fd = self._fd, _CLOSED
            if self.open_files is not None:
                self.open_files.closed(self)
            self._fs.close(fd)

    def become(self, empty: Segment) -> None:
        """Give the file to another, empty segment; durable only after a flush and an fsync of the directory."""
        self.truncate_to(Place(0, self.base_offset))
        self.close()
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            with contextlib.suppress(FileNotFoundError):
                self._fs.unlink(self.stem + suffix)
        if empty.log_path != self.log_path:
            self._fs.rename(self.log_path, empty.log_path)
        empty.indexes.start_empty()

    def delete(self) -> None:
        """Remove the files, the .log first: what may be left is an orphan index, which the next start removes.

        After an error it may be called again.
        """
        self.close()
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            with contextlib.suppress(FileNotFoundError):
                self._fs.unlink(self.stem + suffix)

    def __repr__(self) -> str:
        return f"Segment({self.log_path}, {self.base_offset}..{self.next_offset}, {self.size_bytes} bytes)"
