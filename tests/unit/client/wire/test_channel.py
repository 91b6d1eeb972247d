"""A call whose caller is cancelled gives its memory back, and a channel that was closed says so."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import grpc.aio
import pytest

from penstock.client.wire.channel import GrpcChannel
from penstock.errors import ApiError, NetworkError
from penstock.types import Endpoint
from tests.support.malloc_use import needs_mallinfo, used_bytes

CALLS = 200
METHOD = "/test.Test/Wait"
LEFT_BYTES_MAX = 200
"""The bytes that a call may leave; gRPC's library kept 960 and more."""


@needs_mallinfo
def test_calls_that_are_cancelled_leave_no_memory_behind() -> None:
    async def story() -> None:
        begun, ended = asyncio.Event(), [0]

        async def wait(request: bytes, context: Any) -> bytes:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended[0] += 1
            return request

        server = grpc.aio.server()
        handlers = {"Wait": grpc.unary_unary_rpc_method_handler(wait)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Test", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        channel = GrpcChannel(Endpoint("127.0.0.1", port))

        async def cancelled() -> None:
            begun.clear()
            call = asyncio.create_task(channel.call(METHOD, b"x" * 100, timeout_ms=60_000))
            await begun.wait()
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
            assert call.cancelled()

        for _ in range(CALLS):
            await cancelled()
        before = used_bytes()
        for _ in range(CALLS):
            await cancelled()
        left = (used_bytes() - before) / CALLS
        await channel.close()
        await server.stop(None)
        assert ended[0] == 2 * CALLS, "the server hears of it"
        assert left < LEFT_BYTES_MAX

    asyncio.run(story())


@pytest.mark.parametrize("is_used", [False, True])
def test_a_channel_that_was_closed_refuses_calls_and_streams(is_used: bool) -> None:
    async def story() -> None:
        server = grpc.aio.server()
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        channel = GrpcChannel(Endpoint("127.0.0.1", port))
        if is_used:
            with pytest.raises(ApiError):
                await channel.call(METHOD, b"", timeout_ms=60_000)
        await channel.close()
        for method in (METHOD, f"{METHOD}More"):
            with pytest.raises(NetworkError, match="the call was cancelled"):
                await channel.call(method, b"", timeout_ms=60_000)
            with pytest.raises(NetworkError, match="the call was cancelled"):
                await channel.open_stream(method).read()
        await server.stop(None)

    asyncio.run(story())


def test_a_call_that_ends_in_order_without_an_answer_is_an_error() -> None:
    async def story() -> None:
        async def no_answer(requests: Any, context: Any) -> None:
            await requests.__anext__()

        server = grpc.aio.server()
        handlers = {"Wait": grpc.stream_stream_rpc_method_handler(no_answer)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Test", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        channel = GrpcChannel(Endpoint("127.0.0.1", port))
        with pytest.raises(NetworkError, match="the broker closed the stream"):
            await channel.call(METHOD, b"", timeout_ms=60_000)
        await channel.close()
        await server.stop(None)

    asyncio.run(story())
