"""The largest request that may be configured is one that gRPC can be told of."""

from __future__ import annotations

import asyncio
from dataclasses import replace

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
