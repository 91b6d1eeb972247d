"""Which segments of the node's logs have a descriptor, and which one gives its back when there are too many.

CLOCK, the second chance: files stand in a ring in the order in which they were opened; a file that was used since the
hand passed it last is passed over once more, the first that was not is closed, with the memory that goes with it. What
was closed opens itself at its next use. So whatever the number of partitions, those in use have their files open, and
idle ones cost none.

A file with bytes that are not durable stays open while there is any other: an fdatasync through a new descriptor might
not tell of an error that the kernel met, and forgot, in between (ATC'20). Where all are such files the limit is passed,
up to `STRETCH`; beyond that the limit of the process is nearer than that error. It is also passed by a few while the
hand looks for somebody who was not used.

Used from the thread that the logs live on, until `evict_no_more`. A file that is in use now is never closed: one call
passes each file at most once, and a file that was used is passed over. Not here: the descriptors (`segment.py`).
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

DESCRIPTORS_SHARE = 2
"""Half of what the process may have is for segments; sockets, flushes (one each) and small files have the rest."""
OPEN_FILES_MIN, OPEN_FILES_MAX = 32, 32_768
"""More open files would be more kernel memory, about 1 KiB each, than opening one again is worth."""
STRETCH = 1.5
STEPS_PER_OPEN = 64
"""How far the hand goes at most before it lets the limit be passed; the next opening goes on from there."""


class OpenFile(Protocol):
    """What the ring wants of a segment."""

    used: bool
    """Set by every use, cleared here."""

    def may_close(self, *, forced: bool) -> bool:
        """Whether it can do without its descriptor; `forced`: even if something is not durable yet."""
        ...

    def release(self) -> None:
        """Give back the descriptor and what can be read again; calls `closed`."""
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
        """The hand stands before the first; who is passed over goes to the end."""
        self._opened = self._evicted = 0

    def opened(self, file: OpenFile) -> None:
        """The file has a descriptor now; others may lose theirs."""
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
        """The logs are closed, in several threads; few files are opened for that, and every log gives its own back."""
        self.limit = sys.maxsize

    def statistics(self) -> OpenFilesStatistics:
        return OpenFilesStatistics(len(self._ring), self.limit, self._opened, self._evicted)

    def __repr__(self) -> str:
        return f"OpenFiles({len(self._ring)} of {self.limit}, {self._evicted} evicted)"


def share_of(descriptors_max: int) -> int:
    """How many segments may have their files open in a process that may have so many descriptors."""
    return min(max(descriptors_max // DESCRIPTORS_SHARE, OPEN_FILES_MIN), OPEN_FILES_MAX)
