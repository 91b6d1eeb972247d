"""Finds records by time: the first at or after a timestamp, and the largest (ListOffsets, KIP-79, KIP-734).

The time indexes lead to a segment and near a batch, headers lead to the batch, and that batch is decoded for the
record. Every batch that is read is checked, because no reader checks it after this. Of a batch whose records cannot be
decoded (`DECODING_ERRORS`), a look-up by time skips the records; the largest timestamp is taken from the header. The
segments are given oldest first. The broker knows the high watermark, below which a consumer is answered.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.record.batch import BatchHeader
from penstock.record.decoding import DECODING_ERRORS
from penstock.record.reader import RecordColumns, read_columns
from penstock.types import TimestampAndOffset
from storage.segment.batch_scan import LogFile, scan_verified
from storage.segment.segment import Segment

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TimeLookUp:
    """A request: the first record at or after `timestamp_ms`, or with None the record with the largest time. It counts
    only records from the log start on and, for the largest time, below an offset."""

    log_start_offset: int
    timestamp_ms: int | None = None
    below: int | None = None

    def find(self, segments: Iterable[Segment], *, nowait: bool = False) -> TimestampAndOffset | None:
        """`nowait`: NotCachedError instead of waiting for the disk."""
        if self.timestamp_ms is None:
            return _largest(segments, self.log_start_offset, self.below, nowait)
        return _first_at_or_after(segments, self.timestamp_ms, self.log_start_offset, nowait)


def _first_at_or_after(
    segments: Iterable[Segment], timestamp_ms: int, log_start_offset: int, nowait: bool
) -> TimestampAndOffset | None:
    """The first record, by offset, whose timestamp is not below the given one."""
    for segment in segments:
        if segment.next_offset <= log_start_offset or not segment.size_bytes:
            continue
        file = segment.file(nowait=nowait)
        if segment.indexes.max_timestamp(file)[0] < timestamp_ms:
            continue
        near = max(segment.indexes.offset_at_or_before_time(timestamp_ms, file), log_start_offset)
        for position, header in scan_verified(file, segment.place_of(near, nowait=nowait).position):
            if header.max_timestamp_ms >= timestamp_ms:
                columns = _columns(file, position, header, log_start_offset)
                found = _first_in(columns, header, timestamp_ms) if columns is not None else None
                if found is not None:
                    return found
    return None


def _largest(
    segments: Iterable[Segment], log_start_offset: int, below: int | None, nowait: bool
) -> TimestampAndOffset | None:
    """The first record with the largest timestamp, of those from the log start on and below the offset."""
    best: TimestampAndOffset | None = None
    for segment in segments:
        if segment.next_offset <= log_start_offset or not segment.size_bytes:
            continue
        if below is not None and segment.base_offset >= below:
            break
        bound = segment.next_offset if below is None else min(below, segment.next_offset)
        found = _largest_in(segment, log_start_offset, bound, nowait)
        if found is not None and (best is None or found.timestamp_ms > best.timestamp_ms):
            best = found
    return best


def _largest_in(segment: Segment, log_start_offset: int, below: int, nowait: bool) -> TimestampAndOffset | None:
    """Taken from the index. If the index's record is deleted, the batches from the log start on are read."""
    file = segment.file(nowait=nowait)
    _, offset = segment.indexes.max_timestamp_below(below, file)
    if offset >= log_start_offset:
        position, header = next(scan_verified(file, segment.place_of(offset, nowait=nowait).position))
        if header.base_offset >= log_start_offset:
            found = _largest_in_batch(file, position, header, log_start_offset)
            if found is not None:
                return found
    best: TimestampAndOffset | None = None
    for position, header in scan_verified(file, segment.place_of(log_start_offset, nowait=nowait).position):
        if header.last_offset >= below:
            break
        if header.record_count and (best is None or header.max_timestamp_ms > best.timestamp_ms):
            found = _largest_in_batch(file, position, header, log_start_offset)
            if found is not None and (best is None or found.timestamp_ms > best.timestamp_ms):
                best = found
    return best


def _largest_in_batch(
    file: LogFile, position: int, header: BatchHeader, log_start_offset: int
) -> TimestampAndOffset | None:
    """Decodes the batch: the log may start inside it, so that the record with the header's time may be deleted. A
    transaction's marker is a record with a time, as in Kafka, that readers do not decode."""
    if header.is_control:
        has_one = header.record_count > 0
        return TimestampAndOffset(header.max_timestamp_ms, header.last_offset, header.leader_epoch) if has_one else None
    columns = _columns(file, position, header, log_start_offset)
    if columns is None:
        return TimestampAndOffset(header.max_timestamp_ms, header.last_offset, header.leader_epoch)
    if header.base_offset >= log_start_offset:
        return _first_in(columns, header, header.max_timestamp_ms)
    largest_ms = max(columns.timestamps_ms, default=None)
    return _first_in(columns, header, largest_ms) if largest_ms is not None else None


def _first_in(columns: RecordColumns, header: BatchHeader, timestamp_ms: int) -> TimestampAndOffset | None:
    for found_ms, offset in zip(columns.timestamps_ms, columns.offsets, strict=True):
        if found_ms >= timestamp_ms:
            return TimestampAndOffset(found_ms, offset, header.leader_epoch)
    return None


def _columns(file: LogFile, position: int, header: BatchHeader, from_offset: int) -> RecordColumns | None:
    """The batch's records; None if they cannot be decoded."""
    try:
        return read_columns(file.read(header.size_bytes, position), from_offset=from_offset)
    except DECODING_ERRORS as error:
        what = f"the batch at offset {header.base_offset} (byte {position}) cannot be decoded"
        _log.warning("%s: %s, so a look-up by time skips it: %s", file.path, what, error)
        return None
