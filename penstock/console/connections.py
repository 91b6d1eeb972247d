"""The limits of browsers' connections before anything is known of them: how many, how slow, and for how long.

    of all, of one network    so many are open; more are closed at once
    idle                      no whole request has come for REQUEST_SECONDS, however many bytes of it have
    a body                    has been on its way for BODY_SECONDS
    an answer                 has not been taken for ANSWER_SECONDS: the browser reads nothing

uvicorn has no such limits: a few hundred connections that say nothing would keep everybody out, and its 503 comes only
after a request. One BoundedConnection stands before one of uvicorn's protocols. Not here: what a request may be
(guard.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final, Protocol

from penstock.addresses import network_of

CONNECTIONS_MAX: Final = 512
"""More get 503 by uvicorn."""
REFUSED_MAX: Final = 64
"""Connections beyond that which may hear the 503; a process has 1,024 file descriptors on many machines."""
NETWORK_CONNECTIONS_MAX: Final = 256
"""Connections of one network. People behind a proxy share it."""
REQUEST_SECONDS: Final = 30.0
BODY_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 5.0

IDLE, BODY, ANSWERING, STUCK = "idle", "body", "answering", "stuck"
_LIMITS: Final = {IDLE: REQUEST_SECONDS, BODY: BODY_SECONDS, STUCK: ANSWER_SECONDS}


class ConnectionCount:
    """The open connections by their networks."""

    def __init__(self, total_max: int, of_network_max: int) -> None:
        self._total_max, self._of_network_max = total_max, of_network_max
        self._open: Counter[str] = Counter()

    def take(self, network: str) -> bool:
        """Counts one more; False where that would be too many."""
        if self._open.total() >= self._total_max or self._open[network] >= self._of_network_max:
            return False
        self._open[network] += 1
        return True

    def give_back(self, network: str) -> None:
        """One is closed."""
        self._open[network] -= 1
        if self._open[network] <= 0:
            del self._open[network]

    def __repr__(self) -> str:
        return f"ConnectionCount({self._open.total()} of {self._total_max})"


class ServedProtocol(Protocol):
    """The part of uvicorn's protocol that is looked at: `cycle` is its newest request, None before the first one."""

    cycle: Any
    flow: Any

    def connection_made(self, transport: Any) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> bool | None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class BoundedConnection(asyncio.Protocol):
    """One connection: passes everything on to the protocol behind it, and looks at it from time to time."""

    def __init__(self, inner: ServedProtocol, count: ConnectionCount, loop: asyncio.AbstractEventLoop) -> None:
        self._inner, self._count, self._loop = inner, count, loop
        self._network: str | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._seen: tuple[str, object, int] = ("", None, 0)
        self._since = 0.0

    def connection_made(self, transport: Any) -> None:
        peer = transport.get_extra_info("peername")
        network = network_of(str(peer[0])) if peer else ""
        if not self._count.take(network):
            transport.abort()
            return
        self._network, self._transport = network, transport
        self._inner.connection_made(transport)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._network is None:
            return
        self._count.give_back(self._network)
        self._network = None
        if self._timer is not None:
            self._timer.cancel()
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._network is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._network is not None else None

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def _look(self) -> None:
        """Aborts a connection that has been in one state for too long. Slow progress of an answer is progress."""
        state = self.state
        left = self._transport.get_write_buffer_size() if state == STUCK and self._transport is not None else 0
        now, seen = self._loop.time(), (state, self._inner.cycle, left)
        if seen != self._seen:
            self._seen, self._since = seen, now
        if self._transport is not None and now - self._since >= _LIMITS.get(seen[0], float("inf")):
            self._transport.abort()
            return
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    @property
    def state(self) -> str:
        """IDLE without a request, BODY while one comes, STUCK while its answer is not taken, or ANSWERING."""
        cycle = self._inner.cycle
        if self._inner.flow.write_paused:
            return STUCK
        if cycle is None or cycle.response_complete:
            return IDLE
        return BODY if cycle.more_body else ANSWERING

    def __repr__(self) -> str:
        return f"BoundedConnection({self._network}, {self._seen[0]})"
