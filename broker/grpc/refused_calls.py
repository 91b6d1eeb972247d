"""Ends the connections of callers that are refused again and again, and of those that TLS itself would refuse now.

A call that is refused costs a node little, but a caller without a key may make as many as it likes. So they are counted
over WINDOW_MS, for each connection and for each network (64 bits of IPv6); above a limit the connection is cut, BEFORE
the refusal is made. A network is charged once for each connection that is cut (connections/byte_watch.py). A caller
that has proved who it is and lacks a right is not counted: the authorizer refuses it. What else is refused by a
connection of such a caller counts for that connection, and its network pays nothing.

A TLS session that was resumed is not judged by gRPC's library, whatever its certificate says by now. callers.py finds
that out at a call; its connection is cut, too, and the client's next handshake names the reason.

`RefusalCounts` is pure; `RefusedCalls` is an edge. Not here: the bytes that come before a log-in (early_reads.py).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn, Protocol

import grpc
import grpc.aio

from broker.authentication.refused_hosts import RefusedHosts
from broker.connections.accepted_sockets import peer_of
from broker.grpc.errors import abort
from penstock.addresses import network_of
from penstock.errors import ApiError, InvariantViolation
from penstock.types import Endpoint

_log = logging.getLogger(__name__)

WINDOW_MS: Final = 10_000
OF_CONNECTION_MAX: Final = 100
"""A client that asks without a session is told so at its first call; one that tries ten times a second stays."""
OF_NETWORK_MAX: Final = 1_000
NO_SUCH_CALL: Final = "Method not found!"
"""The library's own words."""


class EndsConnection(Exception):
    """A call is refused together with its connection."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(str(error))
        self.error = error


class RefusalCounts:
    """The refusals of one listener in this window."""

    def __init__(self) -> None:
        self._since_ms = 0
        self._of_peer: Counter[Endpoint] = Counter()
        self._of_network: Counter[str] = Counter()
        self._charged: set[Endpoint] = set()

    def is_too_many(self, peer: Endpoint, now_ms: int, is_proven: bool = False) -> bool:
        """One more; True if its connection has to go for it. Counts are kept for one window only, so there are no more
        of them than calls in it. `is_proven`: it does not count for the network."""
        if now_ms - self._since_ms >= WINDOW_MS:
            self._since_ms = now_ms
            self._of_peer.clear()
            self._of_network.clear()
            self._charged.clear()
        network = network_of(peer.host)
        self._of_peer[peer] += 1
        if is_proven:
            return self.is_one_connections(peer)
        self._of_network[network] += 1
        return self.is_one_connections(peer) or self._of_network[network] > OF_NETWORK_MAX

    def is_one_connections(self, peer: Endpoint) -> bool:
        """True if the connection alone has had too many."""
        return self._of_peer[peer] > OF_CONNECTION_MAX

    def is_first_charge(self, peer: Endpoint) -> bool:
        """True once in a window: calls that are on their way while their connection is cut cost nothing more."""
        if peer in self._charged:
            return False
        self._charged.add(peer)
        return True

    def __repr__(self) -> str:
        return f"RefusalCounts({len(self._of_peer)} connections)"


class Refuses(Protocol):
    """Hears of calls that are refused, BEFORE their callers do."""

    async def refused(self, context: grpc.aio.ServicerContext, why: str) -> None:
        """A caller that has not proved who it is asked for what it may not have."""
        ...

    async def end(self, context: grpc.aio.ServicerContext, why: str) -> None:
        """Nothing more is taken over this connection."""
        ...


class RefusedCalls:
    """The refused calls of one listener (`Refuses`)."""

    def __init__(
        self,
        listener: str,
        cut: Callable[[Endpoint], Awaitable[None]],
        now_ms: Callable[[], int],
        on_too_many: Callable[[Endpoint, bool], object] = lambda peer, is_one: None,
        is_proven: Callable[[Endpoint], bool] = lambda peer: False,
    ) -> None:
        """`cut` returns when the connection with that far end is shut down. `now_ms` is monotonic. `on_too_many` hears
        once of a connection that is cut for its number of refusals, and whether these are its own or those of its
        network: clients that all come back with sessions of before are many, and each is refused once or twice. It
        hears of none by which somebody has proved an identity (`is_proven`)."""
        self._on_too_many, self._is_proven = on_too_many, is_proven
        self._listener, self._cut, self._now_ms = listener, cut, now_ms
        self._counts, self._logged = RefusalCounts(), RefusedHosts()

    async def refused(self, context: grpc.aio.ServicerContext, why: str) -> None:
        peer = peer_of(context.peer())
        is_proven = self._is_proven(peer)
        if self._counts.is_too_many(peer, self._now_ms(), is_proven):
            if not is_proven and self._counts.is_first_charge(peer):
                self._on_too_many(peer, self._counts.is_one_connections(peer))
            await self.end(context, f"too many of its calls were refused, the last one because: {why}")

    async def end(self, context: grpc.aio.ServicerContext, why: str) -> None:
        peer = peer_of(context.peer())
        if times := self._logged.note(peer.host):
            _log.warning("%s: cut the connection of %s (%d times so far): %s", self._listener, peer, times, why)
        await self._cut(peer)

    def __repr__(self) -> str:
        return f"RefusedCalls({self._listener}, {self._counts!r})"


class NotCounted:
    """The counter of a server without a network: refusals have no effect but their own."""

    async def refused(self, context: grpc.aio.ServicerContext, why: str) -> None:
        """The refusal of a call is not counted here."""

    async def end(self, context: grpc.aio.ServicerContext, why: str) -> None:
        """Ends nothing: there is no connection."""


NOT_COUNTED: Final = NotCounted()


async def refuse(refuses: Refuses, context: grpc.aio.ServicerContext, refusal: ApiError | EndsConnection) -> NoReturn:
    """Ends a call whose caller may not make it."""
    if isinstance(refusal, EndsConnection):
        await refuses.end(context, str(refusal))
        refusal = refusal.error
    else:
        await refuses.refused(context, str(refusal))
    await abort(context, refusal)
    raise InvariantViolation("a call went on after it was aborted")


class UnknownCalls(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers calls that no service of a listener has as gRPC's library does, and counts them."""

    def __init__(self, refuses: Refuses) -> None:
        self._refuses = refuses
        self._handler = grpc.stream_stream_rpc_method_handler(self._refuse, None, None)

    async def _refuse(self, messages: object, context: grpc.aio.ServicerContext) -> None:
        await self._refuses.refused(context, NO_SUCH_CALL)
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, NO_SUCH_CALL)

    def service(self, handler_call_details: object) -> Any:
        return self._handler
