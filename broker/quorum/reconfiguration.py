"""Gives the replicas of topics their new settings in slices of the event loop's time.

One value for all brokers may concern every replica that this broker hosts, and 10,000 of them take half a second.
Replicas that do not fit in this slice wait for the next; in between the loop is free for as long as a slice took. A few
hundred replicas have their settings before `submit` returns.

A replica gets, when its turn comes, the settings of the newest metadata. Roles never wait here: metadata_publisher.py
applies them at once, with the newest settings. An error in a step ends the node through `on_fatal`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

SLICE_MS = 20
"""A request that arrives during a slice waits about as long as it. At least one replica has its turn in each slice."""


class Reconfiguration:
    """The topics whose replicas are still to get their settings. All methods are called on the event loop."""

    def __init__(
        self,
        steps: Callable[[str], Iterator[None]],
        now_ms: Callable[[], int],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """`steps(topic_id)` gives one replica its settings in each step."""
        self._steps = steps
        self._now_ms = now_ms
        self._on_fatal = on_fatal
        self._waiting: dict[str, None] = {}
        self._current: tuple[str, Iterator[None]] | None = None
        self._is_due = False
        """True if the next slice is under way, or the loop will begin it."""
        self._stopped = False

    def submit(self, topic_ids: Iterable[str]) -> None:
        """The settings of these topics changed; one that is under way begins anew."""
        self._waiting.update(dict.fromkeys(topic_ids))
        if self._current is not None and self._current[0] in self._waiting:
            self._current = None
        if not self._is_due and not self._stopped:
            self._slice()

    def stop(self) -> None:
        """No replica gets settings any more; the next start gives them."""
        self._stopped = True
        self._waiting.clear()
        self._current = None

    def _slice(self) -> None:
        began_ms = self._now_ms()
        self._is_due = True
        try:
            while self._step() and self._now_ms() - began_ms < SLICE_MS:
                pass
        except Exception as error:
            self.stop()
            self._on_fatal(error)
        self._is_due = bool(self._waiting) or self._current is not None
        if self._is_due:
            asyncio.get_running_loop().call_later((self._now_ms() - began_ms) / 1000, self._slice)

    def _step(self) -> bool:
        """Does one step; False if nothing was left to do."""
        if self._current is None:
            topic_id = next(iter(self._waiting), None)
            if topic_id is None:
                return False
            del self._waiting[topic_id]
            self._current = topic_id, self._steps(topic_id)
        _, steps = self._current
        if next(steps, self) is self:
            self._current = None
        return True

    def __len__(self) -> int:
        return len(self._waiting) + (self._current is not None)

    def __repr__(self) -> str:
        return f"Reconfiguration({len(self)} topics)"
