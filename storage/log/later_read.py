"""LaterRead: the port of a read of a log that must wait. It is begun and ended on the event loop; a thread waits.

`LogReader.read_nowait` returns one where the records cannot be had at once, and `LogReader.finish` takes its records.
Appends, truncation, retention and the cleaner go on in between, and nothing is locked. So a read knows by itself
whether its records are still the log's: records of another history must never be returned.

`ColdRead` (segment/cold_read.py) reads a segment's file. Records in another kind of storage are another class, and no
reader of a log sees a difference. Not here: the threads, and whether a reader may have the records (broker).
"""

from __future__ import annotations

from typing import Protocol

from storage.segment.checked_read import CheckedRead, ListedSegments


class LaterRead(Protocol):
    """The work of a read, and its outcome. `run` or `discard` must be called, or what it holds stays open."""

    @property
    def start_offset(self) -> int:
        """The offset that was asked for."""
        ...

    @property
    def bytes_max(self) -> int:
        """The most bytes that it reads, except for a first batch that is larger."""
        ...

    def run(self) -> None:
        """Do the work. Blocks, in any thread. An error is raised by `taken`."""
        ...

    def cancel(self) -> None:
        """The records are not wanted any more. `run` must still be called, and then only closes what is open."""
        ...

    def discard(self) -> None:
        """Close what is open: `run` will not be called."""
        ...

    @property
    def found_bytes(self) -> int:
        """The size of the records, AFTER `run`."""
        ...

    def taken(self, segments: ListedSegments) -> CheckedRead | None:
        """The batches, AFTER `run`, for the log that has these segments. None when they are not that log's, or are not
        its batches any more. Raises the error of `run`."""
        ...
