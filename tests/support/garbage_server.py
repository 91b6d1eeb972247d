"""A server that answers every call, and every request on a stream, with the same bytes, which are no message."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from penstock.pb import broker_pb2, controller_pb2, quorum_pb2, replication_pb2
from penstock.types import Endpoint

GARBAGE = (b"\xff" * 10, b"\x12\x82\x10" + b"\x0a\x01\xff" * 700)
"""A number without an end; 2 KiB of a field that is no UTF-8."""
_FILES = (broker_pb2, controller_pb2, quorum_pb2, replication_pb2)


@asynccontextmanager
async def speaking(garbage: bytes) -> AsyncIterator[Endpoint]:
    """Runs such a server, with the methods of every service; yields its address."""

    async def call(request: bytes, context: object) -> bytes:
        return garbage

    async def stream(request_iterator: object, context: Any) -> None:
        while await context.read() is not grpc.aio.EOF:
            await context.write(garbage)

    server = grpc.aio.server()
    for service in [one for file in _FILES for one in file.DESCRIPTOR.services_by_name.values()]:
        handlers = {
            method.name: grpc.stream_stream_rpc_method_handler(stream, None, None)
            if method.client_streaming
            else grpc.unary_unary_rpc_method_handler(call, None, None)
            for method in service.methods
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield Endpoint("127.0.0.1", port)
    finally:
        await server.stop(None)
