"""Remembers until when a node wants no further call of this client, because its quota there is used up (KIP-219).

The node tells so with each call, in the trailer. It takes a call all the same that comes too early, and holds it up.
Belongs to one event loop. Not here: the streams of producers and consumers, whose answers have a field for it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from penstock.client.wire.statuses import call_cancelled
from penstock.errors import ResourceExhaustedError
from penstock.types import Endpoint
from penstock.wire.throttle_trailer import Trailer, throttle_in

_log = logging.getLogger(__name__)


class Throttle:
    """The throttle of the calls to one address."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._calls_from_s = self._changes_from_s = 0.0
        """When the next one may be made, by the loop's time."""
        self._closed = asyncio.Event()
        self.time_ms = self.time_max_ms = 0
        """The waits that the node has told, in all and at most after one call."""

    def on_trailer(self, trailer: Trailer | None) -> None:
        """Takes the trailer of a call that has ended."""
        throttled = throttle_in(trailer)
        if not any(throttled):
            return
        now_s = asyncio.get_running_loop().time()
        self._calls_from_s = max(self._calls_from_s, now_s + throttled.calls_ms / 1_000)
        self._changes_from_s = max(self._changes_from_s, now_s + throttled.changes_ms / 1_000)
        self.time_ms += max(throttled)
        self.time_max_ms = max(self.time_max_ms, *throttled)
        message = "%s: the client's quota is used up: no call for %d ms, no change of partitions for %d ms"
        _log.info(message, self._endpoint, *throttled)

    async def wait(self, timeout_ms: int, *, is_change: bool = False) -> int:
        """Waits until a call may be made, and returns what is left of its time. ResourceExhaustedError at once if the
        wait would use all of it: the call is not made."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while (left_s := self._from_s(is_change) - loop.time()) > 0:
            if self._from_s(is_change) >= began_s + timeout_ms / 1_000:
                raise ResourceExhaustedError(
                    f"{self._endpoint}: the client's quota is used up there for another {left_s:.1f} s, and the call "
                    f"has {timeout_ms / 1_000:.1f} s: try again after that, or raise the quota"
                )
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), left_s)
                raise call_cancelled(self._endpoint)
        return max(1, timeout_ms - round((loop.time() - began_s) * 1_000))

    def _from_s(self, is_change: bool) -> float:
        return max(self._calls_from_s, self._changes_from_s) if is_change else self._calls_from_s

    @property
    def wait_words(self) -> str:
        """The waits of now with their lengths, for people; "" if nothing waits."""
        now_s = asyncio.get_running_loop().time()
        for what, from_s in (("call", self._calls_from_s), ("change of partitions", self._changes_from_s)):
            if from_s > now_s:
                return f"{self._endpoint}: the client's quota is used up; its next {what} is in {from_s - now_s:.1f} s"
        return ""

    def close(self) -> None:
        """Ends what waits, with NetworkError."""
        self._closed.set()

    def __repr__(self) -> str:
        return f"Throttle({self._endpoint}, {self.time_ms} ms)"
