"""Reads the two index files of one segment, and says what of them is believed.

An index has no checksum. Its bytes must be able to be an index; its last entries, and any entry that is used, must fit
the batch of the .log to which they point. A batch is checked before its timestamp is believed. Damage is told in words,
and the index is built anew (segment_indexes.py). The bytes are in offset_index.py and time_index.py.
"""

from __future__ import annotations

from itertools import islice

from penstock.errors import CorruptFileError
from penstock.record.batch import HEADER_BYTES
from storage.disk.file_names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.disk.file_system import FileSystem
from storage.segment import offset_index
from storage.segment.batch_scan import LogFile, read_header_at, scan_headers, scan_verified
from storage.segment.offset_index import INTERVAL_BATCHES_MAX, IndexEntry, OffsetIndex
from storage.segment.time_index import TimeEntry, TimeIndex


def read(fs: FileSystem, stem: str, file: LogFile, interval_bytes: int) -> tuple[OffsetIndex, TimeIndex] | str:
    """Both indexes, or why the files cannot be the indexes of this .log."""
    try:
        offsets = OffsetIndex.parse(fs.read_file(stem + INDEX_SUFFIX), file.size_bytes)
        times = TimeIndex.parse(fs.read_file(stem + TIME_INDEX_SUFFIX))
    except FileNotFoundError:
        return "an index file is missing"
    if offsets is None or times is None:
        return "an index file is not monotonic or of a wrong size"
    if file.size_bytes > 0 and not len(times):
        return "the time index is empty"
    if not len(offsets) and _wants_entries(file, interval_bytes):
        return "the index is empty"
    return fault_of(offsets, times, file) or (offsets, times)


def last_on_disk(fs: FileSystem, stem: str) -> IndexEntry | None:
    """The last entry of the offset index, unchecked; None without one."""
    path = stem + INDEX_SUFFIX
    try:
        size_bytes = fs.size(path)
        fd = fs.open(path)
    except FileNotFoundError:
        return None
    try:
        at = size_bytes - offset_index.ENTRY_BYTES
        return OffsetIndex.entry_of(fs.pread(fd, offset_index.ENTRY_BYTES, at)) if at >= 0 else None
    finally:
        fs.close(fd)


def fault_of(offsets: OffsetIndex, times: TimeIndex, file: LogFile) -> str | None:
    """The last entry of either that does not fit its batch."""
    last, last_time = offsets.last(), times.last()
    if last is not None and not is_true(last, file):
        return f"{last} does not point to its batch"
    if last_time is not None and not is_true_time(last_time, offsets, file):
        return f"{last_time} does not fit its batch"
    return None


def is_true(entry: IndexEntry, file: LogFile) -> bool:
    """True if the batch at the entry's position ends with the entry's offset."""
    try:
        header = read_header_at(file, entry.position)
    except CorruptFileError:
        return False
    return header.last_offset == file.base_offset + entry.relative_offset


def is_true_time(entry: TimeEntry, offsets: OffsetIndex, file: LogFile) -> bool:
    """True if the batch that ends with the entry's offset is sound and has the entry's time."""
    near = offsets.floor_offset(entry.relative_offset)
    if near is not None and not is_true(near, file):
        return False
    offset = file.base_offset + entry.relative_offset
    for _, header in scan_verified(file, near.position if near is not None else 0):
        if header.last_offset >= offset:
            return header.last_offset == offset and header.max_timestamp_ms == entry.timestamp_ms
    return False


def _wants_entries(file: LogFile, interval_bytes: int) -> bool:
    """True if the .log must have an index entry: a batch begins behind the first interval. Release 0.2.0 and
    those before knew no limit of batches: what they wrote without an entry is indexed when it is first read."""
    if file.size_bytes <= min(interval_bytes, INTERVAL_BATCHES_MAX * HEADER_BYTES):
        return False
    first = enumerate(islice(scan_headers(file, 0), INTERVAL_BATCHES_MAX + 1))
    return any(position > interval_bytes or count == INTERVAL_BATCHES_MAX for count, (position, _) in first)
