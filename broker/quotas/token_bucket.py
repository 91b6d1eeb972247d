"""A bucket of tokens that fills with time, for work that comes in bursts: Kafka's `TokenBucket` (KIP-599).

A request that finds a token may take more than there are; its owner then waits until none is missing, but no longer
than for THROTTLE_MS_MAX.
"""

from __future__ import annotations

from math import ceil

from broker.quotas.sampled_rate import THROTTLE_MS_MAX, QuotaWindows


class TokenBucket:
    """The tokens of one owner. It is full at first."""

    __slots__ = ("_now_ms", "_rate", "_tokens", "_windows")

    def __init__(self, windows: QuotaWindows) -> None:
        self._windows = windows
        self._tokens = self._rate = 0.0
        self._now_ms = 0

    def take(self, tokens: float, rate: float, now_ms: int) -> int:
        """How long to take no more (ms). `rate` is the tokens of a second, above 0."""
        burst = rate * self._windows.whole_ms / 1_000
        filled = self._tokens + rate * (now_ms - self._now_ms) / 1_000 if self._rate else burst
        self._tokens = max(min(burst, filled) - tokens, -rate * (THROTTLE_MS_MAX / 1_000))
        self._rate, self._now_ms = rate, now_ms
        return ceil(-self._tokens / rate * 1_000) if self._tokens < 0 else 0

    def give_back(self, tokens: float) -> None:
        """Gives tokens back that were taken and not used."""
        self._tokens += tokens

    def __repr__(self) -> str:
        return f"TokenBucket({self._tokens:.1f} tokens)"
