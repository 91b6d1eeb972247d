"""No message is larger than what was received of it, and the largest that may be configured is one of gRPC's."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest

from broker.config.keys.config_table import KEYS
from broker.connections.listener_limits import ListenerLimits
from broker.grpc.outgoing_calls import channel_options
from broker.grpc.servers import server_options

LARGEST = KEYS["socket.request.max.bytes"].high
LIMITS = ListenerLimits(LARGEST or 0, 1 << 40, 60_000, 10, 10, 60_000)


def test_the_largest_request_that_may_be_configured_is_one_that_grpc_can_be_told_of() -> None:
    async def main() -> None:
        grpc.aio.server(options=server_options(LIMITS))
        async with grpc.aio.insecure_channel("127.0.0.1:1", options=channel_options(LIMITS.message_bytes_max)):
            pass
        with pytest.raises(OverflowError):
            grpc.aio.server(options=server_options(replace(LIMITS, message_bytes_max=LIMITS.message_bytes_max + 1)))

    asyncio.run(main())


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_compressed_message_is_refused_unread(compression: grpc.Compression) -> None:
    """The library would read 1 KiB, and hand over 1 MiB."""

    async def main() -> None:
        read: list[Any] = []

        async def answer(messages: Any, context: grpc.aio.ServicerContext) -> bytes:
            read.append(await context.read())
            return b""

        server = grpc.aio.server(options=server_options(LIMITS))
        handlers = {"Ask": grpc.stream_unary_rpc_method_handler(answer)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("any", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            ask = channel.unary_unary("/any/Ask")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await ask(bytes(1 << 20), compression=compression)
            assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED and not read
            await ask(bytes(1 << 20))
            assert read == [bytes(1 << 20)]
        await server.stop(None)

    asyncio.run(main())
