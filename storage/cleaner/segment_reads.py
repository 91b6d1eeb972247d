"""Reads the segments of one cleaning, at the throttle's pace: whole batches, or headers only.

The files are found by their names, and read through descriptors of their own, in any thread. Not here: what becomes of
what is read (segment_cleaning.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.lazy_dataclass import dataclass
from storage.cleaner.cleaner_types import NEVER_MS, CleaningPlan, SegmentFile
from storage.disk.file_system import FileSystem
from storage.segment.batch_scan import SCAN_CHUNK_BYTES, LogFile, scan_headers
from storage.segment.verified_chunks import Chunk, ChunkReader

PACED_HEADERS = 64
"""A scan of headers reports this many at a time to the throttle."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The node's services that a pass uses."""

    fs: FileSystem
    pace: Callable[[int], None]
    """Called with the size of every read and write; waits, and raises CleaningAbortedError when the pass must end."""
    now_ms: Callable[[], int]
    """A monotonic time."""


class SegmentReads:
    """Reads the segments of one cleaning. `bytes_read` counts whole batches."""

    def __init__(self, around: Surroundings, plan: CleaningPlan) -> None:
        self._around, self._plan = around, plan
        self.bytes_read = 0

    @contextmanager
    def _opened(self, segment: SegmentFile) -> Iterator[LogFile]:
        fd = self._around.fs.open(segment.path)
        try:
            yield LogFile(
                self._around.fs, fd, segment.path, segment.size_bytes, segment.base_offset, segment.next_offset
            )
        finally:
            self._around.fs.close(fd)

    def chunks(self, segment: SegmentFile) -> Iterator[Chunk]:
        with self._opened(segment) as file:
            for chunk in ChunkReader(file, self._plan.epoch_entries).chunks():
                self.bytes_read += len(chunk.data)
                self._around.pace(len(chunk.data))
                yield chunk

    def find_horizon(self) -> int:
        """The first delete horizon below the dirty part; NEVER_MS without one."""
        plan, found = self._plan, NEVER_MS
        end_offset = min(plan.first_dirty_offset, plan.end_offset)
        for segment in plan.segments:
            with self._opened(segment) as file:
                for count, (_, header) in enumerate(scan_headers(file, 0)):
                    if header.base_offset >= end_offset:
                        return found
                    if header.delete_horizon_ms is not None:
                        found = min(found, header.delete_horizon_ms)
                    if count % PACED_HEADERS == 0:
                        self._around.pace(PACED_HEADERS * SCAN_CHUNK_BYTES)
        return found

    def __repr__(self) -> str:
        return f"SegmentReads({self._plan.directory}, {self.bytes_read} bytes)"
