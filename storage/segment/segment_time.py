"""How old a segment is, for retention: its largest timestamp, or where no record has one, when it was last written.

Reads through descriptors of its own, and so in any thread, while the log goes on. The loop takes what the segment was
(`SegmentFile.of`), and afterwards must see whether it still is: a segment that was cut or replaced meanwhile may have
looked damaged. Not here: the decision (`retention.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from storage.disk.file_system import FileSystem
from storage.segment.batch_scan import LogFile
from storage.segment.segment import Segment
from storage.segment.segment_indexes import SegmentIndexes


class SegmentFile(NamedTuple):
    """A segment as it was when the loop looked at it."""

    segment: Segment
    base_offset: int
    next_offset: int
    size_bytes: int
    known_ms: int | None
    """The largest timestamp where memory has it and the index files do not yet."""

    @classmethod
    def of(cls, segment: Segment) -> SegmentFile:
        in_memory = segment.indexes.dirty and segment.size_bytes > 0
        known_ms = segment.indexes.max_timestamp(segment.file())[0] if in_memory else None
        return cls(segment, segment.base_offset, segment.next_offset, segment.size_bytes, known_ms)

    @property
    def path(self) -> str:
        return self.segment.log_path

    def is_unchanged(self) -> bool:
        return (self.segment.next_offset, self.segment.size_bytes) == (self.next_offset, self.size_bytes)


def largest_time_ms(fs: FileSystem, file: SegmentFile) -> int:
    """Blocks. CorruptFileError when neither the index nor the log makes sense."""
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
