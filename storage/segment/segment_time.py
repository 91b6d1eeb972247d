"""The time of a segment, for retention: its largest timestamp, or the time of its last write if no record has one.

It is read through descriptors of its own, so in any thread while the log goes on. The loop takes a snapshot of the
segment first (`SegmentSnapshot.of`) and must check afterwards that the segment is unchanged: one that was cut or
replaced meanwhile may have looked damaged. `retention.py` decides.
"""

from __future__ import annotations

from typing import NamedTuple

from storage.disk.file_system import FileSystem
from storage.segment.batch_scan import LogFile
from storage.segment.segment import Segment
from storage.segment.segment_indexes import SegmentIndexes


class SegmentSnapshot(NamedTuple):
    """A snapshot of a segment, taken on the loop."""

    segment: Segment
    base_offset: int
    next_offset: int
    cuts: int
    size_bytes: int
    known_ms: int | None
    """The largest timestamp, if it is in memory and not yet in the index files."""

    @classmethod
    def of(cls, segment: Segment) -> SegmentSnapshot:
        in_memory = segment.indexes.dirty and segment.size_bytes > 0
        known_ms = segment.indexes.max_timestamp(segment.file())[0] if in_memory else None
        return cls(segment, segment.base_offset, segment.next_offset, segment.cuts, segment.size_bytes, known_ms)

    @property
    def path(self) -> str:
        return self.segment.log_path

    def is_unchanged(self) -> bool:
        segment = self.segment
        return (segment.next_offset, segment.cuts, segment.size_bytes) == (self.next_offset, self.cuts, self.size_bytes)


def largest_time_ms(fs: FileSystem, file: SegmentSnapshot) -> int:
    """The largest timestamp of a segment, or the time of its file where no record has one. Blocks. CorruptFileError
    when both the index and the log are damaged."""
    timestamp_ms = file.known_ms
    if timestamp_ms is None:
        fd = fs.open(file.path)
        try:
            stem = file.segment.stem
            indexes = SegmentIndexes(fs, stem, file.base_offset, file.segment.indexes.interval_bytes)
            log_file = LogFile(fs, fd, file.path, file.size_bytes, file.base_offset, file.next_offset)
            timestamp_ms, _ = indexes.max_timestamp(log_file)
        finally:
            fs.close(fd)
    return timestamp_ms if timestamp_ms >= 0 else fs.modified_ms(file.path)
