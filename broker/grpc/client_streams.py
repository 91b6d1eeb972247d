"""The streams of a broker's gRPC listeners: each is a connection with its own loop (network/connection_loop.py). An
edge.

Calls are client_calls.py's. The listener decodes and encodes and decides nothing. Its time goes to the processor meter
(NetworkProcessorAvgIdlePercent).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import field, replace
from functools import partial
from typing import Any, NamedTuple

import grpc
import grpc.aio

from broker.connections.stream_quotas import StreamQuotas
from broker.grpc.access import ListenerAccess
from broker.grpc.errors import abort
from broker.grpc.handlers import Stream
from broker.grpc.incoming.request_decoder import RequestDecoders
from broker.grpc.incoming.turned_decoder import DecodedMessage, TurnedDecoder
from broker.network.client_names import ClientNames
from broker.network.connection_loop import ConnectionLoop, Incoming, Prepare, Quotas
from broker.network.decoding_turns import DecodingTurns
from broker.network.fetcher_session import Session
from broker.network.memory_budget import Lease
from broker.network.parties import party_of
from broker.network.request_channel import Caller, Request, RequestChannel
from broker.network.request_memory import RequestIntake, RequestMemory
from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.api import Api
from penstock.messages.client_apis import FETCH, PRODUCE
from penstock.messages.fetch import FetchResponse
from penstock.messages.produce import ProduceResponse
from penstock.types import Endpoint
from penstock.wire import streams

FETCHES_PIPELINED_MAX = 2
"""Open fetches of one stream: each may hold a whole response in memory."""
PRODUCES_PIPELINED_MAX = 16


class _StreamKind(NamedTuple):
    """One kind of stream; `is_clients`: whether the clients' listener serves it. `name` is that of its requests on
    their way through the node."""

    api: Api[Any, Any]
    name: str
    is_clients: bool
    encode: Callable[[int, Any], bytes]
    failed: Callable[[ApiError], Any]
    """The answer of a request that failed as a whole."""
    pipelined_max: int


_PRODUCE = _StreamKind(
    PRODUCE,
    "Produce",
    True,
    streams.produce_response_to_bytes,
    lambda error: ProduceResponse(error=error),
    PRODUCES_PIPELINED_MAX,
)
_FETCH = _StreamKind(
    FETCH,
    "FetchConsumer",
    True,
    streams.fetch_response_to_bytes,
    lambda error: FetchResponse(error=error),
    FETCHES_PIPELINED_MAX,
)
_REPLICA_FETCH = _FETCH._replace(name="FetchFollower", is_clients=False)


class _StreamWire:
    """The language of one stream at one listener (`broker.network.connection_loop.Wire`)."""

    def __init__(self, kind: _StreamKind, decoder: TurnedDecoder, access: ListenerAccess, caller: Caller) -> None:
        self._kind, self._decoder, self._access, self._caller = kind, decoder, access, caller
        self._party = party_of(caller)

    def decode(self, raw: bytes) -> Incoming | Awaitable[Incoming]:
        self._access.check_still(self._caller)
        if not self._decoder.may_decode(raw, self._party):
            return self._in_turn(raw)
        return self._incoming(self._decoder.decode(raw, self._party))

    async def _in_turn(self, raw: bytes) -> Incoming:
        return self._incoming(await self._decoder.decode_in_turn(raw, self._party))

    def _incoming(self, decoded: DecodedMessage) -> Incoming:
        kind, ((correlation_id, client_id), body) = self._kind, decoded.request
        self._access.check_asker(kind.api, body, self._caller, kind.is_clients)
        return Incoming(kind.name, correlation_id, client_id, body, decoded.is_large)

    def encode(self, request: Request, answer: Any) -> bytes:
        shown = answer if request.error is None else self._kind.failed(request.error)
        if request.throttle_ms:
            shown = replace(shown, throttle_time_ms=request.throttle_ms)
        return self._kind.encode(request.correlation_id, shown)


class _StreamBytes:
    """The bytes of one stream (`broker.network.connection_loop.ByteConnection`)."""

    def __init__(self, context: grpc.aio.ServicerContext, delivered: Callable[[int], None]) -> None:
        """`delivered` hears how many bytes a message has."""
        self._context, self._delivered = context, delivered

    async def receive(self, intake: RequestIntake) -> tuple[bytes, Lease] | None:
        await intake.wait_turn()
        raw: Any = await self._context.read()
        if raw is grpc.aio.EOF:
            return None
        self._delivered(len(raw))
        return raw, intake.arrived(len(raw))

    async def write(self, message: bytes) -> None:
        await self._context.write(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """The limits that a listener checks requests against."""

    decoders: RequestDecoders
    connections: StreamQuotas
    requests: RequestMemory
    node_requests: RequestMemory
    """Memory for requests at the inter-broker listener: clients that fill their budget do not hold up followers."""
    clients: ClientNames = field(default_factory=ClientNames)
    quotas: Quotas | None = None
    log_ins: RequestMemory = field(default_factory=RequestMemory.before_log_in)
    """Memory for the calls by which clients log in."""


class StreamHandlers:
    """Serves the streams of one listener for clients, or of the inter-broker listener."""

    def __init__(
        self,
        channel: RequestChannel,
        new_session: Callable[[str], Session],
        limits: StreamLimits,
        access: ListenerAccess,
        prepare: Prepare = lambda request: None,
    ) -> None:
        """`new_session` makes the session of a fetch stream of a party. `prepare`: see connection_loop.py."""
        self._channel, self._access, self.prepare = channel, access, prepare
        self.busy = channel.busy.network
        self._new_session = new_session
        self._limits = limits
        self._open: dict[ConnectionLoop[bytes, bytes], Endpoint] = {}
        """The loops of all streams, with the far ends of their connections."""

    def peers_with_streams(self) -> set[Endpoint]:
        """The peers that have a client's stream."""
        return set(self._limits.connections.peers())

    def writing_since_ms(self) -> dict[Endpoint, int]:
        """The time of the oldest answer under way, for each connection that has one."""
        oldest: dict[Endpoint, int] = {}
        for loop, peer in self._open.items():
            if loop.writing_since_ns is not None:
                since_ms = loop.writing_since_ns // 1_000_000
                oldest[peer] = min(oldest.get(peer, since_ms), since_ms)
        return oldest

    def looked(self, connected: Collection[Endpoint], began_ms: int) -> None:
        """These connections were open after that time."""
        self._access.looked(connected, began_ms)

    def proven(self) -> Mapping[Endpoint, str]:
        """The connections by which somebody has proved an identity, and whose it is."""
        return self._access.proven()

    @property
    def streams(self) -> dict[Api[Any, Any], Stream]:
        """The streams of clients."""
        return {PRODUCE: self._produce, FETCH: self._consumer_fetch}

    @property
    def replica_streams(self) -> dict[Api[Any, Any], Stream]:
        """The streams of followers. A fetch under a replica's id counts as its acknowledgement, so clients have no
        access to them; the limits on clients' connections do not count them."""
        return {FETCH: self._replica_fetch}

    async def _produce(self, requests: Any, context: grpc.aio.ServicerContext) -> None:
        await self._serve(_PRODUCE, context)

    async def _consumer_fetch(self, requests: Any, context: grpc.aio.ServicerContext) -> None:
        await self._serve(_FETCH, context)

    async def _replica_fetch(self, requests: Any, context: grpc.aio.ServicerContext) -> None:
        await self._serve(_REPLICA_FETCH, context)

    async def _serve(self, kind: _StreamKind, context: grpc.aio.ServicerContext) -> None:
        limits = self._limits
        caller = self._access.caller(context, kind.api)  # handlers.py refuses whoever may not call
        peer = caller.peer
        try:
            self._access.must_be_open()
            await self._access.wait_turn(caller)
            if kind.is_clients:
                limits.connections.connected(peer)
        except ApiError as error:
            await abort(context, error)
            return
        session = self._new_session(party_of(caller)) if kind.api is FETCH else None
        memory = limits.requests if kind.is_clients else limits.node_requests
        turns = DecodingTurns(memory.turns, self._channel.long_work if kind.is_clients else None)
        loop = ConnectionLoop(
            self._channel,
            caller,
            _StreamBytes(context, partial(self._access.heard.delivered, caller)),
            _StreamWire(kind, TurnedDecoder(limits.decoders.of(kind.api), turns), self._access, caller),
            memory,
            kind.pipelined_max,
            self.prepare,
            session,
            limits.clients if kind.is_clients else None,
            quotas=limits.quotas if kind.is_clients else None,
        )
        self._open[loop] = peer
        try:
            await loop.run()
        except ApiError as error:
            await abort(context, error)
        finally:
            del self._open[loop]
            if session is not None:
                session.close()
            if kind.is_clients:
                limits.connections.disconnected(peer)
