"""Begins new logs in slices of the event loop's time, so that a topic of thousands of partitions stalls nothing else.

To begin a log is to choose its log dir and to give it to that dir's thread (log_creations.py). Logs that do not fit
in this slice wait for the next. Between two slices the loop is free for as long as a slice took: heartbeats, elections
and produce requests of other partitions go on. A topic of a few partitions is begun at once.

An error that `host` raises in a later slice has no caller. It ends the node through `on_fatal`; otherwise the node
would live on with half of the metadata's partitions.

replica_creation.py hosts a partition. It decides by the newest metadata when the partition's turn comes, so a change
while the partition waits needs no code here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from broker.replication.hosting.replica_states import HostingState, Replica

SLICE_MS = 20
"""A request that arrives during a slice waits about as long as it; a flush takes as long on a slow disk. At least one
log is begun in each slice, however slow."""


class HostingSlices:
    """The replicas of this broker whose turn is still to come. All methods are called on the event loop."""

    def __init__(
        self, host: Callable[[Replica], None], now_ms: Callable[[], int], on_fatal: Callable[[BaseException], None]
    ) -> None:
        """`host(replica)` opens a log, or begins a new one."""
        self._host = host
        self._now_ms = now_ms
        self._on_fatal = on_fatal
        self._waiting: deque[Replica] = deque()
        """The replicas that wait, in their order. A replica that is not QUEUED any more is passed over."""
        self._slice_began_ms: int | None = None
        self._stopped = False

    def submit(self, replica: Replica, *, starts_empty: bool) -> None:
        """Begin its log, now or in a later slice; `starts_empty`: no replica of it anywhere has records, or it may be
        made anew. That stays true while the log is not here, however the partition changes."""
        if self._stopped:
            return
        replica.queue(starts_empty=starts_empty)
        if self._waiting or self._is_spent():
            self._waiting.append(replica)
            return
        self._begin_slice()
        self._host(replica)

    def stop(self) -> None:
        """Begin no log any more; the next start does."""
        self._stopped = True
        self._waiting.clear()

    def _is_spent(self) -> bool:
        return self._slice_began_ms is not None and self._now_ms() - self._slice_began_ms >= SLICE_MS

    def _begin_slice(self) -> None:
        """A slice ends with this turn of the loop, or before."""
        if self._slice_began_ms is None:
            self._slice_began_ms = self._now_ms()
            asyncio.get_running_loop().call_soon(self._end_slice)

    def _end_slice(self) -> None:
        began_ms, self._slice_began_ms = self._slice_began_ms, None
        if self._waiting and began_ms is not None:
            asyncio.get_running_loop().call_later((self._now_ms() - began_ms) / 1000, self._next_slice)

    def _next_slice(self) -> None:
        self._slice_began_ms = self._now_ms()
        while self._waiting:
            replica = self._waiting.popleft()
            if replica.state is not HostingState.QUEUED:
                continue
            try:
                self._host(replica)
            except Exception as error:
                self.stop()
                self._on_fatal(error)
                return
            if self._is_spent():
                break
        self._end_slice()

    def __len__(self) -> int:
        return len(self._waiting)

    def __repr__(self) -> str:
        return f"HostingSlices({len(self)} logs to create)"
