"""Promises of a connection's calls and streams, over a real one: what is no answer is a typed error."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import grpc
import grpc.aio
import pytest

from penstock.client.wire.channel import GrpcTransport
from penstock.client.wire.connection import Connection
from penstock.errors import NetworkError
from penstock.messages.fetch import FetchRequest
from penstock.messages.produce import ProduceRequest
from penstock.types import Endpoint
from penstock.wire.error_trailer import ERROR_CODE_KEY
from tests.support.garbage_server import GARBAGE, speaking
from tests.support.grpc_stub import serve

PATIENCE_S = 60


@pytest.mark.parametrize("garbage", GARBAGE)
def test_an_answer_that_is_no_message_is_a_network_error_which_is_retried(garbage: bytes) -> None:
    async def main() -> None:
        async with speaking(garbage) as endpoint:
            connection = Connection(GrpcTransport().connect(endpoint), endpoint)
            with pytest.raises(NetworkError, match=f"{endpoint}: the answer is not a message"):
                await connection.metadata(None, 5_000)
            produce = connection.open_produce()
            await produce.write(1, ProduceRequest(-1, 5_000, []))
            with pytest.raises(NetworkError, match=f"{endpoint}: the answer is not a message"):
                await produce.read()
            fetch = connection.open_fetch()
            await fetch.write(FetchRequest(-1, -1, 0, 1, 1 << 20, (), ()))
            with pytest.raises(NetworkError, match=f"{endpoint}: the answer is not a message"):
                await fetch.read()
            await connection.close()

    asyncio.run(main())


def test_a_refusal_with_a_garbled_code_is_what_its_status_says() -> None:
    async def refuse(request: Any, context: Any) -> None:
        """As a proxy does, with a trailer that is not ours."""
        await context.abort(grpc.StatusCode.UNAVAILABLE, "no upstream", ((ERROR_CODE_KEY, "503 no upstream"),))

    async def main() -> None:
        server = grpc.aio.server()
        serve(server, "Broker", Metadata=refuse, Fetch=refuse)
        endpoint = Endpoint("127.0.0.1", server.add_insecure_port("127.0.0.1:0"))
        await server.start()
        connection = Connection(GrpcTransport().connect(endpoint), endpoint)
        with pytest.raises(NetworkError, match=f"{endpoint}: UNAVAILABLE: no upstream"):
            await connection.metadata(None, 5_000)
        fetch = connection.open_fetch()
        with pytest.raises(NetworkError, match=f"{endpoint}: UNAVAILABLE: no upstream"):
            await fetch.read()
        await connection.close()
        await server.stop(None)

    asyncio.run(main())


def test_a_cancelled_stream_wakes_a_write_that_waits_for_the_connection() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silent.setblocking(False)
            channel = GrpcTransport().connect(Endpoint(*silent.getsockname()))
            stream = channel.open_stream("/penstock.v1.Broker/Fetch")
            writing = asyncio.ensure_future(stream.write(b"a request"))
            accepted, _ = await asyncio.get_running_loop().sock_accept(silent)
            with accepted:
                assert not writing.done(), "the peer has not said a word yet"
                stream.cancel()
                async with asyncio.timeout(PATIENCE_S):
                    with pytest.raises(NetworkError, match="the call was cancelled"):
                        await writing
                    with pytest.raises(NetworkError, match="the call was cancelled"):
                        await stream.read()
            await channel.close()

    asyncio.run(main())
