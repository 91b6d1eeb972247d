"""Sends a node's requests to other nodes over gRPC: quorum, controller and broker calls, and fetch streams. An edge.

One channel per address, made when first needed and kept; gRPC reconnects by itself, with a back-off that is kept short
so that a restarted node is found again at once. gRPC's failures become typed errors here.

With TLS there is one for each node at its address, which speaks to the node of that id and cluster only, and a new one
when the certificates have changed: the calls of the old one have RETIRED_SECONDS to end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import grpc.aio
from google.protobuf.message import DecodeError

from broker.grpc import quorum_codec as quorum
from broker.grpc.credentials import channel_credentials, expecting
from broker.grpc.errors import from_rpc_error
from broker.tls.failed_handshakes import FailedHandshakes
from broker.tls.material import NO_CERTIFICATES, Certificates, ListenerCertificates
from metadata.listeners import CONTROLLER_LISTENER
from penstock.clock import SystemClock
from penstock.errors import InvalidRequestError, NetworkError
from penstock.messages.apis import APIS, BY_REQUEST
from penstock.messages.fetch import FetchRequest, FetchResponse
from penstock.types import Endpoint
from penstock.wire import streams
from penstock.wire.message_codec import request_codec, response_codec
from penstock.wire.unary_answer import unary_answer
from raft import messages as raft

_log = logging.getLogger(__name__)
_CLOCK = SystemClock()

MESSAGE_BYTES_OVERHEAD = 1 << 20
REPLICATION_METHOD = "/penstock.v1.Replication/"
FETCH_METHOD = f"{REPLICATION_METHOD}Fetch"
RETIRED_SECONDS: Final = 15.0
"""Longer than any call between nodes takes; a fetch stream is cut then, and opened anew."""


def channel_options(message_bytes_max: int) -> list[tuple[str, Any]]:
    """Options of every channel between nodes."""
    return [
        ("grpc.max_receive_message_length", message_bytes_max + MESSAGE_BYTES_OVERHEAD),
        ("grpc.max_send_message_length", message_bytes_max + MESSAGE_BYTES_OVERHEAD),
        ("grpc.enable_http_proxy", 0),
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.min_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 500),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]


class _SecureChannel(NamedTuple):
    channel: grpc.aio.Channel
    version: int
    """The version of the certificates that it was made with."""


class Peers:
    """All channels of a node. The address of a node is looked up at each call."""

    def __init__(
        self,
        voter_endpoint: Callable[[int], Endpoint | None],
        broker_endpoint: Callable[[int], Endpoint | None],
        message_bytes_max: int,
        certificates: Certificates = NO_CERTIFICATES,
        inter_broker_listener: str = "INTERNAL",
    ) -> None:
        self._certificates, self._inter_broker_listener = certificates, inter_broker_listener
        self._voter_endpoint = voter_endpoint
        self._broker_endpoint = broker_endpoint
        self._options = channel_options(message_bytes_max)
        self._channels: dict[Endpoint, grpc.aio.Channel] = {}
        self._secure: dict[tuple[Endpoint, int], _SecureChannel] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._handshakes = FailedHandshakes()

    def _channel(self, endpoint: Endpoint, listener: str, node_id: int) -> grpc.aio.Channel:
        certificates = self._certificates.of(listener)
        if certificates is not None:
            return self._secure_channel(endpoint, certificates, node_id)
        channel = self._channels.get(endpoint)
        if channel is None:
            channel = self._channels[endpoint] = grpc.aio.insecure_channel(str(endpoint), options=self._options)
        return channel

    def _secure_channel(self, endpoint: Endpoint, certificates: ListenerCertificates, node_id: int) -> grpc.aio.Channel:
        material, found = certificates.current, self._secure.get((endpoint, node_id))
        if found is not None and found.version == material.version:
            return found.channel
        if found is not None:
            closing = asyncio.create_task(found.channel.close(RETIRED_SECONDS), name=f"retired-channel-{endpoint}")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        # A bootstrap server is asked before its id is known: it must show a certificate for the host, as to a client.
        node = self._certificates.node(node_id) if node_id >= 0 else None
        options = [*self._options, *expecting(node)]
        channel = grpc.aio.secure_channel(str(endpoint), channel_credentials(material), options=options)
        self._secure[endpoint, node_id] = _SecureChannel(channel, material.version)
        return channel

    def _controller(self, node_id: int) -> tuple[grpc.aio.Channel, str]:
        endpoint = self._voter_endpoint(node_id)
        if endpoint is None:
            raise NetworkError(f"the address of controller {node_id} is not known here")
        return self._channel(endpoint, CONTROLLER_LISTENER, node_id), f"controller {node_id} at {endpoint}"

    async def close(self) -> None:
        for closing in self._closing:
            closing.cancel()
        secure = [found.channel for found in self._secure.values()]
        await asyncio.gather(*(channel.close() for channel in [*self._channels.values(), *secure]))
        self._channels.clear()
        self._secure.clear()

    # -- quorum: raft's QuorumTransport --------------------------------------------------------------------------------

    async def send(self, node_id: int, request: raft.Request, timeout_ms: int) -> raft.Response:
        """One quorum call; NetworkError or another typed error when there is no answer."""
        api = quorum.api_of(request)
        decode = quorum.response_from_bytes(api)
        raw, method = quorum.request_to_bytes(request), APIS[api].method
        answer: raft.Response = await self._ask(*self._controller(node_id), method, raw, decode, timeout_ms)
        return answer

    # -- controller ----------------------------------------------------------------------------------------------------

    async def call_controller(self, node_id: int, request: Any, timeout_ms: int) -> Any:
        """One call of the controller on `node_id`; its answer, or its typed error."""
        api = BY_REQUEST.get(type(request))
        if api is None or not api.kind.at_controller:
            raise InvalidRequestError(f"no controller call for {type(request).__name__}")
        raw, decode = request_codec(api).encode(request), response_codec(api).decode
        return await self._ask(*self._controller(node_id), api.controller_method, raw, decode, timeout_ms)

    async def call_broker(self, broker_id: int, request: Any, timeout_ms: int) -> Any:
        """One call of another broker, at its listener for brokers; its answer, or its typed error."""
        api = BY_REQUEST.get(type(request))
        if api is None or not api.is_between_brokers:
            raise InvalidRequestError(f"no call of brokers for {type(request).__name__}")
        raw, decode = request_codec(api).encode(request), response_codec(api).decode
        method = f"{REPLICATION_METHOD}{api.name}"
        return await self._ask(*self._broker(broker_id), method, raw, decode, timeout_ms)

    def _broker(self, broker_id: int) -> tuple[grpc.aio.Channel, str]:
        endpoint = self._broker_endpoint(broker_id)
        if endpoint is None:
            raise NetworkError(f"broker {broker_id} is not in the metadata")
        return self._channel(endpoint, self._inter_broker_listener, broker_id), f"broker {broker_id} at {endpoint}"

    async def _ask(
        self,
        channel: grpc.aio.Channel,
        name: str,
        method: str,
        request: bytes,
        decode: Callable[[bytes], Any],
        timeout_ms: int,
    ) -> Any:
        """The answer of another node, or a typed error."""
        try:
            answer = await unary_answer(channel.unary_unary(method)(request, timeout=timeout_ms / 1000))
            if answer is None:
                raise NetworkError(f"{name}: no answer came")
            return decode(answer)
        except grpc.aio.AioRpcError as error:
            self._tell_of_handshake(error, name)
            raise from_rpc_error(error, name) from error
        except DecodeError:
            raise NetworkError(f"{name}: the answer is not a message") from None

    def _tell_of_handshake(self, error: grpc.aio.AioRpcError, name: str) -> None:
        """A waiting node asks again and again; its log says why TLS is in the way."""
        if line := self._handshakes.line(name, error.details() or "", bool(self._secure), _CLOCK.now_ms()):
            _log.warning("%s", line)

    # -- fetch ---------------------------------------------------------------------------------------------------------

    def open_fetch_stream(self, broker_id: int) -> GrpcFetchStream:
        """A fetch stream to another broker; breaks at once when its address is not known."""
        channel, peer = self._broker(broker_id)
        return GrpcFetchStream(channel, peer, self._tell_of_handshake)


class GrpcFetchStream:
    """One bidirectional fetch stream.

    A task of its own writes the requests. gRPC could take an iterator of them instead. But if the other side ends the
    stream, gRPC's task waits on the iterator for ever: cancelling an ended call does not reach that task.
    """

    def __init__(self, channel: grpc.aio.Channel, peer: str, tell: Callable[[grpc.aio.AioRpcError, str], None]) -> None:
        """`tell` hears of a broken stream first."""
        self._peer, self._tell = peer, tell
        self._outgoing: asyncio.Queue[tuple[int, FetchRequest]] = asyncio.Queue()
        self._call = channel.stream_stream(FETCH_METHOD, request_serializer=None, response_deserializer=None)()
        self._writer = asyncio.create_task(self._write(), name=f"fetch-writer-{peer}")

    async def _write(self) -> None:
        try:
            while True:
                correlation_id, request = await self._outgoing.get()
                await self._call.write(streams.fetch_request_to_bytes((correlation_id, ""), request))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # the stream is broken; `receive` reports it
        except Exception:
            self._call.cancel()  # a request that cannot be encoded: let `receive` end
            raise

    def send(self, correlation_id: int, request: FetchRequest) -> None:
        self._outgoing.put_nowait((correlation_id, request))

    async def receive(self) -> tuple[int, FetchResponse]:
        try:
            raw = await self._call.read()
        except grpc.aio.AioRpcError as error:
            self._tell(error, self._peer)
            raise from_rpc_error(error, self._peer) from error
        except asyncio.InvalidStateError as error:
            raise NetworkError(f"{self._peer}: the stream is closed") from error
        except asyncio.CancelledError as error:
            # gRPC raises this for a cancelled call, too; only a cancelled task may end by it.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise NetworkError(f"{self._peer}: the stream was cancelled") from error
        if raw is grpc.aio.EOF:
            raise NetworkError(f"{self._peer}: the stream ended")
        try:
            correlation_id, response = streams.fetch_response_from_bytes(raw)
        except DecodeError as error:
            raise NetworkError(f"the answer to a fetch is not a message: {error}") from None
        if response.error is not None:
            raise response.error
        return correlation_id, response

    def cancel(self) -> None:
        self._writer.cancel()
        self._call.cancel()
