"""Finds out which producers a log will know once it is cut, in a thread, BEFORE the cut.

A truncation is done on the event loop, and so is the next append. Reading the headers of a segment would take up to
seconds there. So the follower has them read first, from the newest snapshot below the cut on, in copies of the segments
(`Segment.detached`). The result counts if the log then really ends there. Else, and if a file was removed meanwhile,
`ProducerLog.reload` reads at the next append.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from penstock.types import EpochEntry
from storage.append.producer_state import KnownProducers
from storage.disk.file_system import FileSystem
from storage.log.producers.producer_snapshots import ProducerSnapshots
from storage.log.segment_list import SegmentList
from storage.recovery.producer_recovery import ProducerReplay, newest_good, replay_batches
from storage.recovery.producer_snapshot import ProducerSnapshot
from storage.segment.segment import Segment


class PreparedCut:
    """The preparation of one truncation of one log. `run` or `close` must be called, or descriptors stay open."""

    __slots__ = (
        "_end",
        "_entries",
        "_first",
        "_fs",
        "_known",
        "_noted",
        "_offset",
        "_replay",
        "_segments",
        "_snapshots",
    )

    def __init__(
        self,
        fs: FileSystem,
        offset: int,
        segments: SegmentList,
        entries: Sequence[EpochEntry],
        snapshots: ProducerSnapshots,
        replay: ProducerReplay,
    ) -> None:
        """May raise OSError if no descriptor is free."""
        self._fs, self._offset, self._entries, self._replay = fs, offset, entries, replay
        self._snapshots = snapshots
        self._noted = tuple(one.snapshot for one in snapshots.noted() if one.snapshot.offset <= offset)
        self._first = segments.oldest.base_offset
        self._segments: list[Segment] = []
        self._known: KnownProducers | None = None
        self._end = -1
        try:
            for segment in segments:
                if segment.base_offset < offset:
                    self._segments.append(segment.detached())
        except BaseException:
            self.close()
            raise

    def run(self, is_wanted: Callable[[], bool]) -> None:
        """Finds the producers that the log had at the cut. Blocks, in any thread; ends early when it is not wanted any
        more. CorruptFileError; OSError of the disk."""
        try:
            snapshot = self._newest_snapshot()
            known = KnownProducers(snapshot.producers, snapshot.ended) if snapshot is not None else KnownProducers()
            begin = snapshot.offset if snapshot is not None else self._first
            with contextlib.suppress(FileNotFoundError):  # the cleaner or retention took one
                _, end = replay_batches(known, self._segments, begin, self._replay, self._offset, is_wanted)
                if is_wanted():
                    self._known, self._end = known, end
        finally:
            self.close()

    def _newest_snapshot(self) -> ProducerSnapshot | None:
        usable = [one for one in self._noted if one.is_of(self._first, self._offset, self._entries)]
        noted = max(usable, key=lambda one: one.offset, default=None)
        above = noted.offset if noted is not None else -1
        offsets = [offset for offset in self._snapshots.offsets if above < offset <= self._offset]
        found = newest_good(self._fs, self._snapshots.directory, offsets, self._first, self._offset, self._entries)
        return noted if found is None else found

    def known_at(self, log_end_offset: int) -> KnownProducers | None:
        """The producers that are known where the log ends now; None if that was not found out."""
        return self._known if log_end_offset == self._end else None

    def close(self) -> None:
        for segment in self._segments:
            segment.close()

    def __repr__(self) -> str:
        return f"PreparedCut({self._offset}, {self._known!r} up to {self._end})"
