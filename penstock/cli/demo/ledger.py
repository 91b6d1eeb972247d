"""Counts, by partition, what the demo has sent and what was acked; the stream's and the client's threads report it.

It answers three questions. How far is the stream? (Faults happen in mid-stream.) When did a partition ack again after
its leader was killed? (Only the ack of a record *sent after* the kill counts: an older ack may have been on its way
when the node died.) May the stream go on? (It slows down before the next fault, and stops at the first failure.)
Methods may be called in any thread; none does I/O.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.errors import PenstockError, TimedOutError


class Sent(NamedTuple):
    """Lines of one partition that were sent together."""

    partition: int
    size_bytes: int
    sent_at: float


class Ledger:
    """Bytes planned, sent and acked; see the module."""

    def __init__(self, planned_bytes: Mapping[int, int]) -> None:
        self._changed = threading.Condition()
        self._planned_bytes = dict(planned_bytes)
        self._acked_bytes: Counter[int] = Counter()
        self._sent_bytes = 0
        self._limit_bytes = math.inf
        self._failure: BaseException | None = None
        self._watched_since = 0.0
        self._watched: dict[int, float | None] = {}

    def __repr__(self) -> str:
        acked = sum(self._acked_bytes.values())
        return f"Ledger(acked {acked} of {self.total_bytes} bytes, {len(self._planned_bytes)} partitions)"

    @property
    def total_bytes(self) -> int:
        return sum(self._planned_bytes.values())

    def left_bytes(self) -> dict[int, int]:
        """By partition, the bytes that are not acked yet."""
        with self._changed:
            return {p: planned - self._acked_bytes[p] for p, planned in self._planned_bytes.items()}

    # -- the stream ----------------------------------------------------------------------------------------------------

    def on_sent(self, size_bytes: int) -> None:
        """Handed to the producer."""
        with self._changed:
            self._sent_bytes += size_bytes

    def on_acked(self, sent: Sent) -> None:
        """On stable storage on every in-sync replica."""
        now = time.monotonic()
        with self._changed:
            self._acked_bytes[sent.partition] += sent.size_bytes
            if sent.sent_at > self._watched_since and self._watched.get(sent.partition, 0) is None:
                self._watched[sent.partition] = now
            self._changed.notify_all()

    def fail(self, failure: BaseException) -> None:
        """The first failure ends the stream and every wait."""
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    def wait_turn(self, pause_s: float) -> bool:
        """True: send at full speed. False, after `pause_s`: at the limit, but a watched partition needs a record."""
        with self._changed:
            while not self._failure:
                if self._sent_bytes < self._limit_bytes:
                    return True
                self._changed.wait(pause_s)
                if None in self._watched.values():
                    return False
            raise self._failure

    # -- the faults ----------------------------------------------------------------------------------------------------

    def set_limit(self, fraction: float) -> None:
        """The stream slows down at this part of the whole until the limit is raised; 1 lifts it."""
        with self._changed:
            self._limit_bytes = fraction * self.total_bytes if fraction < 1 else math.inf
            self._changed.notify_all()

    def wait_acked(self, fraction: float) -> None:
        """Returns when this part of the whole is acked. If the stream stands still, the producer's time-out ends it."""
        wanted = fraction * self.total_bytes
        self._wait(lambda: sum(self._acked_bytes.values()) >= wanted, None, f"{fraction:.0%} of the text acked")

    def watch(self, partitions: set[int]) -> None:
        """For each of these partitions, wait for the ack of a record that is sent after this call."""
        with self._changed:
            self._watched_since = time.monotonic()
            self._watched = dict.fromkeys(partitions)
            self._changed.notify_all()

    def wait_acked_again(self, timeout_s: float) -> dict[int, float]:
        """When each watched partition acked again; partitions without a record left are not in the answer."""
        self._wait(self._all_acked_again, timeout_s, "an ack from every partition of the killed leader")
        with self._changed:
            found = {p: at for p, at in self._watched.items() if at is not None}
            self._watched = {}
            return found

    def _all_acked_again(self) -> bool:
        return all(
            at is not None or self._acked_bytes[p] >= self._planned_bytes.get(p, 0) for p, at in self._watched.items()
        )

    def _wait(self, holds: Callable[[], bool], timeout_s: float | None, what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._failure is not None or holds(), timeout_s):
                raise TimedOutError(f"waited {timeout_s} s for {what}; {self!r}")
            if self._failure is not None:
                raise PenstockError(f"the stream has failed: {self._failure}") from self._failure
