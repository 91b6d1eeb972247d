"""One listener of Kafka's protocol: its socket, its connections, and which of them may stay. An edge.

Its address is bound when the node starts, and listens from `open` on: before that the node knows no topic
(bound_sockets.py). A connection over a limit is closed when it is accepted (connections/accept_guard.py). All
connections are looked at once in SWEEP_SECONDS, so an idle one costs no timer: a connection that was silent for
connections.max.idle.ms and waits for nothing is closed. A client that reads nothing of its answers, or sends a request
too slowly for the memory that it holds, is cut.

With TLS a connection is counted when it is accepted, and has its loop after the handshake (tls_handshake.py). Not here:
what a connection does (network/connection_loop.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import Any, Protocol

from broker.connections.accept_guard import AcceptGuard
from broker.connections.connection_guard import ConnectionGuardStatistics
from broker.connections.listener_limits import ListenerLimits
from broker.connections.shared_connections import SharedConnections
from broker.connections.turns import AddressQuotas, Turn, turn_of
from broker.kafka.connection.bound_sockets import bind_on_loop
from broker.kafka.connection.frame_connection import AHEAD_BYTES_MAX, FrameConnection
from broker.kafka.connection.served_connection import ServedConnection
from broker.kafka.connection.tls_handshake import TlsHandshake
from broker.network.giving_way import giving_way
from broker.network.request_channel import ANONYMOUS
from broker.tls.material import ListenerCertificates
from broker.tls.ssl_contexts import ServerContexts
from penstock.clock import Clock
from penstock.errors import ConfigError
from penstock.tasks import watch
from penstock.throttled_lines import CLIENTS_SUBJECTS_MAX, ThrottledLines
from penstock.types import Endpoint

_log = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
HOSTS_SHOWN = 3
NO_RULE = "no rule of ssl.principal.mapping.rules fits the name in its certificate"
STOP_GRACE_SECONDS = 0.5
"""The longest wait of a stop for the answers to the requests that were taken."""


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
        certificates: ListenerCertificates | None = None,
        quotas: AddressQuotas | None = None,
    ) -> None:
        """`on_fatal` is called if another process has taken the address when this one begins to listen."""
        self.name, self._endpoint, self._limits = name, endpoint, limits
        self._serve, self._clock, self._on_fatal, self._bind = serve, clock, on_fatal, bind
        self._guard = AcceptGuard(limits, shared.of(name))
        self._quotas = quotas
        self._shared = memoryview(bytearray(AHEAD_BYTES_MAX))
        self._certificates = certificates
        self._contexts = None if certificates is None else ServerContexts(certificates)
        self._open: dict[Endpoint, ServedConnection] = {}
        self._shaking: dict[Endpoint, TlsHandshake] = {}
        """Connections before their TLS handshake is done."""
        self._unsecured: Counter[tuple[str, str]] = Counter()
        """Handshakes that failed since the last sweep, by reason and host."""
        self._address: BoundAddress | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._cut: Counter[tuple[str, str]] = Counter()
        """Connections cut since the last sweep, by reason and host: one line tells of all."""
        self._is_open = False
        self._lines = ThrottledLines(clock.now_ms, CLIENTS_SUBJECTS_MAX)

    # -- start and stop ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Bind; ConfigError if that cannot be."""
        try:
            if self._contexts is None:
                self._address = await self._bind(self._new_connection, self._endpoint)
            else:
                self._address = await bind_on_loop(self._new_connection, self._endpoint, self._accepted)
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
        for handshake in tuple(self._shaking.values()):
            handshake.abort()
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
        if self._certificates is None:
            may_stay = self._may_stay(connection)
        else:
            may_stay = self._is_secured(connection, self._certificates)
        if may_stay:
            served = self._open[connection.peer] = self._serve(connection, self.name)
            served.begin(None if self._certificates is not None else self._turn(connection.peer))

    def _turn(self, peer: Endpoint) -> Turn | None:
        return None if self._quotas is None else turn_of(self._quotas, peer.host, self._clock.now_ms())

    def _is_secured(self, connection: FrameConnection, certificates: ListenerCertificates) -> bool:
        """False if the connection ended meanwhile, or its certificate is refused. It was counted when it was accepted;
        now its principal is known."""
        handshake = self._shaking.pop(connection.peer, None)
        if handshake is None:  # it was cut in the same moment
            connection.abort()
            return False
        shown = connection.certificate
        try:
            principal = certificates.owner(shown).principal if shown else ANONYMOUS
        except Exception as error:  # whatever a library finds in a stranger's certificate, its place is given back
            _log.debug("%s: the certificate of %s", self.name, connection.peer, exc_info=error)
            principal = None
        if principal is None:
            self._guard.gone(connection.peer)
            self._unsecured_by(NO_RULE, connection.peer)
            connection.abort()
            return False
        connection.principal = principal
        if principal != ANONYMOUS:
            self.identified(connection)
        return True

    def identified(self, connection: FrameConnection) -> None:
        """See HearsOfConnection. From now on strangers do not cut it."""
        self._guard.proved(connection.peer, connection.principal)

    def _may_stay(self, newcomer: FrameConnection | TlsHandshake) -> bool:
        """True if the limits let it in; they may cut another one for it."""
        peer = newcomer.peer
        if not self._is_open:
            newcomer.abort()
            return False
        older, shaking = self._open.get(peer), self._shaking.pop(peer, None)
        if older is not None:  # its end is not told yet; or neither has an address, being reset before it was accepted
            self._forget(older)
            older.connection.abort()
        if shaking is not None:
            self._guard.gone(peer)
            shaking.abort()
        cut, limit = self._guard.came(peer, self._clock.now_ms())
        if cut is not None:
            self._cut[f"above {limit}", cut.host] += 1
            if cut == peer:
                newcomer.abort()
            elif cut in self._shaking:
                self._shaking.pop(cut).abort()
            else:
                self._open[cut].connection.abort()
        return cut != peer

    def _accepted(self, accepted: Any, address: Any) -> None:
        """Begins the TLS handshake of a connection."""
        assert self._contexts is not None
        handshake = TlsHandshake(self, accepted, address)
        if self._may_stay(handshake):
            self._shaking[handshake.peer] = handshake
            handshake.begin(self._contexts, self._new_connection, self._turn(handshake.peer))

    def failed(self, handshake: TlsHandshake, why: str) -> None:
        """See HearsOfHandshake."""
        if self._shaking.get(handshake.peer) is handshake:
            del self._shaking[handshake.peer]
            self._guard.gone(handshake.peer)
        if why:
            self._unsecured_by(why, handshake.peer)

    def _unsecured_by(self, why: str, peer: Endpoint) -> None:
        self._guard.had_no_handshake()
        self._unsecured[why, peer.host] += 1

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
        waiting_since: dict[Endpoint, int] = {}
        idle_ms_max = self._limits.idle_ms_max
        for peer, served in self._open.items():
            connection = served.connection
            if served.is_late(now_ms):
                connection.abort()  # its memory goes with it: TLS's farewell would wait for a client that says nothing
                continue
            silent_ms = now_ms - connection.active_ms
            if served.quiet_since_ms == connection.active_ms and connection.frame is None and silent_ms <= idle_ms_max:
                continue
            since_ms = served.stands_since_ms(now_ms)
            if since_ms is None:
                since_ms = connection.crawls_since_ms(now_ms)
            if since_ms is not None:
                waiting_since[peer] = since_ms
            elif (served.is_idle or connection.has_ended) and silent_ms > idle_ms_max:
                connection.close()
            elif served.is_idle and silent_ms > 0:  # what came in this very millisecond might not be all of it
                served.quiet_since_ms = connection.active_ms
        for peer in self._guard.stalled(waiting_since, now_ms):
            self._cut_slow(self._open[peer])
        for served in tuple(self._open.values()):
            if served.connection.is_in_the_way(now_ms):
                self._cut_slow(served)
        for served in self._giving_way(now_ms):
            self._cut_for(served, "whose requests took long while others waited for memory")
        self._tell_of_cuts()

    def _giving_way(self, now_ms: int) -> list[ServedConnection]:
        frames = [(served.connection.frame, served) for served in self._open.values()]
        old = [(frame, served) for frame, served in frames if frame is not None and frame.is_old(now_ms)]
        old.sort(key=lambda one: one[0].began_ms)
        gone = giving_way(frame.lease for frame, _ in old)
        return [served for frame, served in old if frame.lease in gone]

    def _cut_slow(self, served: ServedConnection) -> None:
        self._cut_for(
            served, "with unread answers" if served.connection.unwritten else "with a request that comes too slowly"
        )

    def _cut_for(self, served: ServedConnection, why: str) -> None:
        self._cut[why, served.connection.peer.host] += 1
        served.connection.abort()

    def _tell_of_cuts(self) -> None:
        """One line for each reason, however many connections there were."""
        cut, self._cut = self._cut, Counter()
        for why, count, hosts in _by_reason(cut):
            self._tell(why, f"cut {count} connections {why}, from {hosts}")
        unsecured, self._unsecured = self._unsecured, Counter()
        for why, count, hosts in _by_reason(unsecured):
            self._tell(("TLS", why), f"closed {count} connections without TLS: {why}; from {hosts}")

    def _tell(self, subject: Hashable, text: str) -> None:
        if (more := self._lines.due(subject)) is not None:
            _log.warning("%s: %s%s", self.name, text, more)

    def statistics(self) -> ConnectionGuardStatistics:
        return self._guard.statistics()

    def __repr__(self) -> str:
        return f"KafkaListener({self.name}, {self._guard!r})"


def _by_reason(counts: Counter[tuple[str, str]]) -> Iterator[tuple[str, int, str]]:
    """Each reason with its count, and the addresses that had most."""
    for reason in sorted({reason for reason, _ in counts}):
        by_host = {host: count for (other, host), count in counts.items() if other == reason}
        hosts = sorted(by_host, key=lambda host: -by_host[host])
        more = f" and {len(hosts) - HOSTS_SHOWN} more addresses" if len(hosts) > HOSTS_SHOWN else ""
        yield reason, sum(by_host.values()), ", ".join(hosts[:HOSTS_SHOWN]) + more
