"""Bounds the descriptors of the node's segments: chooses which one to close when too many are open.

The algorithm is CLOCK (second chance). Files are in a ring in the order in which they were opened. The hand passes over
a file that was used since it passed last, and closes the first one that was not used, with its indexes in memory. A
closed segment opens itself at its next use. So with any number of partitions, those in use have their files open, and
idle ones cost no descriptor.

A file with unflushed bytes stays open while another one can be closed. An fdatasync through a new descriptor might not
report an error that the kernel met and dropped in between (Rebello et al., "Can Applications Recover from fsync
Failures?", ATC'20). If all files are unflushed, the limit is exceeded, up to `STRETCH` times it; beyond that, running
into the limit of the process is the greater danger. The limit is also exceeded by a few files while the hand searches.

Used in the logs' thread, until `evict_no_more`. A file that is in use now is never closed: one call passes each file at
most once, and a used file is passed over. The descriptors are in `segment.py`.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import Protocol

from penstock.lazy_dataclass import dataclass

DESCRIPTORS_SHARE = 2
"""Segments may use half of the process's descriptors; sockets, flushes (one each) and small files have the rest."""
OPEN_FILES_MIN, OPEN_FILES_MAX = 32, 32_768
"""The least and the most open segments. More open files would cost more kernel memory, about 1 KiB each, than they save
in opens."""
STRETCH = 1.5
STEPS_PER_OPEN = 64
"""The most steps of the hand for one opening; then the limit is exceeded, and the next opening goes on from there."""


class OpenFile(Protocol):
    """The part of a segment that the ring uses."""

    used: bool
    """True after every use; cleared here."""

    def may_close(self, *, forced: bool) -> bool:
        """True if the descriptor may be closed; with `forced`, even if some bytes are not durable yet."""
        ...

    def release(self) -> None:
        """Close the descriptor and drop the memory that can be read again; calls `closed`."""
        ...


@dataclass(frozen=True, slots=True)
class OpenFilesStatistics:
    """A snapshot."""

    open: int
    limit: int
    opened: int
    evicted: int


class OpenFiles:
    """The ring."""

    __slots__ = ("_evicted", "_opened", "_ring", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._ring: OrderedDict[OpenFile, None] = OrderedDict()
        """The hand is before the first file; a file that is passed over moves to the end."""
        self._opened = self._evicted = 0

    def opened(self, file: OpenFile) -> None:
        """The file has a descriptor now; another file may be closed for it."""
        self._ring[file] = None
        self._opened += 1
        steps = min(STEPS_PER_OPEN, len(self._ring) - 1)  # not as far as the file itself
        while len(self._ring) > self.limit and steps > 0:
            steps -= 1
            self._pass_one()

    def _pass_one(self) -> None:
        file = next(iter(self._ring))
        if not file.used and file.may_close(forced=len(self._ring) > self.limit * STRETCH):
            self._evicted += 1
            file.release()
            self._ring.pop(file, None)
        else:
            file.used = False
            self._ring.move_to_end(file)

    def closed(self, file: OpenFile) -> None:
        """The file has no descriptor any more."""
        self._ring.pop(file, None)

    def evict_no_more(self) -> None:
        """Close no more files. The logs are being closed in several threads; each opens few files and closes its
        own."""
        self.limit = sys.maxsize

    def statistics(self) -> OpenFilesStatistics:
        return OpenFilesStatistics(len(self._ring), self.limit, self._opened, self._evicted)

    def __repr__(self) -> str:
        return f"OpenFiles({len(self._ring)} of {self.limit}, {self._evicted} evicted)"


def share_of(descriptors_max: int) -> int:
    """How many segments may have their files open in a process that may open `descriptors_max` files."""
    return min(max(descriptors_max // DESCRIPTORS_SHARE, OPEN_FILES_MIN), OPEN_FILES_MAX)
