"""Decides when a log line about a partition is due. A failed step is tried again several times a second, and a line for
each failure would flood the log.

Pure: the caller writes the line. Not here: the other effects of a failure (`refused_appends.py`, the fetcher).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.types import TopicPartition

SAY_INTERVAL_MS = 10_000
"""Between two lines about one partition."""


class ThrottledLines:
    """Lines of one kind; at most one per partition in `SAY_INTERVAL_MS`."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._said: dict[TopicPartition, tuple[int, int]] = {}
        """When the last line was written, and how many were left out since."""

    def due(self, partition: TopicPartition) -> int | None:
        """How many lines were left out before this one; None: leave this one out, too."""
        now_ms = self._now_ms()
        said_ms, unsaid = self._said.get(partition, (now_ms - SAY_INTERVAL_MS, 0))
        if now_ms - said_ms < SAY_INTERVAL_MS:
            self._said[partition] = said_ms, unsaid + 1
            return None
        self._said[partition] = now_ms, 0
        return unsaid

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """The next line about them is due at once."""
        for partition in partitions:
            self._said.pop(partition, None)

    def __repr__(self) -> str:
        return f"ThrottledLines({len(self._said)} partitions)"
