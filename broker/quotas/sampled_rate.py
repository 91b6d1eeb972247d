"""A rate over the last windows, and how long its owner must wait when it is too high: Kafka's throttle time.

The rate is that since the oldest window that is remembered, one window at least, as in Kafka's `SimpleRate`. Its `Rate`
would reckon as if all windows had been there from the start: a client could then take the quota of ten seconds at once,
and again each time that this window is forgotten, which is 10 % more than its quota over 30 s. Source: Kafka's
org.apache.kafka.common.metrics.stats.SimpleRate, and QuotaUtils.throttleTime.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from penstock.lazy_dataclass import dataclass

THROTTLE_MS_MAX: Final = 3_600_000
"""Nobody is told to wait longer at a time: a quota may be a mistake, and clients wait as long as they were told, also
when it is corrected. Kafka's protocol has 32 bits for it."""


class QuotaWindows(NamedTuple):
    """`quota.window.num` and `quota.window.size.seconds`."""

    number: int = 11
    size_ms: int = 1_000

    @property
    def whole_ms(self) -> int:
        return self.number * self.size_ms


@dataclass(slots=True)
class _Sample:
    """The sum of one window."""

    start_ms: int
    sum: float = 0.0


class SampledRate:
    """The rate of one owner."""

    __slots__ = ("_samples", "_sum", "_windows")

    def __init__(self, windows: QuotaWindows) -> None:
        self._windows = windows
        self._samples: deque[_Sample] = deque()
        """The oldest first."""
        self._sum = 0.0

    def record(self, value: float, now_ms: int) -> None:
        self._purge(now_ms)
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._windows.size_ms:
            samples.append(_Sample(now_ms))
        samples[-1].sum += value
        self._sum += value

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """The time to take nothing, so that the rate is the limit again, THROTTLE_MS_MAX at most; 0 if it is not above.
        `limit` is a second's, above 0."""
        self._purge(now_ms)
        window_ms = self._window_ms(now_ms)
        excess = self._sum / (window_ms / 1_000) - limit
        return round(min(excess / limit * window_ms, THROTTLE_MS_MAX)) if excess > 0 else 0

    def per_second(self, now_ms: int) -> float:
        self._purge(now_ms)
        return self._sum / (self._window_ms(now_ms) / 1_000)

    def _window_ms(self, now_ms: int) -> int:
        """The time over which the sum counts."""
        return max(self._windows.size_ms, now_ms - self._samples[0].start_ms if self._samples else 0)

    def _purge(self, now_ms: int) -> None:
        samples, oldest_ms = self._samples, now_ms - self._windows.whole_ms
        while samples and samples[0].start_ms <= oldest_ms:
            self._sum -= samples.popleft().sum
        if not samples:
            self._sum = 0.0  # no rounding error outlives its samples

    def __repr__(self) -> str:
        return f"SampledRate({self._sum:.0f} in {len(self._samples)} windows)"
