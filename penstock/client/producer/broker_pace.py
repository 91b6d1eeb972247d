"""Decides when a small request may go to a broker that has not answered the one before.

On a quick link waiting for the answer costs next to nothing, and larger batches cost everybody less. On a link that is
slow by itself the wait only makes records late. What tells the two apart is the shortest answer of the last seconds to
a small request: answers that take much longer have waited for something, so the broker, or this client, is busy. Pure.
"""

from __future__ import annotations

SLOW_ANSWER_MS = 15
"""A link is slow if even its shortest answer takes this long."""
REQUESTS_PER_ANSWER = 3
"""How many requests go out, evenly, in the time of the shortest answer. This saves most of what waiting costs, and
leaves some of the five requests that may be on their way for full batches."""
BUSY = 1.5
"""The broker or the link is busy when an answer takes this many times the shortest one."""
SMALL_REQUEST_BYTES = 64 * 1024
"""Larger requests take their time by themselves, and gain little by being sent earlier."""
WINDOW_MS = 10_000
"""The shortest answer counts for one to two windows: a link may become slower, or a broker's disk."""


class BrokerPace:
    """The pace of one broker's answers."""

    __slots__ = ("_before_ms", "_last_ms", "_now_ms", "_sent_bytes", "_sent_ms", "_since_ms")

    def __init__(self) -> None:
        self._now_ms: int | None = None  # the shortest answer of this window
        self._before_ms: int | None = None  # and of the one before
        self._since_ms = 0
        self._last_ms = 0
        self._sent_ms = 0
        self._sent_bytes = 0

    def on_sent(self, request_bytes: int, now_ms: int) -> None:
        self._sent_bytes, self._sent_ms = request_bytes, now_ms

    def on_answer(self, request_bytes: int, answer_ms: int, now_ms: int) -> None:
        """Notes an answer and the time that it took."""
        self._last_ms = answer_ms
        if request_bytes > SMALL_REQUEST_BYTES:
            return
        if now_ms - self._since_ms >= WINDOW_MS:
            self._before_ms, self._now_ms, self._since_ms = self._now_ms, None, now_ms
        self._now_ms = answer_ms if self._now_ms is None else min(self._now_ms, answer_ms)

    @property
    def shortest_ms(self) -> int:
        """0 when nothing is known."""
        return min((ms for ms in (self._before_ms, self._now_ms) if ms is not None), default=0)

    def next_ms(self, oldest_sent_ms: int, now_ms: int) -> int | None:
        """When a further request may go out; None: after the next answer. `oldest_sent_ms`: of what is on its way."""
        shortest_ms = self.shortest_ms
        if shortest_ms < SLOW_ANSWER_MS or self._sent_bytes > SMALL_REQUEST_BYTES:
            return None
        if max(self._last_ms, now_ms - oldest_sent_ms) > BUSY * shortest_ms:
            return None
        return self._sent_ms + shortest_ms // REQUESTS_PER_ANSWER

    def __repr__(self) -> str:
        return f"BrokerPace(shortest_ms={self.shortest_ms}, last_ms={self._last_ms})"
