"""A connection makes no call while the node wants none of this client. A call without the time to wait is not made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.client.wire.connection import Connection
from penstock.client.wire.throttle import Throttle
from penstock.errors import ApiError, NetworkError, PolicyViolationError, ResourceExhaustedError
from penstock.messages.apis import APIS
from penstock.messages.client_apis import CREATE_TOPICS, DELETE_TOPICS, LIST_OFFSETS
from penstock.messages.offsets import ListOffsetsRequest, ListOffsetsResponse
from penstock.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from penstock.types import Endpoint
from penstock.wire.message_codec import response_codec
from penstock.wire.throttle_trailer import Throttled, throttle_trailer
from tests.support.fake_network import FakeNetwork, ServedStream, Trailed
from tests.support.virtual_time import run_virtual

HERE = Endpoint("node", 1)
REQUESTS = {
    LIST_OFFSETS: (ListOffsetsRequest(()), ListOffsetsResponse(())),
    CREATE_TOPICS: (CreateTopicsRequest(()), CreateTopicsResponse(())),
    DELETE_TOPICS: (DeleteTopicsRequest(()), DeleteTopicsResponse(())),
}


class Node:
    """Answers every call at once, with what it tells in the trailer of the next one."""

    def __init__(self) -> None:
        self.tells, self.error = Throttled(), False

    def is_stream(self, method: str) -> bool:
        return False

    async def call(self, method: str, request: bytes) -> Trailed:
        trailer, self.tells = throttle_trailer(self.tells), Throttled()
        if self.error:
            return Trailed(PolicyViolationError("no"), trailer)
        api = next(api for api in REQUESTS if api.method == method)
        return Trailed(response_codec(api).encode(REQUESTS[api][1]), trailer)

    async def stream(self, method: str, stream: ServedStream) -> None:
        raise NotImplementedError


class Bench:
    def __init__(self) -> None:
        self.node, network = Node(), FakeNetwork()
        network.listen(HERE, self.node)
        self.throttle = Throttle(HERE)
        self.connection = Connection(
            network.connect(HERE, None, self.throttle.on_trailer), HERE, throttle=self.throttle
        )

    async def took_ms(self, api: object, timeout_ms: int = 60_000) -> int:
        """How long one call took."""
        began = asyncio.get_running_loop().time()
        await self.connection.call(api, REQUESTS[api][0], timeout_ms)  # type: ignore[index, arg-type]
        return round((asyncio.get_running_loop().time() - began) * 1_000)


def run(story: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        bench = Bench()
        try:
            await story(bench)
        finally:
            await bench.connection.close()

    run_virtual(main())


def test_the_next_call_waits_as_long_as_the_node_said_and_the_one_after_does_not() -> None:
    async def story(bench: Bench) -> None:
        bench.node.tells = Throttled(calls_ms=800)
        assert [await bench.took_ms(LIST_OFFSETS) for _ in range(3)] == [0, 800, 0]
        assert (bench.throttle.time_ms, bench.throttle.time_max_ms) == (800, 800)

    run(story)


def test_a_quota_of_changes_holds_up_changes_alone() -> None:
    async def story(bench: Bench) -> None:
        bench.node.tells = Throttled(100, 4_000)
        took = [await bench.took_ms(api) for api in (CREATE_TOPICS, LIST_OFFSETS, DELETE_TOPICS)]
        assert took == [0, 100, 3_900]

    run(story)


def test_every_api_that_makes_or_deletes_partitions_says_so() -> None:
    assert [api.name for api in APIS.values() if api.changes_partitions] == [
        "CreateTopics",
        "CreatePartitions",
        "DeleteTopics",
    ]


def test_a_call_that_failed_tells_it_too() -> None:
    async def story(bench: Bench) -> None:
        bench.node.tells, bench.node.error = Throttled(calls_ms=800), True
        with pytest.raises(PolicyViolationError):
            await bench.took_ms(LIST_OFFSETS)
        bench.node.error = False
        assert await bench.took_ms(LIST_OFFSETS) == 800

    run(story)


def test_the_longest_wait_counts_and_every_call_waits_for_it() -> None:
    async def story(bench: Bench) -> None:
        for time_ms in (800, 300):
            bench.throttle.on_trailer(throttle_trailer(Throttled(time_ms)))
        assert await asyncio.gather(*(bench.took_ms(LIST_OFFSETS) for _ in range(3))) == [800] * 3

    run(story)


def test_a_call_without_the_time_to_wait_is_not_made_and_its_node_counts_as_reached() -> None:
    async def story(bench: Bench) -> None:
        bench.node.tells = Throttled(calls_ms=5_000)
        await bench.took_ms(LIST_OFFSETS)
        with pytest.raises(ResourceExhaustedError, match=r"used up there for another 5\.0 s"):
            await bench.took_ms(LIST_OFFSETS, timeout_ms=5_000)
        assert asyncio.get_running_loop().time() == pytest.approx(1_000), "it is told at once"
        assert not bench.connection.reach.trouble
        assert await bench.took_ms(LIST_OFFSETS, timeout_ms=5_001) == 5_000

    run(story)


def test_a_call_that_waits_ends_with_its_client() -> None:
    async def story(bench: Bench) -> None:
        bench.node.tells = Throttled(calls_ms=5_000)
        await bench.took_ms(LIST_OFFSETS)
        waiting = asyncio.ensure_future(bench.took_ms(LIST_OFFSETS))
        await asyncio.sleep(1)
        await bench.connection.close()
        with pytest.raises(NetworkError):
            await waiting
        assert isinstance(waiting.exception(), ApiError)
        assert asyncio.get_running_loop().time() == pytest.approx(1_001)

    run(story)
