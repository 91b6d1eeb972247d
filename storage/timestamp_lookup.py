"""Finds records by time: the first at or after a timestamp, and the largest (ListOffsets, KIP-79, KIP-734).

The time indexes lead to a segment and near a batch, headers lead to the batch, and that one batch is decoded for the
record. Every batch that is looked at is checked: nobody reads it after this. The segments are given oldest first. Not
here: what a consumer may see of it (high watermark), which is the broker's.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import CorruptFileError, CorruptMessageError
from penstock.record.batch import BatchHeader
from penstock.record.reader import read_columns
from penstock.types import TimestampAndOffset
from storage.batch_scan import LogFile, verify
from storage.segment import Segment


def first_at_or_after(
    segments: Iterable[Segment], timestamp_ms: int, log_start_offset: int
) -> TimestampAndOffset | None:
    """The first record, by offset, whose timestamp is not below the given one."""
    for segment in segments:
        if segment.next_offset <= log_start_offset or not segment.size_bytes:
            continue
        file = segment.file()
        if segment.indexes.max_timestamp(file)[0] < timestamp_ms:
            continue
        near = max(segment.indexes.offset_at_or_before_time(timestamp_ms, file), log_start_offset)
        for position, header in verify(file, segment.place_of(near).position):
            if header.max_timestamp_ms >= timestamp_ms:
                found = _first_in_batch(file, position, header, timestamp_ms, log_start_offset)
                if found is not None:
                    return found
    return None


def largest(segments: Iterable[Segment], log_start_offset: int) -> TimestampAndOffset | None:
    """The first record with the largest timestamp in the log; None in an empty log."""
    best: tuple[int, int, Segment] | None = None
    for segment in segments:
        if segment.next_offset <= log_start_offset or not segment.size_bytes:
            continue
        timestamp_ms, offset = segment.indexes.max_timestamp(segment.file())
        if offset >= log_start_offset and (best is None or timestamp_ms > best[0]):
            best = (timestamp_ms, offset, segment)
    if best is None:
        return None
    timestamp_ms, offset, segment = best
    file = segment.file()
    position = segment.place_of(offset).position
    _, header = next(verify(file, position))
    return _first_in_batch(file, position, header, timestamp_ms, log_start_offset)


def _first_in_batch(
    file: LogFile, position: int, header: BatchHeader, timestamp_ms: int, log_start_offset: int
) -> TimestampAndOffset | None:
    try:
        columns = read_columns(file.read(header.size_bytes, position), from_offset=log_start_offset)
    except CorruptMessageError as damage:
        raise CorruptFileError(file.path, position, str(damage)) from damage
    for found_ms, offset in zip(columns.timestamps_ms, columns.offsets, strict=True):
        if found_ms >= timestamp_ms:
            return TimestampAndOffset(found_ms, offset, header.leader_epoch)
    return None
