"""Judges a bad byte where a good batch should be: a torn tail, which a start cuts, or rot, which it refuses.

It depends on the recovery point R, as in `recovery.py`; X is the offset that should be there:

    X < R        damage: the record was on the disk, so no crash explains it (rot)
    X >= R       warning: a torn tail, as far as can be told. The number of good batches behind it is reported, because
                 after a crash there are few, and after rot there may be many
    R not known  in the newest segment, a file that ends within a batch is a torn tail; anything else is damage

A log has at most one torn tail: everything behind the first one goes with it. Pure. `batch_walk.py` and `verify_log.py`
find bad batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from storage.recovery.recovery import LastKnown, is_cut
from storage.segment import segment_faults
from storage.segment.segment import Segment
from storage.tools.target import LogPath
from storage.tools.verify.findings import CUT, Finding, remedy_for_damage

NO_POINT = (
    "no recovery point is known here, so rot and a torn tail look the same, and a start would cut the log here: verify "
    "the log dir that it stood in"
)


class BadBytes(NamedTuple):
    """A bad byte: its place, and the fault."""

    segment: Segment
    position: int
    what: str
    is_cut_off: bool = False
    """The file ends within a batch."""


class DamageJudge:
    """Judges the bad bytes of one log; asked in the order of the log."""

    def __init__(self, log: LogPath, last_known: LastKnown, segments: Sequence[Segment]) -> None:
        self._log, self._segments = log, segments
        self._point = last_known.recovery_point
        self._remedy = remedy_for_damage(log.topic_partition)
        self._has_rot = False
        self._torn: tuple[BadBytes, int] | None = None
        self.good_after_tear = 0

    @property
    def is_torn(self) -> bool:
        """The log ends here; what follows is no part of it."""
        return self._torn is not None

    def bad(self, bad: BadBytes, offset: int | None, end: int) -> Iterator[Finding]:
        """The bad byte is at `offset`, or if that is not known, behind `end`; a torn tail is reported with `tail`."""
        if self._torn is not None:
            return
        where = end if offset is None else offset
        if not self._has_rot and self._is_tear(bad, where):
            self._torn = bad, where
            return
        self._has_rot = True
        what, remedy = bad.what, self._remedy
        if self._point is None and bad.segment is self._segments[-1]:
            remedy = f"{NO_POINT}; {remedy}"
        elif self._point is not None and where < self._point:
            what += f"; everything below offset {self._point} was flushed, so this is rot and no tear"
        yield Finding("damage", "rot", bad.segment.log_path, what, remedy, position=bad.position, offset=offset)

    def _is_tear(self, bad: BadBytes, offset: int) -> bool:
        is_newest = bad.segment is self._segments[-1]
        return is_cut(offset, self._point, is_newest=is_newest) and (self._point is not None or bad.is_cut_off)

    def tail(self, end: int) -> Iterator[Finding]:
        """The torn tail, if there is one; or what is missing although it was flushed. `end`: of the good batches."""
        if self._torn is not None:
            yield self._torn_tail(*self._torn)
            return
        what = segment_faults.flushed_fault(end, self._point or 0)
        if what is not None and not self._has_rot:
            newest = self._segments[-1] if self._segments else None
            path, position = (newest.log_path, newest.size_bytes) if newest is not None else (self._log.directory, 0)
            yield Finding("damage", "short", path, what, self._remedy, position=position, offset=end)

    def _torn_tail(self, bad: BadBytes, offset: int) -> Finding:
        behind = [s for s in self._segments if s.base_offset > bad.segment.base_offset]
        gone = bad.segment.size_bytes - bad.position + sum(segment.size_bytes for segment in behind)
        what = f"{bad.what}: a torn tail of {gone} bytes"
        if behind:
            what += f" and {len(behind)} segment{'s' if len(behind) > 1 else ''} behind it"
        if self._point is not None:
            what += f", above the recovery point {self._point}"
        if self.good_after_tear:
            what += f"; good batches follow ({self.good_after_tear}), so it may be rot"
        finding = Finding("warning", "torn-tail", bad.segment.log_path, what, CUT)
        return replace(finding, position=bad.position, offset=offset)
