"""The past ends of logs, in few samples: when was the record at an offset written, at the latest?

A coordinator has no records of most partitions whose offsets it holds, so it remembers how far a log reached when it
looked. A log has SAMPLES_MAX samples. When they are full, every second one is dropped: a time in the past is known to
about a quarter of how long ago it is, or to the time between two looks. Pure.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final

from penstock.types import TopicPartition

SAMPLES_MAX: Final = 16
LOGS_MAX: Final = 10_000
"""Each costs about 600 bytes. Partitions above it have a lag, but no time."""


class EndHistory:
    """The ends of one log, and when each was first seen; both ascend."""

    __slots__ = ("_ends", "_times_ms")

    def __init__(self) -> None:
        self._ends, self._times_ms = array("q"), array("q")

    def saw(self, end: int, now_ms: int) -> None:
        """The log ends there now. An end that went back (the log lost records) forgets what was behind it."""
        while self._ends and self._ends[-1] > end:
            self._ends.pop()
            self._times_ms.pop()
        if self._ends and self._ends[-1] == end:
            return
        if len(self._ends) == SAMPLES_MAX:
            self._ends, self._times_ms = self._ends[1::2], self._times_ms[1::2]
        self._ends.append(end)
        self._times_ms.append(now_ms)

    def written_ms(self, offset: int) -> int | None:
        """The time at which the log was first seen to have the record at the offset; None if it does not have it."""
        at = bisect_right(self._ends, offset)
        return self._times_ms[at] if at < len(self._ends) else None

    def since(self, ms: int) -> int:
        """How many records the log has been seen to get since then, at the least."""
        before = max(0, bisect_right(self._times_ms, ms) - 1)
        return self._ends[-1] - self._ends[before] if self._ends else 0

    def __len__(self) -> int:
        return len(self._ends)

    def __repr__(self) -> str:
        return f"EndHistory({len(self)} samples)"


class EndHistories:
    """The histories of all logs that groups read. A log that a whole pass did not look at is forgotten."""

    def __init__(self) -> None:
        self._kept: dict[TopicPartition, EndHistory] = {}
        self._seen: dict[TopicPartition, EndHistory] = {}

    def saw(self, tp: TopicPartition, end: int, now_ms: int) -> EndHistory | None:
        """The history of a log, which ends there now; None where there are too many."""
        history = self._seen.get(tp)
        if history is None:
            if len(self._seen) >= LOGS_MAX:
                return None
            history = self._seen[tp] = self._kept.get(tp) or EndHistory()
            history.saw(end, now_ms)
        return history

    def pass_ended(self) -> None:
        self._kept, self._seen = self._seen, {}

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"EndHistories({len(self)})"
