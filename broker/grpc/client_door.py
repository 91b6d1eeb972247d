"""The streams of a broker's gRPC door: they become requests of the channel, answers become messages. An edge.

A stream has a processor, which keeps its answers in the order of its requests. Calls are client_calls.py's. The door
decodes and encodes and decides nothing. Its time goes to the processor meter (NetworkProcessorAvgIdlePercent).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import grpc
import grpc.aio

from broker.connections.accepted_sockets import Peer, peer_of
from broker.connections.stream_quotas import StreamQuotas, host_of
from broker.grpc.codec import (
    fetch,
    produce,
)
from broker.grpc.errors import abort
from broker.grpc.gate import Gate
from broker.grpc.handlers import Stream
from broker.grpc.limits import RequestDecoders
from broker.network.client_names import ClientNames, ClientTraffic
from broker.network.doors import Session
from broker.network.processor import Processor
from broker.network.request_channel import Request, RequestChannel
from broker.network.request_memory import RequestMemory
from penstock.errors import ApiError, InvalidRequestError
from penstock.messages.api import Api
from penstock.messages.client_apis import FETCH, PRODUCE
from penstock.messages.produce import ProduceRequest
from penstock.pb import broker_pb2 as pb
from penstock.tasks import watch
from penstock.wire.error_message import error_to_message

_log = logging.getLogger(__name__)

FETCHES_PIPELINED_MAX = 2
"""Open fetches of one stream: each may hold a whole response in memory."""
PRODUCES_PIPELINED_MAX = 16


@dataclass(frozen=True, slots=True)
class _StreamKind:
    """How one kind of stream is encoded; `is_clients`: whether the clients' listener serves it.

    `name` is that of its requests on their way through the node.
    """

    api: Api[Any, Any]
    name: str
    is_clients: bool
    encode: Callable[[Any], bytes]
    encode_error: Callable[[Any, ApiError], bytes]
    pipelined_max: int

    def message(self, request: Request, answer: Any) -> bytes:
        """The bytes of its error, or else of its answer or a part of it."""
        if request.error is not None:
            return self.encode_error(request.body, request.error)
        return self.encode(answer)


def _produce_error(body: Any, error: ApiError) -> bytes:
    return pb.ProduceResponse(correlation_id=body.correlation_id, error=error_to_message(error)).SerializeToString()


def _fetch_error(body: Any, error: ApiError) -> bytes:
    return pb.FetchResponse(correlation_id=body.correlation_id, error=error_to_message(error)).SerializeToString()


_PRODUCE = _StreamKind(
    PRODUCE,
    "Produce",
    True,
    lambda response: produce.response_to_pb(response).SerializeToString(),
    _produce_error,
    PRODUCES_PIPELINED_MAX,
)
_FETCH = _StreamKind(FETCH, "FetchConsumer", True, fetch.response_to_bytes, _fetch_error, FETCHES_PIPELINED_MAX)
_REPLICA_FETCH = replace(_FETCH, name="FetchFollower", is_clients=False)


def _note_failure(error: BaseException) -> None:
    """A read fails if its stream has ended meanwhile, and then its result is not needed."""
    _log.debug("a stream ended while it was read: %r", error)


@dataclass(frozen=True, slots=True)
class DoorLimits:
    """The limits that a door checks requests against."""

    decoders: RequestDecoders
    connections: StreamQuotas
    requests: RequestMemory
    node_requests: RequestMemory
    """Those of the inter-broker listener: clients that fill their budget do not hold up followers."""
    clients: ClientNames = field(default_factory=ClientNames)


class BrokerDoor:
    """Serves the streams of one listener for clients, or of the inter-broker listener."""

    def __init__(
        self,
        channel: RequestChannel,
        new_session: Callable[[str], Session],
        limits: DoorLimits,
        gate: Gate,
        convert: Callable[[ProduceRequest], Awaitable[None] | None] = lambda body: None,
    ) -> None:
        """`new_session` makes the session of a fetch stream from an address. `convert`: if given, a produce stream
        waits for it before its request queues. Clients are told of the brokers' endpoints at the listeners of the
        gate's name."""
        self._channel, self._gate = channel, gate
        self._convert = convert
        self.busy = channel.busy.network
        self._new_session = new_session
        self._limits = limits
        self._writing: dict[Processor, int] = {}
        """Streams whose answer is being written, since when (ns, monotonic)."""

    def peers_with_streams(self) -> set[Peer]:
        return {peer_of(address) for address in self._limits.connections.addresses()}

    def writing_since_ms(self) -> dict[Peer, int]:
        """Of each connection with an answer under way, the time of the oldest."""
        oldest: dict[Peer, int] = {}
        for processor, since_ns in self._writing.items():
            peer = peer_of(processor.client_address)
            oldest[peer] = min(oldest.get(peer, since_ns // 1_000_000), since_ns // 1_000_000)
        return oldest

    @property
    def streams(self) -> dict[Api[Any, Any], Stream]:
        """Those of clients."""
        return {PRODUCE: self._produce, FETCH: self._consumer_fetch}

    @property
    def replica_streams(self) -> dict[Api[Any, Any], Stream]:
        """Those of followers. A fetch under a replica's id counts as its acknowledgement, so clients have no access to
        them; the limits on clients' connections do not count them."""
        return {FETCH: self._replica_fetch}

    # -- streams -------------------------------------------------------------------------------------------------------

    async def _produce(self, requests: Any, context: grpc.aio.ServicerContext) -> None:
        await self._stream(_PRODUCE, context, None)

    async def _consumer_fetch(self, requests: Any, context: grpc.aio.ServicerContext) -> None:
        await self._fetch(_FETCH, context)

    async def _replica_fetch(self, requests: Any, context: grpc.aio.ServicerContext) -> None:
        await self._fetch(_REPLICA_FETCH, context)

    async def _fetch(self, kind: _StreamKind, context: grpc.aio.ServicerContext) -> None:
        session = self._new_session(host_of(context.peer()))
        try:
            await self._stream(kind, context, session)
        finally:
            session.close()

    async def _stream(self, kind: _StreamKind, context: grpc.aio.ServicerContext, session: object) -> None:
        address = context.peer()
        try:
            self._gate.must_be_open()
            if kind.is_clients:
                self._limits.connections.connected(address)
        except ApiError as error:
            await abort(context, error)
            return
        processor = Processor(self._channel, address, kind.pipelined_max, self._gate.listener)
        reader = asyncio.create_task(self.busy.timed(self._read(kind, context, processor, session)))
        watch(reader, _note_failure)
        try:
            await self.busy.timed(self._answer(kind, context, processor))
            reader.result()
        except InvalidRequestError as error:
            await abort(context, error)
        finally:
            reader.cancel()
            processor.close()
            if kind.is_clients:
                self._limits.connections.disconnected(address)

    async def _read(
        self, kind: _StreamKind, context: grpc.aio.ServicerContext, processor: Processor, session: object
    ) -> None:
        decoder = self._limits.decoders.of(kind.api)
        requests = self._limits.requests if kind.is_clients else self._limits.node_requests
        intake = requests.open(host_of(processor.client_address))
        client: ClientTraffic | None = None
        try:
            while True:
                await processor.wait_room()
                await intake.wait_turn()
                raw = await context.read()
                if raw is grpc.aio.EOF:
                    return
                lease = intake.arrived(len(raw))
                try:
                    began_ns = self._channel.now_ns()
                    body = decoder.decode(raw)
                    del raw
                    if client is None and kind.is_clients:
                        client = processor.client = self._limits.clients.joined(body.client_id)
                    if client is not None:
                        client.count_in(lease.size)
                    if kind is not _PRODUCE:
                        self._gate.check_asker(kind.api.name, body.replica_id, kind.is_clients)
                    converting = self._convert(body) if kind is _PRODUCE else None
                    if converting is not None:
                        await converting
                    await processor.submit(kind.name, body, session, lease, began_ns)
                except BaseException:
                    lease.release()
                    raise
        finally:
            intake.close()
            if client is not None:
                self._limits.clients.left(client)
            processor.input_ended()

    async def _answer(self, kind: _StreamKind, context: grpc.aio.ServicerContext, processor: Processor) -> None:
        while (request := await processor.next_response()) is not None:
            await self._write(kind, context, processor, request)

    async def _write(
        self, kind: _StreamKind, context: grpc.aio.ServicerContext, processor: Processor, request: Request
    ) -> None:
        is_last = request.is_complete
        try:
            message = request.encoded(lambda answer: kind.message(request, answer))
            request.response = None  # the message has a copy of its records, and may be written for long
            self._writing[processor] = self._channel.now_ns()
            if processor.client is not None:
                processor.client.bytes_out += len(message)
            await context.write(message)
        finally:
            self._writing.pop(processor, None)
            if is_last:
                request.dropped()
        if is_last:
            self._channel.request_sent(request)
