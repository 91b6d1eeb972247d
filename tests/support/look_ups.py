"""Look-ups by time in a log, as a broker makes them: at once, or with the help of a thread (not needed here)."""

from __future__ import annotations

from penstock.types import TimestampAndOffset
from storage.log.log import Log
from storage.log.log_reader import ColdLookUp
from storage.segment.timestamp_lookup import LOOK_UP_LIMITS, LookUpLimits, TimeLookUp


def offset_for_timestamp(log: Log, timestamp_ms: int) -> TimestampAndOffset | None:
    """The first record at or after the time; None when there is none."""
    return _found(log, TimeLookUp(log.log_start_offset, timestamp_ms))


def max_timestamp(
    log: Log, below: int | None = None, limits: LookUpLimits = LOOK_UP_LIMITS
) -> TimestampAndOffset | None:
    """The first record with the largest timestamp, of all or of those below an offset."""
    return _found(log, TimeLookUp(log.log_start_offset, None, below, limits))


def _found(log: Log, wanted: TimeLookUp) -> TimestampAndOffset | None:
    found = log.reader.look_up_nowait(wanted)
    while isinstance(found, ColdLookUp):
        found.run()
        found = log.reader.finish_look_up(found, log.log_start_offset)
    return found
