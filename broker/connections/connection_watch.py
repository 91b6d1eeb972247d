"""Looks at a listener's connections regularly, and cuts those that its guard names. The driver of
connection_guard.py.

gRPC can limit the streams of a connection and the life of a silent one, but not the number of connections: it accepts
all, until the process has no descriptor left. So they are counted after they were accepted. Between two looks there may
be more than the limit. The descriptors that logs need are a reserve of their own (storage/disk/spare_descriptors.py),
and only a firewall prevents connections from being made (ops/README.md).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Protocol, TypeVar

from broker.connections.accepted_sockets import AcceptedSockets
from broker.connections.connection_guard import ConnectionGuard, ConnectionGuardStatistics
from penstock.clock import Clock
from penstock.throttled_lines import ThrottledLines
from penstock.types import Endpoint

T = TypeVar("T")

_log = logging.getLogger(__name__)

GLANCE_SECONDS = 0.25
"""How often descriptors are counted, which costs little."""
GLANCES_PER_LOOK = 8
NEWCOMERS = 16
"""The descriptors more than at the last look at which the next look is at once; fewer are enough where there may be too
many connections."""
BUSY_SHARE = 20
"""Looking takes at most 1/20 of a core: with many connections there is more time between two looks. What counts is the
looks' own processor time. A look that waits for a processor costs nobody anything, and one that rested for the time
that it waited would leave a starved node's connections uncounted, which are what starves it."""


class StreamsView(Protocol):
    """A listener's knowledge of its streams."""

    def peers_with_streams(self) -> Collection[Endpoint]: ...

    def writing_since_ms(self) -> Mapping[Endpoint, int]:
        """The connections whose answer is being written, and since when (monotonic)."""
        ...

    def looked(self, connected: Collection[Endpoint], began_ms: int) -> None:
        """These connections were open after `began_ms` (monotonic)."""
        ...

    def proven(self) -> Mapping[Endpoint, str]:
        """The connections by which somebody has proved an identity, and whose it is."""
        ...


class NoStreams:
    """A listener that serves calls only."""

    def peers_with_streams(self) -> Collection[Endpoint]:
        return ()

    def writing_since_ms(self) -> Mapping[Endpoint, int]:
        return {}

    def looked(self, connected: Collection[Endpoint], began_ms: int) -> None:
        """Nothing is kept for a connection."""

    def proven(self) -> Mapping[Endpoint, str]:
        return {}


class ConnectionWatch:
    """Counts and cuts the connections of one listener."""

    def __init__(
        self,
        listener: str,
        sockets: AcceptedSockets,
        guard: ConnectionGuard,
        streams: StreamsView,
        clock: Clock,
        executor: Executor,
        processor_seconds: Callable[[], float],
    ) -> None:
        """Looking and cutting may take long, so they run in `executor`, which belongs to the caller.
        `processor_seconds`: what the thread that asks has used of a processor."""
        self._listener = listener
        self._sockets = sockets
        self._guard = guard
        self._streams = streams
        self._clock, self._executor = clock, executor
        self._processor_seconds, self._spent_seconds = processor_seconds, 0.0
        self._task: asyncio.Task[None] | None = None
        self._lines = ThrottledLines(clock.now_ms)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"connections-{self._listener}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        glances, expected = 0, 0
        while True:
            self._spent_seconds = 0.0
            try:
                descriptors = self._metered(self._sockets.descriptors)
                glances += 1
                if glances >= GLANCES_PER_LOOK or descriptors > expected:
                    await self.look()
                    glances, expected = 0, self._sockets.descriptors() + min(NEWCOMERS, self._guard.room())
            except OSError as error:  # no descriptor to look with: the next look may find one
                _log.warning("%s: connections could not be counted: %s", self._listener, error)
            await asyncio.sleep(max(GLANCE_SECONDS, BUSY_SHARE * self._spent_seconds))

    async def look(self) -> None:
        """Look once."""
        began_ms = self._clock.now_ms()
        connected = await self._metered_in_thread(self._sockets.peers)
        over, stalled = self._metered(partial(self._judged, connected, began_ms))
        if not over and not stalled:
            return
        await self._metered_in_thread(partial(self._sockets.cut, over | stalled))
        if over:
            hosts = sorted({peer.host for peer in over})
            self._tell("limit", f"cut {len(over)} connections above a limit, from {hosts_shown(hosts)}")
        for peer in stalled:
            self._tell("stalled", f"cut the connection of {peer.host}:{peer.port}: it does not read its answers")

    def _judged(self, connected: Collection[Endpoint], began_ms: int) -> tuple[set[Endpoint], set[Endpoint]]:
        """The connections above a limit, and those that do not read."""
        self._streams.looked(connected, began_ms)
        over = self._guard.look(
            connected, self._streams.peers_with_streams(), self._clock.now_ms(), self._streams.proven()
        )
        writing = self._streams.writing_since_ms()
        here = {peer: writing[peer] for peer in connected if peer in writing}
        return over, self._guard.stalled(here, self._clock.now_ms())

    def _metered(self, work: Callable[[], T]) -> T:
        result, seconds = self._timed(work)
        self._spent_seconds += seconds
        return result

    async def _metered_in_thread(self, work: Callable[[], T]) -> T:
        result, seconds = await self._in_thread(partial(self._timed, work))
        self._spent_seconds += seconds
        return result

    def _timed(self, work: Callable[[], T]) -> tuple[T, float]:
        began = self._processor_seconds()
        return work(), self._processor_seconds() - began

    def _tell(self, subject: str, text: str) -> None:
        if (more := self._lines.due(subject)) is not None:
            _log.warning("%s: %s%s", self._listener, text, more)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def statistics(self) -> ConnectionGuardStatistics:
        return self._guard.statistics()

    def __repr__(self) -> str:
        return f"ConnectionWatch({self._listener}, {self._guard!r})"


def hosts_shown(hosts: list[str]) -> str:
    """The first of these hosts, and how many more there are."""
    return ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more addresses" if len(hosts) > 3 else "")
