"""A service (fake_network.Service) over real gRPC: the same bytes, the same errors, on a loopback port."""

from __future__ import annotations

import contextlib
from typing import Any

import grpc
import grpc.aio

from penstock.errors import ApiError
from penstock.wire.error_trailer import trailer_of
from tests.support.certificates import key_and_chain
from tests.support.fake_network import Service, Trailed

MAX_MESSAGE_BYTES = 128 * 1024 * 1024
OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
]


async def serve(service: Service, port: int = 0, credentials: Any = None) -> tuple[grpc.aio.Server, int]:
    """Starts a server, with TLS where it has credentials; returns it and its port."""
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((_Handlers(service),))
    address = f"127.0.0.1:{port}"
    port = server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
    await server.start()
    return server, port


def server_credentials(keystore: bytes, client_ca: bytes | None = None) -> Any:
    """A TLS server has them; with an authority for clients, it takes no client without a certificate of it."""
    return grpc.ssl_server_credentials([key_and_chain(keystore)], client_ca, client_ca is not None)


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Passes bytes on as they are."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def service(self, details: Any) -> Any:
        method: str = details.method

        async def call(request: bytes, context: Any) -> bytes:
            more: tuple[tuple[str, str], ...] = ()
            try:
                answer = await self._service.call(method, request)
                response, more = answer if isinstance(answer, Trailed) else (answer, ())
                if isinstance(response, ApiError):
                    raise response
                context.set_trailing_metadata(more)
                return response
            except ApiError as error:
                await context.abort(grpc.StatusCode.INTERNAL, str(error), trailer_of(error) + more)
                raise AssertionError from None

        async def stream(requests: Any, context: Any) -> None:
            try:
                with contextlib.suppress(EOFError):  # the client is gone
                    await self._service.stream(method, _Served(context))
            except ApiError as error:
                if not context.cancelled():
                    await context.abort(grpc.StatusCode.INTERNAL, str(error), trailer_of(error))

        if self._service.is_stream(method):
            return grpc.stream_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(call)


class _Served:
    """A stream as its service sees it."""

    def __init__(self, context: Any) -> None:
        self._context = context

    async def read(self) -> bytes:
        message: Any = await self._context.read()
        if message is grpc.aio.EOF:
            raise EOFError("the client has ended the stream")
        return message  # type: ignore[no-any-return]

    async def write(self, message: bytes) -> None:
        await self._context.write(message)
