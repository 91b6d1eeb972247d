"""Promises of a connection's calls and streams, over a real one: what is no answer is a typed error."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest

from penstock.client.wire.channel import GrpcTransport
from penstock.client.wire.connection import Connection
from penstock.client.wire.messages import FetchCall, ProduceCall
from penstock.error_trailer import ERROR_CODE_KEY
from penstock.errors import NetworkError
from penstock.pb import broker_pb2_grpc
from penstock.types import Endpoint
from tests.support.garbage_server import GARBAGE, speaking


@pytest.mark.parametrize("garbage", GARBAGE)
def test_an_answer_that_is_no_message_is_a_network_error_which_is_retried(garbage: bytes) -> None:
    async def main() -> None:
        async with speaking(garbage) as endpoint:
            connection = Connection(GrpcTransport(), endpoint)
            with pytest.raises(NetworkError, match=f"{endpoint}: the answer is not a message"):
                await connection.metadata(None, 5_000)
            produce = connection.open_produce()
            await produce.write(ProduceCall(1, -1, 5_000, (), "test"))
            with pytest.raises(NetworkError, match=f"{endpoint}: the answer is not a message"):
                await produce.read()
            fetch = connection.open_fetch()
            await fetch.write(FetchCall(1, 0, 1, 1 << 20, (), (), "test"))
            with pytest.raises(NetworkError, match="the answer to a fetch is not a message"):
                await fetch.read()
            await connection.close()

    asyncio.run(main())


def test_a_refusal_with_a_garbled_code_is_what_its_status_says() -> None:
    class Proxy(broker_pb2_grpc.BrokerServicer):
        """Refuses every call, with a trailer that is not ours."""

        async def Metadata(self, request: Any, context: Any) -> None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "no upstream", ((ERROR_CODE_KEY, "503 no upstream"),))

        async def Fetch(self, request_iterator: Any, context: Any) -> None:
            await self.Metadata(None, context)

    async def main() -> None:
        server = grpc.aio.server()
        broker_pb2_grpc.add_BrokerServicer_to_server(Proxy(), server)
        endpoint = Endpoint("127.0.0.1", server.add_insecure_port("127.0.0.1:0"))
        await server.start()
        connection = Connection(GrpcTransport(), endpoint)
        with pytest.raises(NetworkError, match=f"{endpoint}: UNAVAILABLE: no upstream"):
            await connection.metadata(None, 5_000)
        fetch = connection.open_fetch()
        with pytest.raises(NetworkError, match=f"{endpoint}: UNAVAILABLE: no upstream"):
            await fetch.read()
        await connection.close()
        await server.stop(None)

    asyncio.run(main())
