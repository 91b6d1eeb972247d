"""Promises of the streams between nodes, over a real connection: what breaks is told, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from broker.grpc.outgoing_calls import Peers
from penstock.errors import NetworkError
from penstock.messages.fetch import FetchRequest
from penstock.messages.topics import DeleteTopicsRequest
from penstock.pb import broker_pb2
from penstock.types import Endpoint
from raft.messages import VoteRequest
from tests.support.garbage_server import GARBAGE, speaking
from tests.support.grpc_stub import serve
from tests.support.malloc_use import needs_mallinfo, used_bytes

SOURCE = 2


async def ends_the_stream(requests: Any, context: grpc.aio.ServicerContext) -> None:
    """Answers one request, then ends the stream by a status of its own."""
    message = await context.read()
    await context.write(broker_pb2.FetchResponse(correlation_id=message.correlation_id))
    await context.abort(grpc.StatusCode.CANCELLED, "gone")


def asking() -> FetchRequest:
    return FetchRequest(1, 101, 500, 1, 1 << 20, [], [])


def with_source(scenario: Callable[[Peers], Awaitable[None]]) -> None:
    async def main() -> None:
        server = grpc.aio.server()
        serve(server, "Replication", Fetch=ends_the_stream)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        peers = Peers(lambda voter_id: None, lambda broker_id: Endpoint("127.0.0.1", port), 1 << 20)
        await scenario(peers)
        await peers.close()
        await server.stop(None)

    asyncio.run(main())


def test_a_fetch_stream_that_the_source_ends_is_an_error_and_leaves_no_task() -> None:
    async def scenario(peers: Peers) -> None:
        before = asyncio.all_tasks()
        stream = peers.open_fetch_stream(SOURCE)
        stream.send(1, asking())
        assert (await stream.receive())[0] == 1
        with pytest.raises(NetworkError):
            await stream.receive()
        stream.cancel()
        for _ in range(10):
            await asyncio.sleep(0.01)
        left = [repr(task) for task in asyncio.all_tasks() - before]
        assert not [task for task in left if "grpc_peers" in task or "_consume_request_iterator" in task]

    with_source(scenario)


def test_a_request_that_cannot_be_encoded_breaks_the_stream_and_not_the_fetcher() -> None:
    async def scenario(peers: Peers) -> None:
        stream = peers.open_fetch_stream(SOURCE)
        stream.send(1 << 70, asking())
        with pytest.raises(NetworkError, match="cancelled"):
            await stream.receive()
        stream.cancel()

    with_source(scenario)


def test_a_voter_is_called_at_the_address_that_it_has_at_that_moment() -> None:
    async def main() -> None:
        async with speaking(GARBAGE[0]) as endpoint:
            voters: dict[int, Endpoint] = {}
            peers = Peers(voters.get, lambda broker_id: None, 1 << 20)
            vote = VoteRequest("cluster", 1, 1, SOURCE, 0, 0, True)
            with pytest.raises(NetworkError, match="the address of controller 2 is not known here"):
                await peers.send(SOURCE, vote, 5_000)
            voters[SOURCE] = endpoint
            with pytest.raises(NetworkError, match="the answer is not a message"):
                await peers.send(SOURCE, vote, 5_000)
            await peers.close()

    asyncio.run(main())


@pytest.mark.parametrize("garbage", GARBAGE)
def test_an_answer_that_is_no_message_is_a_network_error_which_is_retried(garbage: bytes) -> None:
    async def main() -> None:
        async with speaking(garbage) as endpoint:
            peers = Peers({SOURCE: endpoint}.get, lambda broker_id: endpoint, 1 << 20)
            with pytest.raises(NetworkError, match="the answer is not a message"):
                await peers.send(SOURCE, VoteRequest("cluster", 1, 1, SOURCE, 0, 0, True), 5_000)
            with pytest.raises(NetworkError, match="the answer is not a message"):
                await peers.call_controller(SOURCE, DeleteTopicsRequest(()), 5_000)
            stream = peers.open_fetch_stream(SOURCE)
            stream.send(1, asking())
            with pytest.raises(NetworkError, match="not a message"):
                await stream.receive()
            stream.cancel()
            await peers.close()

    asyncio.run(main())


def question() -> VoteRequest:
    return VoteRequest("c", 1, 1, SOURCE, 0, 0, pre_vote=True)


def with_voter(vote: Any, scenario: Callable[[Peers], Awaitable[None]]) -> None:
    async def main() -> None:
        server = grpc.aio.server()
        handlers = {"Vote": vote}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("penstock.v1.Quorum", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        peers = Peers(lambda voter_id: Endpoint("127.0.0.1", port), lambda broker_id: None, 1 << 20)
        await scenario(peers)
        await peers.close()
        await server.stop(None)

    asyncio.run(main())


def test_a_peer_that_answers_nothing_and_says_that_all_is_well_is_an_error() -> None:
    async def nothing(requests: Any, context: Any) -> None:
        await requests.__anext__()

    async def scenario(peers: Peers) -> None:
        with pytest.raises(NetworkError, match=r"controller 2 at .*: no answer came"):
            await peers.send(SOURCE, question(), 60_000)

    with_voter(grpc.stream_stream_rpc_method_handler(nothing), scenario)


@needs_mallinfo
def test_questions_to_a_peer_that_hangs_leave_no_memory_behind() -> None:
    async def hang(request: bytes, context: Any) -> bytes:
        asked.set()
        await asyncio.Event().wait()
        return request

    async def given_up(peers: Peers) -> None:
        asked.clear()
        asking = asyncio.create_task(peers.send(SOURCE, question(), 60_000))
        await asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    async def scenario(peers: Peers) -> None:
        for _ in range(200):
            await given_up(peers)
        before = used_bytes()
        for _ in range(200):
            await given_up(peers)
        assert (used_bytes() - before) / 200 < 200, "gRPC's library kept 960 bytes and more of each"

    asked = asyncio.Event()
    with_voter(grpc.unary_unary_rpc_method_handler(hang), scenario)
