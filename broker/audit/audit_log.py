"""The lines of the audit log, the logger "penstock.audit", which an operator may send elsewhere: JSON objects, begun by
the outcome.

    {"outcome":"refused","principal":"User:bob","host":"10.0.0.7",...}

Lines about what was done are all written. A caller that is refused, or fails, mostly asks again at once, and what was
only to be judged changes nothing. So of lines about that, about log-ins, and about acts that programs do all the time,
there is one for each subject in a time, and a bounded number of each kind in all; what was left out is counted, and the
next line of the kind tells it. Not here: what is told (audited_requests.py, log_ins.py, and
`broker/authorization/refusals.py`), and where lines go (`broker/node/`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Hashable, Mapping
from enum import Enum
from typing import Any, Final

from penstock.metric_fields import counter, measured
from penstock.plain_text import plain_json
from penstock.throttled_lines import SAY_INTERVAL_MS

_log = logging.getLogger("penstock.audit")

NAME_SHOWN: Final = 256
"""Characters of a text that somebody chose."""
LINES_MAX: Final = 100
"""The most lines of one kind in LINES_MS, of all subjects together."""
LINES_MS: Final = 10_000
SUBJECTS_MAX: Final = 10_000


class AuditKind(Enum):
    """Lines that share a bound, so that no flood of one kind hides another."""

    FREQUENT = "frequent act"
    CHECKED = "checked act"
    REFUSAL = "refusal"
    FAILURE = "failure"
    LOG_IN = "log-in"
    FAILED_LOG_IN = "failed log-in"


_GOOD: Final = (AuditKind.FREQUENT, AuditKind.CHECKED, AuditKind.LOG_IN)
_LINES: Final = ("penstock_audit_lines", "Lines given to the log penstock.audit.")
_LEFT_OUT: Final = (
    "penstock_audit_lines_left_out",
    "Events without a line of their own in the log penstock.audit, because there were too many like them.",
)


@measured
class AuditStatistics:
    """The counts of audit lines since the node's start."""

    lines: int = counter(*_LINES)
    frequent_requests: int = counter(*_LEFT_OUT, kind="frequent act")
    checked_requests: int = counter(*_LEFT_OUT, kind="checked act")
    refusals: int = counter(*_LEFT_OUT, kind="refusal")
    failures: int = counter(*_LEFT_OUT, kind="failure")
    log_ins: int = counter(*_LEFT_OUT, kind="log-in")
    failed_log_ins: int = counter(*_LEFT_OUT, kind="failed log-in")


class AuditLog:
    """The audit log of one node."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """`now_ms` is monotonic."""
        self._bounds = {kind: _Bound(now_ms) for kind in AuditKind}
        self._lines = 0

    def done(self, outcome: str, facts: Mapping[str, object]) -> None:
        """Something was done, or may have been."""
        self._write(logging.INFO, outcome, facts)

    def bounded(
        self, kind: AuditKind, outcome: str, subject: Hashable, facts: Callable[[], Mapping[str, object]]
    ) -> None:
        """The line of one event, unless there were too many about the subject, or of the kind."""
        left_out = self._bounds[kind].left_out_before(subject)
        if left_out is not None:
            more = {"left_out": left_out} if left_out else {}
            self._write(logging.INFO if kind in _GOOD else logging.WARNING, outcome, {**facts(), **more})

    def _write(self, level: int, outcome: str, facts: Mapping[str, object]) -> None:
        self._lines += 1
        line: dict[str, Any] = {"outcome": outcome, **facts}
        _log.log(level, "%s", plain_json(json.dumps(line, separators=(",", ":"))))  # ASCII without control characters

    def statistics(self) -> AuditStatistics:
        return AuditStatistics(self._lines, *(bound.left_out for bound in self._bounds.values()))

    def __repr__(self) -> str:
        return f"AuditLog({self._lines} lines)"


class _Bound:
    """One line of a kind about each subject in SAY_INTERVAL_MS, and LINES_MAX in LINES_MS."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._said_ms: dict[Hashable, int] = {}
        self._since_ms, self._written = now_ms(), 0
        self.left_out = self._reported_left_out = 0

    def left_out_before(self, subject: Hashable) -> int | None:
        """The number of lines that were left out since the last one; None: leave this one out, too."""
        now_ms = self._now_ms()
        if now_ms - self._since_ms >= LINES_MS:
            self._since_ms, self._written = now_ms, 0
        said_ms = self._said_ms.get(subject)
        if self._written >= LINES_MAX or (said_ms is not None and now_ms - said_ms < SAY_INTERVAL_MS):
            self.left_out += 1
            return None
        if len(self._said_ms) >= SUBJECTS_MAX:
            self._said_ms.clear()
        self._said_ms[subject] = now_ms
        self._written += 1
        unreported, self._reported_left_out = self.left_out - self._reported_left_out, self.left_out
        return unreported
