"""Decides when a log line about a partition, a log dir, a client or a kind of records is due: one rule for clients and
for nodes. A failed step is tried again several times a second, and a stranger repeats what it likes without end: a line
for each time would flood the log.

Pure: the caller writes the line. Not here: the other effects of a failure (`broker/replication/refused_appends.py`, the
fetcher), and lines that are equal to the letter (`broker/node/process/log_output.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final

SAY_INTERVAL_MS = 30_000
"""The time between two lines about one subject; as long as the node's log waits before it repeats any line."""
CLIENTS_SUBJECTS_MAX: Final = 50
"""Subjects that clients choose, and so lines about them in SAY_INTERVAL_MS."""
_OTHERS: Final = object()
"""The subject of all for which there is no place."""


class ThrottledLines:
    """Lines of one kind; at most one per subject in `SAY_INTERVAL_MS`."""

    def __init__(self, now_ms: Callable[[], int], subjects_max: int | None = None) -> None:
        """`subjects_max` subjects are told apart, and the others count as one; None where the subjects are the node's
        own partitions, log dirs or limits."""
        self._now_ms, self._subjects_max = now_ms, subjects_max
        self._said: dict[Hashable, tuple[int, int]] = {}
        """The time at which the last line of a subject was written, and how many were left out since."""

    def due(self, subject: Hashable) -> str | None:
        """The line's addition about those that were left out before it; None: leave this one out, too."""
        left_out = self.left_out(subject)
        if left_out is None:
            return None
        return f" ({left_out} more times since the last such line)" if left_out else ""

    def left_out(self, subject: Hashable) -> int | None:
        """The count of lines that were left out before this one; None: leave this one out, too."""
        now_ms = self._now_ms()
        subject = self._subject(subject, now_ms)
        said_ms, unsaid = self._said.get(subject, (now_ms - SAY_INTERVAL_MS, 0))
        if now_ms - said_ms < SAY_INTERVAL_MS:
            self._said[subject] = said_ms, unsaid + 1
            return None
        self._said[subject] = now_ms, 0
        return unsaid

    def _subject(self, subject: Hashable, now_ms: int) -> Hashable:
        if self._subjects_max is None or subject in self._said or len(self._said) < self._subjects_max:
            return subject
        self._said = {one: said for one, said in self._said.items() if now_ms - said[0] < SAY_INTERVAL_MS}
        return subject if len(self._said) < self._subjects_max else _OTHERS

    def forget(self, subjects: Iterable[Hashable]) -> None:
        """The next line about them is due at once."""
        for subject in subjects:
            self._said.pop(subject, None)

    def __repr__(self) -> str:
        return f"ThrottledLines({len(self._said)} subjects)"
