"""The client's transport in production: gRPC, its channels, calls and streams, and its errors made ours.

An edge: the only module of the client that sees gRPC. A foreign exception leaves here as an `ApiError`, mapped once
(`api_error`). A channel belongs to the event loop that made it and is independent of every other channel (own
subchannel pool), so that one broken connection tells nothing about another. Not here: what the bytes mean
(connection.py), which endpoint to ask, and what to do about an error.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any
from urllib.parse import quote

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC's own log goes to stderr; what matters is raised as an error
# gRPC's fork handlers crash children of a process whose channels are busy: 18 of 120 that only ran /bin/true, started
# as Spark starts its JVM; 0 of 120 without them. No use here either: asyncio channels never survive a fork.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# The system's resolver asks what every other program asks (/etc/hosts, nsswitch) and gives all addresses of a name in
# its order; gRPC's own gave up a name in /etc/hosts whose first address did not answer.
os.environ.setdefault("GRPC_DNS_RESOLVER", "native")
import grpc
import grpc.aio

from penstock.client import descriptors, forks
from penstock.client.wire.statuses import MAX_MESSAGE_BYTES, call_cancelled, closed_by_broker, error_of_status
from penstock.client.wire.tls_files import Tls
from penstock.client.wire.transport import ByteStream, Metadata, OnTrailer, unheard
from penstock.errors import ApiError, NetworkError
from penstock.types import Endpoint
from penstock.wire.unary_answer import unary_answer

FIRST_CHANNEL_FILES, CHANNEL_FILES = 12, 2
"""Descriptors that must be free: gRPC's own threads want some with the first channel, and abort the process without."""
CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 3_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.http2.lookahead_bytes", 4 * 1024 * 1024),
)


def dns_target(endpoint: Endpoint) -> str:
    """The endpoint as gRPC's library is to take it: a host may be called `dns`, `unix` or `xds`, which it would take
    for a scheme."""
    return f"dns:///{quote(str(endpoint), safe='[]:')}"


def api_error(error: grpc.RpcError, endpoint: Endpoint, is_tls: bool = False) -> ApiError:
    """Our exception for gRPC's; it names the endpoint."""
    status, details = error.code(), error.details() or "no details"
    return error_of_status(status.name, details, error.trailing_metadata(), endpoint, is_tls)


def _cancelled(endpoint: Endpoint) -> BaseException:
    """grpc.aio raises CancelledError both when our task is cancelled and when only the call is."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return asyncio.CancelledError()
    return call_cancelled(endpoint)


class GrpcStream:
    """One bidirectional stream."""

    __slots__ = ("_call", "_connecting", "_endpoint", "_is_connected", "_is_tls")

    def __init__(self, call: Any, endpoint: Endpoint, is_tls: bool = False) -> None:
        self._call = call
        self._endpoint = endpoint
        self._is_tls = is_tls
        self._is_connected = False
        self._connecting: asyncio.Future[None] | None = None

    async def write(self, message: bytes) -> None:
        try:
            if not self._is_connected:
                await self._wait_connected()
            await self._call.write(message)
        except grpc.RpcError as error:
            raise api_error(error, self._endpoint, self._is_tls) from None
        except asyncio.CancelledError:
            raise _cancelled(self._endpoint) from None
        except asyncio.InvalidStateError:  # the call ended before this write: its status says why
            raise await self._ended() from None

    async def _wait_connected(self) -> None:
        """gRPC's own wait, in a task that `cancel` can end: gRPC does not end it when the call is cancelled."""
        self._connecting = asyncio.ensure_future(self._call.wait_for_connection())
        await self._connecting
        self._is_connected = True

    async def read(self) -> bytes:
        try:
            message: Any = await self._call.read()
        except grpc.RpcError as error:
            raise api_error(error, self._endpoint, self._is_tls) from None
        except asyncio.CancelledError:
            raise _cancelled(self._endpoint) from None
        if message is grpc.aio.EOF:
            raise await self._ended()
        return message  # type: ignore[no-any-return]

    async def _ended(self) -> ApiError:
        status = await self._call.code()
        details, trailing = await self._call.details(), await self._call.trailing_metadata()
        if status is grpc.StatusCode.OK:
            return closed_by_broker(self._endpoint)
        error = grpc.aio.AioRpcError(status, grpc.aio.Metadata(), trailing, details)
        return api_error(error, self._endpoint, self._is_tls)

    def cancel(self) -> None:
        self._call.cancel()
        if self._connecting is not None:
            self._connecting.cancel()

    def __repr__(self) -> str:
        return f"GrpcStream({self._endpoint})"


class RefusedStream:
    """A stream for which there is no channel; each use raises the reason."""

    __slots__ = ("_reason",)

    def __init__(self, reason: NetworkError) -> None:
        self._reason = reason

    async def write(self, message: bytes) -> None:
        raise self._reason

    async def read(self) -> bytes:
        raise self._reason

    def cancel(self) -> None:
        """Cancels nothing: nothing is under way."""

    def __repr__(self) -> str:
        return f"RefusedStream({self._reason})"


def _new_channel(target: str, tls: Tls | None) -> Any:
    if tls is None:
        return grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)
    credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.cert)
    options: tuple[tuple[str, int | str], ...] = CHANNEL_OPTIONS
    if tls.server_name is not None:
        options += (("grpc.ssl_target_name_override", tls.server_name),)
    return grpc.aio.secure_channel(target, credentials, options=options)


class GrpcChannel:
    """A gRPC channel that passes bytes on as they are. It is made at its first use for which descriptors are free.

    Each channel counts as a user of gRPC's asyncio part, until it is collected. The last one to go ends that part: it
    takes the part's socket out of the event loop's epoll set, and waits for its thread. In a forked child that would be
    the parent's epoll set, and a thread that is not there. A channel of a client that was closed before the fork may be
    collected in the child, so the process that uses gRPC counts as one user more, for ever.
    """

    def __init__(self, endpoint: Endpoint, tls: Tls | None = None, on_trailer: OnTrailer = unheard) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self._on_trailer = on_trailer
        self._is_tls = tls is not None
        self._channel: Any = None
        self._closed = False
        self._calls: dict[str, Any] = {}
        self._streams: dict[str, Any] = {}

    def _opened(self) -> Any:
        """gRPC's channel. NetworkError where this process may not open the files that gRPC needs, and once it is
        closed: gRPC's own error is no ApiError, and nobody would close another channel."""
        if self._closed:
            raise call_cancelled(self._endpoint)
        if self._channel is None:
            short = descriptors.shortage(CHANNEL_FILES if forks.is_grpc_used() else FIRST_CHANNEL_FILES)
            if short:
                raise NetworkError(f"{self._endpoint}: {short}")
            if not forks.is_grpc_used():
                grpc.aio.init_grpc_aio()  # never given back: see GrpcChannel
                forks.grpc_is_used_now()
            self._channel = _new_channel(dns_target(self._endpoint), self._tls)
        return self._channel

    @property
    def is_connected(self) -> bool:
        return self._channel is not None and self._channel.get_state() is grpc.ChannelConnectivity.READY

    async def call(self, method: str, request: bytes, timeout_ms: int, metadata: Metadata = ()) -> bytes:
        known = self._calls.get(method)
        if known is None:
            known = self._calls[method] = self._opened().unary_unary(method)
        more = {"metadata": metadata} if metadata else {}
        call = known(request, timeout=timeout_ms / 1000, **more)
        try:
            answer = await unary_answer(call)
            self._on_trailer(await call.trailing_metadata())
            if answer is None:  # it ended in order, and without a message
                raise closed_by_broker(self._endpoint)
            return answer
        except grpc.RpcError as error:
            self._on_trailer(error.trailing_metadata())
            raise api_error(error, self._endpoint, self._is_tls) from None
        except asyncio.CancelledError:
            raise _cancelled(self._endpoint) from None

    def open_stream(self, method: str, metadata: Metadata = ()) -> ByteStream:
        known = self._streams.get(method)
        if known is None:
            try:
                known = self._streams[method] = self._opened().stream_stream(method)
            except NetworkError as reason:
                return RefusedStream(reason)
        call = known(metadata=metadata) if metadata else known()
        return GrpcStream(call, self._endpoint, self._is_tls)

    async def close(self) -> None:
        self._closed = True
        self._calls.clear()
        self._streams.clear()
        if self._channel is not None:
            await self._channel.close()

    def __repr__(self) -> str:
        return f"GrpcChannel({self._endpoint})"


class GrpcTransport:
    """Makes gRPC channels (penstock.client.wire.transport.ClientTransport)."""

    def connect(self, endpoint: Endpoint, tls: Tls | None = None, on_trailer: OnTrailer = unheard) -> GrpcChannel:
        return GrpcChannel(endpoint, tls, on_trailer)

    def __repr__(self) -> str:
        return "GrpcTransport()"
