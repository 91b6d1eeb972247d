"""Checks the times of a produced batch: message.timestamp.before.max.ms and .after.max.ms (KIP-937).

The header's two times are checked, which costs nothing. Only if they are refused, and only for the answer, the records
are looked at: it names those whose times are out of range (KIP-467), so a producer can send the others again. Naming
unpacks the batch. The event loop does that for small ones only; a thread does it for others, before the append
(broker/apis/producing/produce_conversion.py). A batch that nobody could name the records of is refused as a whole.
"""

from __future__ import annotations

from struct import Struct

from penstock.errors import RECORD_ERRORS_MAX, ApiError, InvalidTimestampError, RecordError
from penstock.record.batch import HEADER_BYTES, BatchHeader
from penstock.record.reader import batch_body
from penstock.record.row_scan import scan_rows
from penstock.types import NO_TIMESTAMP
from storage.append.header_check import MAX_UNPACKED_BYTES
from storage.append.key_validation import takes_long
from storage.disk.file_system import Bytes
from storage.log_config import LogConfig

_TIMES_AT, _TIMES = 27, Struct(">qq")
"""The place of the base and max timestamp in a batch's header."""


def check_times(
    records: Bytes, position: int, header: BatchHeader, config: LogConfig, now_ms: int, *, may_take_long: bool
) -> None:
    """InvalidTimestampError for times out of range, with the records that have them if they can be named."""
    first, largest = header.base_timestamp_ms, header.max_timestamp_ms
    if NO_TIMESTAMP <= largest < first:
        raise InvalidTimestampError(f"the largest timestamp {largest} is below the first, {first}")
    fault = _fault(largest, config, now_ms) or _fault(first, config, now_ms)
    if fault is None:
        return
    error = InvalidTimestampError(fault)
    is_alone = position == 0 and header.size_bytes == len(records)  # an index would not say which batch it is of
    if is_alone and (may_take_long or not takes_long(((position, header),))):
        error.record_errors = _named(bytes(records), header, config, now_ms)
    raise error


def has_bad_times(records: Bytes, config: LogConfig, now_ms: int) -> bool:
    """True if the first batch's times are out of range, and naming its records takes long."""
    if len(records) < HEADER_BYTES or config.message_timestamp_type == "LogAppendTime":
        return False
    first, largest = _TIMES.unpack_from(records, _TIMES_AT)
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    return (
        first < NO_TIMESTAMP
        or (after is not None and largest > now_ms + after)
        or (before is not None and NO_TIMESTAMP < first < now_ms - before)
    )


def _fault(time_ms: int, config: LogConfig, now_ms: int) -> str | None:
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    if time_ms < NO_TIMESTAMP:
        return f"timestamp {time_ms} is negative"
    if after is not None and time_ms > now_ms + after:
        ahead_ms = time_ms - now_ms
        return f"timestamp {time_ms} is {ahead_ms} ms in the future; message.timestamp.after.max.ms = {after}"
    if before is not None and NO_TIMESTAMP < time_ms < now_ms - before:
        age_ms = now_ms - time_ms
        return f"timestamp {time_ms} is {age_ms} ms in the past; message.timestamp.before.max.ms = {before}"
    return None


def _named(data: bytes, header: BatchHeader, config: LogConfig, now_ms: int) -> tuple[RecordError, ...]:
    try:
        body, at, end = batch_body(data, 0, header, MAX_UNPACKED_BYTES)
        zigzags = scan_rows(body, at, end, header.record_count, header.last_offset_delta).time_zigzags
    except ApiError:
        return ()  # the times are what is told of it
    found: list[RecordError] = []
    for index, zigzag in enumerate(zigzags):
        fault = _fault(header.base_timestamp_ms + (zigzag >> 1 ^ -(zigzag & 1)), config, now_ms)
        if fault is not None:
            found.append(RecordError(index, fault))
            if len(found) == RECORD_ERRORS_MAX:
                break
    return tuple(found)
