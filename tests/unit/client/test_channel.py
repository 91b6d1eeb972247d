"""Promises of a connection's calls and streams, over a real one: what is no answer is a typed error."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.channel import Connection
from penstock.client.messages import FetchCall, ProduceCall
from penstock.errors import NetworkError
from tests.support.garbage_server import GARBAGE, speaking


@pytest.mark.parametrize("garbage", GARBAGE)
def test_an_answer_that_is_no_message_is_a_network_error_which_is_retried(garbage: bytes) -> None:
    async def main() -> None:
        async with speaking(garbage) as endpoint:
            connection = Connection(endpoint)
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
