"""Metadata of a call and of a stream reaches the peer, by gRPC and by the transport of forked children."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest

from penstock.client.wire.channel import GrpcTransport
from penstock.client.wire.http2_channel import Http2Transport
from penstock.client.wire.transport import ClientTransport
from penstock.types import Endpoint

CALL, STREAM = "/penstock.v1.Test/Call", "/penstock.v1.Test/Stream"
TOKEN = (("authorization", "Bearer a-token"),)


class TellsToken(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers with the token that came with the call."""

    def service(self, details: Any) -> Any:
        async def call(request: bytes, context: Any) -> bytes:
            return _token(context)

        async def stream(requests: Any, context: Any) -> None:
            await context.write(_token(context))

        if details.method == STREAM:
            return grpc.stream_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(call)


def _token(context: Any) -> bytes:
    return str(dict(context.invocation_metadata()).get("authorization", "none")).encode()


@pytest.mark.parametrize("transport", [GrpcTransport(), Http2Transport()], ids=["grpc", "http2"])
def test_a_call_and_a_stream_carry_their_metadata_and_others_none(transport: ClientTransport) -> None:
    async def run() -> list[bytes]:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((TellsToken(),))
        channel = transport.connect(Endpoint("127.0.0.1", server.add_insecure_port("127.0.0.1:0")))
        await server.start()
        try:
            calls = [await channel.call(CALL, b"", 5_000, metadata) for metadata in (TOKEN, ())]
            streams = [channel.open_stream(STREAM, metadata) for metadata in (TOKEN, ())]
            return [*calls, *[await stream.read() for stream in streams]]
        finally:
            await channel.close()
            await server.stop(None)

    assert asyncio.run(run()) == [b"Bearer a-token", b"none"] * 2
