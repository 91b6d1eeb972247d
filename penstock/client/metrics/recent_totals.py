"""How much the counts of a client grew of late: the rates and the averages of its metrics. Pure.

Kafka's clients show these of the last one or two windows of 30 s. Here the totals are remembered every WINDOW_MS / 2,
at a moment at which something is counted anyway, so a count costs one comparison, and nothing is done for a record. The
growth is told since the oldest totals of the last two windows; a rate divides by one window at least, so that the first
record of a client is not a rate of thousands. Not here: the counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

WINDOW_MS: Final = 30_000
"""Kafka's `metrics.sample.window.ms`; two of them are looked at, as Kafka's `metrics.num.samples` says."""

Totals = Mapping[str, int]


class _Sample(NamedTuple):
    at_ms: int
    totals: Totals


class Growth(NamedTuple):
    """The growth of all counts over `span_ms`."""

    span_ms: int
    before: Totals
    now: Totals

    def of(self, name: str) -> int:
        return self.now[name] - self.before[name]

    def rate(self, name: str) -> float:
        """Growth in a second."""
        return self.of(name) * 1_000 / max(self.span_ms, WINDOW_MS)

    def mean(self, total: str, count: str) -> float:
        """The growth of a total for each one that was counted; 0 for none."""
        return self.of(total) / number if (number := self.of(count)) else 0.0


class RecentTotals:
    """The totals of some moments of the last two windows. One thread calls `look`, any thread calls `growth`."""

    def __init__(self) -> None:
        self._samples: tuple[_Sample, ...] = ()
        self._next_ms: float = -inf

    def look(self, now_ms: int, totals: Totals) -> None:
        """Remembers the totals if it is time to. Called BEFORE something is counted, so that a client that did nothing
        for an hour has this moment to count from."""
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + WINDOW_MS // 2
            young = (sample for sample in self._samples if now_ms - sample.at_ms < 2 * WINDOW_MS)
            self._samples = (*young, _Sample(now_ms, dict(totals)))  # a reader meanwhile has the tuple of before

    def growth(self, now_ms: int, totals: Totals) -> Growth:
        """Growth since the oldest totals of the last two windows; since the newest if all are older."""
        samples = self._samples or (_Sample(now_ms, dict(totals)),)
        oldest = next((sample for sample in samples if now_ms - sample.at_ms <= 2 * WINDOW_MS), samples[-1])
        return Growth(max(now_ms - oldest.at_ms, 0), oldest.totals, dict(totals))

    def __repr__(self) -> str:
        return f"RecentTotals({len(self._samples)} samples)"
