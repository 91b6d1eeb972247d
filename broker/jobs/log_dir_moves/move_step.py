"""Decides what a copy of a log needs next to become equal to the log.

The copy follows the log as a follower follows its leader: by epochs (KIP-101), because the log may be truncated, start
over, or lose its oldest records while it is copied. Pure. Performing it, and when: `move_copy.py`.
"""

from __future__ import annotations

from penstock.epochs import diverging_epoch, truncation_offset
from penstock.lazy_dataclass import dataclass
from penstock.types import EpochEntry
from storage.log.log import Log


@dataclass(frozen=True, slots=True)
class LogState:
    """Where a log starts and ends on its disk, and its history."""

    start: int
    """The first offset that is read from a segment there: no copy of a segment has more."""
    end: int
    epochs: tuple[EpochEntry, ...]

    @classmethod
    def of(cls, log: Log) -> LogState:
        return cls(log.local_log_start_offset, log.log_end_offset, log.epoch_entries)


@dataclass(frozen=True, slots=True)
class StartCopyOver:
    """Drop every record of the copy; its next record has this offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class TruncateCopy:
    """Cut the copy at this offset: the log has another history from there on."""

    offset: int


@dataclass(frozen=True, slots=True)
class AdvanceStart:
    """The log starts here by now."""

    offset: int


@dataclass(frozen=True, slots=True)
class CopyFrom:
    """Append the log's batches from this offset on."""

    offset: int


Step = StartCopyOver | TruncateCopy | AdvanceStart | CopyFrom


def next_step(log: LogState, copy: LogState) -> Step | None:
    """The next step of the copy; None if it has every record of the log, and no other."""
    if copy.end < log.start:
        return StartCopyOver(log.start)
    newest = copy.epochs[-1].epoch if copy.epochs else -1
    diverging = diverging_epoch(log.epochs, log.end, copy.end, newest)
    if diverging is not None or copy.end > log.end:
        cut = log.end if diverging is None else truncation_offset(copy.epochs, copy.end, diverging)
        return TruncateCopy(cut) if log.start < cut < copy.end else StartCopyOver(log.start)
    if copy.start < log.start:
        return AdvanceStart(log.start)
    return CopyFrom(copy.end) if copy.end < log.end else None
