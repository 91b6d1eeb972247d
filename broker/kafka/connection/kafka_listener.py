"""One listener of Kafka's protocol: its socket, its connections, and who may stay. An edge.

Its address is bound when the node starts, and listens from `open` on: before that the node knows no topic
(bound_sockets.py). A connection over a limit is closed when it is accepted (connections/accept_guard.py). All
connections are looked at once in SWEEP_SECONDS, so an idle one costs no timer: who was silent for
connections.max.idle.ms and waits for nothing is closed, and who reads nothing of its answers, or sends a request too
slowly for the memory that it holds, is cut.

Not here: what a connection does (network/connection_loop.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Protocol

from broker.connections.accept_guard import AcceptGuard
from broker.connections.connection_guard import ConnectionGuardStatistics
from broker.connections.listener_limits import ListenerLimits
from broker.connections.shared_connections import SharedConnections
from broker.kafka.connection.bound_sockets import bind_on_loop
from broker.kafka.connection.frame_connection import AHEAD_BYTES_MAX, FrameConnection
from broker.kafka.connection.served_connection import ServedConnection
from penstock.clock import Clock
from penstock.errors import ConfigError
from penstock.tasks import watch
from penstock.types import Endpoint

_log = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
HOSTS_SHOWN = 3
STOP_GRACE_SECONDS = 0.5
"""A stop waits so long for the answers to what was taken."""


class BoundAddress(Protocol):
    """An address that is bound (bound_sockets.py)."""

    async def listen(self) -> None: ...

    def close(self) -> None: ...


Bind = Callable[[Callable[[], FrameConnection], Endpoint], Awaitable[BoundAddress]]
"""Binds an address; OSError if that cannot be. Each connection is given to a protocol of its own."""
Serve = Callable[[FrameConnection, str], ServedConnection]
"""Makes the loop of a connection to the listener of a name."""


class KafkaListener:
    """Listens at one endpoint."""

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        limits: ListenerLimits,
        shared: SharedConnections,
        serve: Serve,
        clock: Clock,
        on_fatal: Callable[[BaseException], None],
        bind: Bind = bind_on_loop,
    ) -> None:
        """`on_fatal` is called if another process has taken the address when this one begins to listen."""
        self.name, self._endpoint, self._limits = name, endpoint, limits
        self._serve, self._clock, self._on_fatal, self._bind = serve, clock, on_fatal, bind
        self._guard = AcceptGuard(limits, shared.of(name))
        self._shared = memoryview(bytearray(AHEAD_BYTES_MAX))
        self._open: dict[Endpoint, ServedConnection] = {}
        self._address: BoundAddress | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._cut: Counter[tuple[str, str]] = Counter()
        """Connections cut since the last sweep, by limit and host: one line tells of all."""
        self._is_open = False

    # -- start and stop ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Bind; ConfigError if that cannot be."""
        try:
            self._address = await self._bind(self._new_connection, self._endpoint)
        except OSError as error:
            raise self._taken(error) from None
        self._sweeping = asyncio.get_running_loop().create_task(self._sweeps(), name=f"connections-{self.name}")

    def _taken(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"listeners: {self.name} cannot listen on {self._endpoint}: the address is in use, or is not one of this "
            f"machine ({error}); choose another port, or stop the process that holds it"
        )

    def open(self) -> None:
        """Connections are accepted from now on."""
        self._is_open = True
        watch(asyncio.get_running_loop().create_task(self._listen()), self._on_fatal)

    async def _listen(self) -> None:
        if self._address is not None:
            try:
                await self._address.listen()
            except OSError as error:
                raise self._taken(error) from None

    async def stop(self) -> None:
        """Takes no more; what was taken has STOP_GRACE_SECONDS for its answers."""
        self._is_open = False
        if self._address is not None:
            self._address.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        running = [served.task for served in self._open.values() if served.task is not None]
        for served in tuple(self._open.values()):
            served.connection.end_input()
        if running:
            await asyncio.wait(running, timeout=STOP_GRACE_SECONDS)
        for served in tuple(self._open.values()):
            served.connection.abort()
        await asyncio.gather(*running, return_exceptions=True)

    # -- connections come and go ---------------------------------------------------------------------------------------

    def _new_connection(self) -> FrameConnection:
        return FrameConnection(self, self._shared, self._limits.message_bytes_max, self._clock.now_ms)

    def connected(self, connection: FrameConnection) -> None:
        """See HearsOfConnection."""
        peer = connection.peer
        if not self._is_open:
            connection.abort()
            return
        older = self._open.get(peer)
        if older is not None:  # its end is not told yet; or neither has an address, being reset before it was accepted
            self._forget(older)
            older.connection.abort()
        cut, limit = self._guard.came(peer, self._clock.now_ms())
        if cut is not None:
            self._cut[limit, cut.host] += 1
            (connection if cut == peer else self._open[cut].connection).abort()
        if cut != peer:
            served = self._open[peer] = self._serve(connection, self.name)
            served.begin()

    def disconnected(self, connection: FrameConnection) -> None:
        """See HearsOfConnection."""
        served = self._open.get(connection.peer)
        if served is not None and served.connection is connection:
            self._forget(served)

    def _forget(self, served: ServedConnection) -> None:
        peer = served.connection.peer
        del self._open[peer]
        self._guard.gone(peer)
        if served.spoke_strangely:
            self._guard.spoke_strangely()
        served.end()

    # -- all connections together --------------------------------------------------------------------------------------

    async def _sweeps(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep(self._clock.now_ms())

    def sweep(self, now_ms: int) -> None:
        """Close the silent ones, cut those that stand still, and tell of what was cut. A client that has closed its
        half waits for an answer that is long in coming, or is gone: there is no telling."""
        standing: dict[Endpoint, int] = {}
        idle_ms_max = self._limits.idle_ms_max
        for peer, served in self._open.items():
            connection = served.connection
            silent_ms = now_ms - connection.active_ms
            if (
                served.quiet_since_ms == connection.active_ms
                and not connection.is_in_frame
                and silent_ms <= idle_ms_max
            ):
                continue
            since_ms = served.stands_since_ms(now_ms)
            if since_ms is None:
                since_ms = connection.crawls_since_ms(now_ms)
            if since_ms is not None:
                standing[peer] = since_ms
            elif (served.is_idle or connection.has_ended) and silent_ms > idle_ms_max:
                connection.close()
            elif served.is_idle and silent_ms > 0:  # what came in this very millisecond might not be all of it
                served.quiet_since_ms = connection.active_ms
        for peer in self._guard.stalled(standing, now_ms):
            served = self._open[peer]
            why = "it does not read its answers" if served.connection.unwritten else "its request comes too slowly"
            _log.warning("%s: cut the connection of %s: %s", self.name, peer, why)
            served.connection.abort()
        cut, self._cut = self._cut, Counter()
        for limit in sorted({limit for limit, _ in cut}):
            by_host = {host: count for (other, host), count in cut.items() if other == limit}
            hosts = sorted(by_host, key=lambda host: -by_host[host])
            more = f" and {len(hosts) - HOSTS_SHOWN} more addresses" if len(hosts) > HOSTS_SHOWN else ""
            told = ", ".join(hosts[:HOSTS_SHOWN]) + more
            _log.warning("%s: cut %d connections above %s, from %s", self.name, sum(by_host.values()), limit, told)

    def statistics(self) -> ConnectionGuardStatistics:
        return self._guard.statistics()

    def __repr__(self) -> str:
        return f"KafkaListener({self.name}, {self._guard!r})"
