"""One segment of a log: a .log file of record batches from one base offset on, and its indexes.

An append is one writev. Positions of recent batch boundaries are remembered (`places.py`), older ones are found by the
index and a short walk over headers. `checked_read.py` reads whole batches.

A failed append may leave bytes behind; `log_writer.py` cuts them off (`mark`, `truncate_to`). Bytes that this process
neither wrote nor checked at recovery may have rotted: `unchecked` tells the reader to check them, once.

`flush.py` syncs the file; `batch_check.py` and `recovery.py` define a damaged batch.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence

from penstock.record.batch import BatchHeader
from storage.disk.file_names import LOG_SUFFIX, SEGMENT_SUFFIXES, file_stem
from storage.disk.file_system import Bytes, FileSystem
from storage.segment.batch_scan import LogFile, NotCachedError, read_header_at, scan_headers
from storage.segment.open_files import OpenFiles
from storage.segment.places import KnownPlaces, Place
from storage.segment.segment_indexes import SegmentIndexes

_CLOSED = -1


class Segment:
    """One .log file. Used from one thread; a flush uses its own descriptor, a cold read a copy (`detached`)."""

    __slots__ = (
        "_checked_to",
        "_fd",
        "_first_timestamp_ms",
        "_fs",
        "_open_files",
        "_opened_bytes",
        "_pinned",
        "base_offset",
        "cuts",
        "doubts",
        "indexes",
        "known_places",
        "log_path",
        "next_offset",
        "size_bytes",
        "stem",
        "synced_bytes",
        "used",
    )

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        base_offset: int,
        interval_bytes: int,
        open_files: OpenFiles | None = None,
    ) -> None:
        """`open_files` bounds the open files of the log that owns this segment; None while no log does."""
        self._fs = fs
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.stem = f"{directory}/{file_stem(base_offset)}"
        self.log_path = self.stem + LOG_SUFFIX
        self.indexes = SegmentIndexes(fs, self.stem, base_offset, interval_bytes)
        self.size_bytes = 0
        self.synced_bytes = -1
        """How much of the file is durable; -1: not even the empty file is."""
        self.cuts = 0
        """The number of truncations; a flush that began before a cut did not make the cut durable."""
        self.doubts = 0
        """The number of times that its bytes were distrusted; a read that began before may not have checked them."""
        self._open_files = open_files
        self.used = False
        self._fd = _CLOSED
        self._pinned = False
        self._checked_to = self._opened_bytes = 0
        self._first_timestamp_ms: int | None = None
        self.known_places = KnownPlaces()

    def owned_within(self, open_files: OpenFiles | None) -> None:
        """A log owns this segment from now on, which was found on disk, with this bound on open files."""
        self._open_files = open_files

    def create(self) -> None:
        """Make the file; its name is durable only after an fsync of the directory."""
        fd = self._fs.open(self.log_path, create=True)
        try:
            self._opened(fd)
            self.indexes.start_empty()
        except BaseException:  # no log would own the file, and the next segment needs its name
            with contextlib.suppress(OSError):
                self.delete()
            raise

    def _opened(self, fd: int) -> int:
        self._fd = fd
        if self._open_files is not None:
            self._open_files.opened(self)
        return fd

    def adopt(self, size_bytes: int, next_offset: int, *, checked: bool = False) -> None:
        """Take over an existing file: all of its `size_bytes` are durable, and its last batch ends at `next_offset`."""
        self.size_bytes = self.synced_bytes = size_bytes
        self.next_offset = next_offset
        self._opened_bytes, self._checked_to = size_bytes, size_bytes if checked else 0

    def adopt_cleaned(self, path: str, size_bytes: int, next_offset: int) -> None:
        """The records are in a file with another name until `settled`: its descriptor is kept open."""
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
        """The file to read from. `nowait`: it raises NotCachedError for all that the disk would have to be asked for,
        even the file's name."""
        if nowait and self._fd == _CLOSED:
            raise NotCachedError
        return LogFile(self._fs, self.fd(), self.log_path, self.size_bytes, self.base_offset, self.next_offset, nowait)

    # -- appending -----------------------------------------------------------------------------------------------------

    def mark(self) -> Place:
        """The end of the file, for `truncate_to` if the next append fails. The file stays open until `unpin`, so that
        the cut needs no descriptor."""
        if not self.indexes.loaded:
            self.indexes.load(self.file())
        self.fd()
        self._pinned = True
        return Place(self.size_bytes, self.next_offset)

    def bytes_behind(self, position: int) -> int:
        """How many bytes the file has behind `position`, whether they belong to the log or not."""
        return self._fs.size(self.log_path) - position

    def unpin(self) -> None:
        self._pinned = False

    def append(self, buffers: Sequence[Bytes], size_bytes: int, headers: Sequence[BatchHeader]) -> None:
        """Write the buffers, which hold the batches of `headers`; AFTER `mark`, or a `create`.

        If it raises, part of the bytes may be written: the caller truncates to the mark.
        """
        position = self.size_bytes
        written = self._fs.pwritev(self._fd, buffers, position)
        if written != size_bytes:
            raise OSError(errno.ENOSPC, f"only {written} of {size_bytes} bytes were written")
        self.known_places.remember(self.next_offset, position)
        for header in headers:
            self.indexes.note(position, header)
            position += header.size_bytes
        self.size_bytes = position
        self.next_offset = headers[-1].next_offset
        if self._first_timestamp_ms is None:
            self._first_timestamp_ms = headers[0].max_timestamp_ms

    def first_timestamp_ms(self) -> int:
        """The time of the first batch, from which segment.ms counts; not for an empty segment."""
        if self._first_timestamp_ms is None:
            self._first_timestamp_ms = read_header_at(self.file(), 0).max_timestamp_ms
        return self._first_timestamp_ms

    # -- reading -------------------------------------------------------------------------------------------------------

    def modified_ms(self) -> int:
        """When the file was last written, by this machine's wall clock."""
        return self._fs.modified_ms(self.log_path)

    def detached(self, *, with_indexes: bool = True) -> Segment:
        """The segment as another object with a descriptor of its own, for a reader in another thread; it must be
        closed. The copy stays as this segment is now, also if this one is cut or removed."""
        copy = Segment(self._fs, os.path.dirname(self.log_path), self.base_offset, self.indexes.interval_bytes)
        copy.adopt(self.size_bytes, self.next_offset)
        copy._opened_bytes, copy._checked_to = self._opened_bytes, self._checked_to
        if with_indexes:
            copy.indexes.copy_from(self.indexes)
        if self._fd != _CLOSED:
            copy._fd = self._fs.dup(self._fd)
        return copy

    def learn(self, copy: Segment, begin: Place, end: Place) -> None:
        """Take over what reading a copy has found out, for the next reader; this segment was neither cut nor distrusted
        since."""
        if copy.size_bytes == self.size_bytes:
            self.indexes.take_over(copy.indexes)
        self.known_places.remember(begin.offset, begin.position)
        self.known_places.remember(end.offset, end.position)
        if self.unchecked(begin, end):
            self.checked(begin, end)
        self.fd()

    def unchecked(self, begin: Place, end: Place) -> bool:
        """True if some of these bytes may have rotted unnoticed."""
        return begin.position < self._opened_bytes and min(end.position, self._opened_bytes) > self._checked_to

    def checked(self, begin: Place, end: Place) -> None:
        """These bytes were checked and are good. A reader that reads the file in order checks all of it."""
        if begin.position <= self._checked_to:
            self._checked_to = max(self._checked_to, end.position)

    def distrust(self) -> None:
        """A follower reports bad bytes: every byte now in the file is checked again when it is read."""
        self._opened_bytes, self._checked_to = self.size_bytes, 0
        self.doubts += 1

    def place_of(self, offset: int, *, nowait: bool = False) -> Place:
        """The start of the batch that holds `offset`; without one, of the first above it; else the end of the file."""
        if offset >= self.next_offset:
            return Place(self.size_bytes, self.next_offset)
        position = self.known_places.position_of(offset)
        if position >= 0:
            return Place(position, offset)
        file = self.file(nowait=nowait)
        for position, header in scan_headers(file, self.indexes.position_at_or_before(offset, file)):
            if header.last_offset >= offset:
                self.known_places.remember(header.base_offset, position)
                return Place(position, header.base_offset)
        return Place(self.size_bytes, self.next_offset)

    # -- cutting, closing ----------------------------------------------------------------------------------------------

    def truncate_to(self, place: Place) -> None:
        """Cut the file at a boundary; durable only after a flush."""
        if place.position:
            self.indexes.load(self.file())
        self._fs.truncate(self.fd(), place.position)
        self.known_places.forget()
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
        """The segment as another object, for a full segment that is cut: a holder of the old object sees that the
        log no longer has it."""
        directory, interval_bytes = os.path.dirname(self.log_path), self.indexes.interval_bytes
        segment = Segment(self._fs, directory, self.base_offset, interval_bytes, self._open_files)
        segment.adopt(self.size_bytes, self.next_offset)
        segment._checked_to = self._checked_to
        segment.synced_bytes = self.synced_bytes
        self.close()
        return segment

    def release(self) -> None:
        """Close the descriptor and drop the indexes from memory; the next use gets them back."""
        if self._pinned:
            return
        self.indexes.release()
        self.known_places.forget()
        self.close()

    def may_close(self, *, forced: bool) -> bool:
        """True if the descriptor can be closed: the file can be opened again and, unless `forced`, is fully synced."""
        return not self._pinned and (forced or self.size_bytes <= self.synced_bytes)

    def close(self) -> None:
        if self._fd != _CLOSED:
            fd, self._fd = self._fd, _CLOSED
            if self._open_files is not None:
                self._open_files.closed(self)
            self._fs.close(fd)

    def delete(self) -> None:
        """Remove the files, the .log first: a crash may leave an index without its .log, which the next start removes.

        After an error it may be called again.
        """
        self.close()
        for suffix in SEGMENT_SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                self._fs.unlink(self.stem + suffix)

    def __repr__(self) -> str:
        return f"Segment({self.log_path}, {self.base_offset}..{self.next_offset}, {self.size_bytes} bytes)"
