"""Finds records by time: the first at or after a timestamp, and the largest (ListOffsets, KIP-79, KIP-734).

The time indexes lead to a segment and near a batch, headers lead to the batch, and that batch is decoded for the
record. Every batch that is read is checked, because no reader checks it after this. A look-up by time skips the records
of a batch that cannot be decoded (`DECODING_ERRORS`). The largest time is a header's, as in Kafka; its batch is decoded
for the offset. The segments are given oldest first. The broker knows the high watermark, below which a consumer is
answered.

A producer writes a header as it likes: it can promise a time that no record has, and a body of some KB can unpack to
many MiB. And behind a batch that is ahead of its time the time index has no entry until others catch up, so a walk over
headers may be as long as the segment. So the work of one look-up is limited (`_Work`). At a limit, a look-up by time is
answered with the first offset of the batch at which it stopped: no record before it is late enough, so a reader that
begins there misses none. The largest time is then that of the batches which were looked at, with the last offset of
its batch if that was not decoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.errors import MessageTooLargeError
from penstock.lazy_dataclass import dataclass
from penstock.record.batch import BatchHeader
from penstock.record.codecs import Codec
from penstock.record.decoding import DECODING_ERRORS
from penstock.record.reader import DEFAULT_MAX_DECOMPRESSED_BYTES, RecordColumns, batch_body, columns_of_batch
from penstock.types import TimestampAndOffset
from storage.segment.batch_scan import LogFile, NotCachedError, scan_verified
from storage.segment.segment import Segment

LOOP_BYTES_MAX = 16 * 1024
"""The event loop decodes one uncompressed batch of this size at most: a fraction of a millisecond."""
VAIN_BATCHES_MAX = 16
"""Batches of one look-up that promise a time which none of their records has. It looks into no more segments than that
in vain, because each that it looks into has such a promise (or the time of a marker of transactions)."""


@dataclass(frozen=True, slots=True)
class LookUpLimits:
    """The work of one look-up."""

    records: int = 500_000
    """Records that are decoded: half a second, and some 50 MB."""
    unpacked_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
    """Bytes that are unpacked: those of the largest batch that a reader accepts."""
    headers: int = 20_000
    """Batches that are walked over behind the entries of the time index: less than 0.1 s."""
    walked_bytes: int = 256 * 1024 * 1024
    """Bytes of these batches, which are all checked: about as long, where they need not be read from the disk."""


LOOK_UP_LIMITS = LookUpLimits()
RECORD_US, HEADER_US = 1, 5
"""The processor time of one record that is decoded, and of one batch that is walked over."""


class LookUpNotes:
    """A look-up's work so far, and a text for each batch that it could not decode."""

    __slots__ = ("spent_us", "undecodable")

    def __init__(self) -> None:
        self.undecodable: list[str] = []
        self.spent_us = 0
        """Counted by records and batches, so it is the same on every machine."""


class _Batch(NamedTuple):
    header: BatchHeader
    data: bytes
    where: str


class _SpentError(Exception):
    """A limit of the look-up is reached."""


class _Work:
    """The limits that are left of one look-up."""

    __slots__ = (
        "headers",
        "limits",
        "notes",
        "nowait",
        "records",
        "unpacked_bytes",
        "vain_batches",
        "walked_bytes",
    )

    def __init__(self, nowait: bool, notes: LookUpNotes, limits: LookUpLimits) -> None:
        self.nowait, self.notes, self.limits = nowait, notes, limits
        self.records, self.unpacked_bytes, self.vain_batches = limits.records, limits.unpacked_bytes, VAIN_BATCHES_MAX
        self.headers, self.walked_bytes = limits.headers, limits.walked_bytes

    def goes_on(self, header: BatchHeader) -> bool:
        """A batch is walked over; False once that is too much work."""
        self.headers -= 1
        self.notes.spent_us += HEADER_US
        self.walked_bytes -= header.size_bytes
        return self.headers >= 0 and self.walked_bytes >= 0

    def read(self, file: LogFile, position: int, header: BatchHeader) -> _Batch:
        """The bytes of a batch; NotCachedError on the loop for one that takes long to decode."""
        if self.nowait and (header.codec != Codec.NONE or header.size_bytes > LOOP_BYTES_MAX):
            raise NotCachedError
        where = f"{file.path}: the batch at offset {header.base_offset} (byte {position})"
        return _Batch(header, file.read(header.size_bytes, position), where)

    def decode(self, batch: _Batch) -> RecordColumns | None:
        """The records of the batch; None if they cannot be decoded. _SpentError if that would be too much work."""
        header = batch.header
        if header.record_count > self.records or not self.vain_batches:
            raise _SpentError
        self.records -= header.record_count
        self.notes.spent_us += RECORD_US * header.record_count
        try:
            body, at, end = batch_body(batch.data, 0, header, self.unpacked_bytes)
            self.unpacked_bytes = max(self.unpacked_bytes - (end - at), 0)
            return columns_of_batch(body, at, end, header)
        except DECODING_ERRORS as error:
            if isinstance(error, MessageTooLargeError) and self.unpacked_bytes < self.limits.unpacked_bytes:
                raise _SpentError from error
            self.notes.undecodable.append(f"{batch.where} cannot be decoded: {error}")
            return None

    def was_vain(self) -> None:
        """The batch did not have what its header promised. A thread looks further."""
        if self.nowait:
            raise NotCachedError
        self.vain_batches -= 1


@dataclass(frozen=True, slots=True)
class TimeLookUp:
    """A request: the first record at or after `timestamp_ms`, or with None the record with the largest time. It counts
    only records from the log start on and, for the largest time, below an offset."""

    log_start_offset: int
    timestamp_ms: int | None = None
    below: int | None = None
    limits: LookUpLimits = LOOK_UP_LIMITS

    def find(
        self, segments: Iterable[Segment], *, nowait: bool = False, notes: LookUpNotes | None = None
    ) -> TimestampAndOffset | None:
        """`nowait`: NotCachedError instead of waiting for the disk, or of much work."""
        work = _Work(nowait, notes or LookUpNotes(), self.limits)
        if self.timestamp_ms is None:
            return _largest(segments, self.log_start_offset, self.below, work)
        return _first_at_or_after(segments, self.timestamp_ms, self.log_start_offset, work)


def _first_at_or_after(
    segments: Iterable[Segment], timestamp_ms: int, log_start_offset: int, work: _Work
) -> TimestampAndOffset | None:
    """The first record, by offset, whose timestamp is not below the given one."""
    for segment in segments:
        if segment.next_offset <= log_start_offset or not segment.size_bytes:
            continue
        file = segment.file(nowait=work.nowait)
        if segment.indexes.max_timestamp(file)[0] < timestamp_ms:
            continue
        near = max(segment.indexes.offset_at_or_before_time(timestamp_ms, file), log_start_offset)
        for position, header in scan_verified(file, segment.place_of(near, nowait=work.nowait).position):
            if not work.goes_on(header):
                return TimestampAndOffset(timestamp_ms, max(header.base_offset, log_start_offset), header.leader_epoch)
            if header.max_timestamp_ms < timestamp_ms or header.is_control or not header.record_count:
                continue
            try:
                columns = work.decode(work.read(file, position, header))
            except _SpentError:
                begin = max(header.base_offset, log_start_offset)
                return TimestampAndOffset(header.max_timestamp_ms, begin, header.leader_epoch)
            found = _first_in(columns, header, timestamp_ms, log_start_offset) if columns is not None else None
            if found is not None:
                return found
            work.was_vain()
    return None


class _Candidate(NamedTuple):
    """The largest time so far: a record, or a whole batch by its header."""

    timestamp_ms: int
    found: TimestampAndOffset | None = None
    batch: _Batch | None = None


_NONE = _Candidate(-(2**63))


def _largest(
    segments: Iterable[Segment], log_start_offset: int, below: int | None, work: _Work
) -> TimestampAndOffset | None:
    """The first record with the largest timestamp, of those from the log start on and below the offset."""
    best = _NONE
    for segment in segments:
        if segment.next_offset <= log_start_offset or not segment.size_bytes:
            continue
        if below is not None and segment.base_offset >= below:
            break
        bound = segment.next_offset if below is None else min(below, segment.next_offset)
        best = _largest_in(segment, log_start_offset, bound, best, work)
    return _decoded(best.batch, work) if best.batch is not None else best.found


def _largest_in(segment: Segment, log_start_offset: int, below: int, best: _Candidate, work: _Work) -> _Candidate:
    """Taken from the index. If its record is deleted or compacted, the headers from the log start on are read."""
    file = segment.file(nowait=work.nowait)
    largest_ms, offset = segment.indexes.max_timestamp_below(below, file)
    if offset >= 0 and largest_ms <= best.timestamp_ms:
        return best
    if offset >= log_start_offset:
        position, header = next(scan_verified(file, segment.place_of(offset, nowait=work.nowait).position))
        if header.base_offset >= log_start_offset and header.record_count:
            return _Candidate(header.max_timestamp_ms, batch=work.read(file, position, header))
    for position, header in scan_verified(file, segment.place_of(log_start_offset, nowait=work.nowait).position):
        if header.last_offset >= below or not work.goes_on(header):
            break
        if header.record_count and header.max_timestamp_ms > best.timestamp_ms:
            candidate = _Candidate(header.max_timestamp_ms, batch=work.read(file, position, header))
            if header.base_offset < log_start_offset:
                candidate = _rest_of(candidate, log_start_offset, work)
            best = max(best, candidate, key=lambda one: one.timestamp_ms)
    return best


def _rest_of(candidate: _Candidate, log_start_offset: int, work: _Work) -> _Candidate:
    """The log starts inside this batch: the record with its largest time may be deleted."""
    assert candidate.batch is not None
    header = candidate.batch.header
    try:
        columns = work.decode(candidate.batch)
    except _SpentError:
        columns = None
    if columns is None:
        return _Candidate(header.max_timestamp_ms, _last_of(header))
    kept = (ms for ms, at in zip(columns.timestamps_ms, columns.offsets, strict=True) if at >= log_start_offset)
    largest_ms = max(kept, default=None)
    if largest_ms is None:
        return _NONE
    return _Candidate(largest_ms, _first_in(columns, header, largest_ms, log_start_offset))


def _decoded(batch: _Batch, work: _Work) -> TimestampAndOffset:
    """The first record that has its batch's largest time; the last of a batch that does not show it."""
    header = batch.header
    if header.is_control:
        return _last_of(header)
    try:
        columns = work.decode(batch)
    except _SpentError:
        columns = None
    found = _first_in(columns, header, header.max_timestamp_ms, header.base_offset) if columns is not None else None
    return found if found is not None else _last_of(header)


def _last_of(header: BatchHeader) -> TimestampAndOffset:
    return TimestampAndOffset(header.max_timestamp_ms, header.last_offset, header.leader_epoch)


def _first_in(
    columns: RecordColumns, header: BatchHeader, timestamp_ms: int, from_offset: int
) -> TimestampAndOffset | None:
    for found_ms, offset in zip(columns.timestamps_ms, columns.offsets, strict=True):
        if found_ms >= timestamp_ms and offset >= from_offset:
            return TimestampAndOffset(found_ms, offset, header.leader_epoch)
    return None
