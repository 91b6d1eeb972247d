"""The port by which the core of one led partition has markers sent (`MarkerPort`), from the lead's begin to its end.

A transaction is ended in the log when all its markers are written: the core is told `MarkersWritten` until it confirms.
Where nobody knows whether a decision is committed, the core is asked for its markers again. Both are asked again after
an error, while the partition is led. Not here: the leaders of partitions (marker_sender.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from broker.replication.hosting.role_news import Lead
from broker.transactions.coordinator.marker_sender import MarkerSender
from broker.transactions.coordinator.sent_end import SentEnd
from broker.transactions.marker_port import MarkersWritten, SendMarkersAgain, TransactionEnd
from penstock.backoff import Backoff
from penstock.errors import ApiError

Submit = Callable[[Callable[[Any], None], Any], None]
"""Gives the shard of the lead a request; the first argument takes its answer."""
_Key = tuple[str, int, int, int]


class LedMarkers:
    """The `MarkerPort` of one led partition. Used on the event loop."""

    def __init__(
        self, lead: Lead, sender: MarkerSender, submit: Submit, now_ms: Callable[[], int], backoff: Backoff
    ) -> None:
        self._epoch, self._sender, self._submit = lead.leader_epoch, sender, submit
        self._now_ms, self._backoff = now_ms, backoff
        self._sent: dict[_Key, SentEnd] = {}
        """The ends whose markers are sent, each until the end is in the log."""
        self._asking: set[_Key] = set()
        self._waiting: set[asyncio.TimerHandle] = set()
        self._is_closed = False

    def send(self, end: TransactionEnd) -> None:
        key = _key(end)
        if key not in self._sent and not self._is_closed:
            request = MarkersWritten(*key)
            stamp_ms = self._sender.stamp_ms(end.decided_ms)
            sent = self._sent[key] = SentEnd(
                end, self._epoch, stamp_ms, self._now_ms(), lambda: self._tell(request, lambda: self._ended(key))
            )
            self._sender.send(sent)

    def ask_again(self, end: TransactionEnd) -> None:
        key = _key(end)
        if key not in self._asking and not self._is_closed:
            self._asking.add(key)
            self._later(1, SendMarkersAgain(*key), lambda: self._asking.discard(key))

    def _ended(self, key: _Key) -> None:
        self._sent.pop(key, None)

    def _tell(self, request: Any, done: Callable[[], None], attempt: int = 1) -> None:
        if self._is_closed:
            return

        def answered(answer: Any) -> None:
            if isinstance(answer, ApiError):
                self._later(attempt, request, done)
            else:
                done()

        self._submit(answered, request)

    def _later(self, attempt: int, request: Any, done: Callable[[], None]) -> None:
        if self._is_closed:
            return

        def again() -> None:
            self._waiting.discard(handle)
            self._tell(request, done, attempt + 1)

        handle = asyncio.get_running_loop().call_later(self._backoff.wait_ms(attempt) / 1000, again)
        self._waiting.add(handle)

    def close(self) -> None:
        """The lead is over."""
        self._is_closed = True
        for handle in self._waiting:
            handle.cancel()
        for sent in self._sent.values():
            self._sender.withdraw(sent)
        self._waiting, self._sent, self._asking = set(), {}, set()

    def __repr__(self) -> str:
        return f"LedMarkers(epoch {self._epoch}, {len(self._sent)} transactions)"


def _key(end: TransactionEnd) -> _Key:
    return end.transactional_id, end.producer_id, end.producer_epoch, end.decided_ms
