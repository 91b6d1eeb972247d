"""The memory that calls take before they are handled: few of one connection are read at once, and a refused one leaves
nothing behind."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast

import grpc
import pytest

from broker.connections.under_way import MESSAGE_MS
from broker.grpc.handlers import Service, add_calls
from broker.grpc.incoming.early_reads import read_at_once
from broker.grpc.incoming.read_turns import READS_MAX, ReadTurns
from broker.grpc.incoming.request_decoder import RequestDecoders
from broker.grpc.open_services import OpenServices
from broker.load.busy_time import BusyTime
from broker.network.request_memory import RequestMemory
from penstock.messages.apis import APIS
from penstock.types import Endpoint
from tests.support.machine import NOW_NS
from tests.support.sinks import CALLER
from tests.support.virtual_time import run_virtual

API = APIS["CreateTopics"]
LARGE_BYTES = 8 << 20
HERE, ELSEWHERE = CALLER.peer, Endpoint("10.0.0.2", 4711)


class Aborted(Exception):
    """As gRPC's own, which is kept in a cycle with the frames that it has passed."""


class Call:
    """One with that message, which is read at once."""

    def __init__(self, message: bytes) -> None:
        self.message = message

    async def read(self) -> bytes:
        return self.message

    async def abort(self, *status: object) -> None:
        raise Aborted(*status)

    def peer(self) -> str:
        return f"ipv4:{HERE.host}:{HERE.port}"


class Server:
    """Takes the handlers as gRPC's does."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}
        self.memory = RequestMemory(LARGE_BYTES * 16)
        service = Service(
            name="service",
            calls={API: self._call},
            streams={},
            decoders=RequestDecoders(LARGE_BYTES * 2),
            memory=self.memory,
            busy=BusyTime(NOW_NS),
            caller_of=lambda context, api: CALLER,
        )
        add_calls(self, service)
        health = grpc.unary_unary_rpc_method_handler(cast(Any, self._check))
        OpenServices(self, read_at_once).add_registered_method_handlers("health", {"Check": health})

    async def _call(self, decoded: Any, context: Any, caller: Any) -> bytes:
        raise AssertionError("it is refused before")

    async def _check(self, request: object, context: object) -> bytes:
        raise AssertionError("it is refused before")

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """The registered ones are enough."""

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        self.handlers |= handlers

    async def refusal(self, method: str, call: Call) -> Aborted:
        with pytest.raises(Aborted) as caught:
            await self.handlers[method].stream_unary(None, call)
        return caught.value


@pytest.mark.parametrize(
    ("method", "size"),
    [
        pytest.param(API.name, LARGE_BYTES, id="too large for its API"),
        pytest.param(API.name, 100_000, id="no message"),
        pytest.param("Check", 100_000, id="too large for a health check"),
    ],
)
def test_the_bytes_of_a_refused_call_are_free_at_once_though_the_refusal_lives_on(method: str, size: int) -> None:
    """Only the cycle collector would free them, which counts objects and not megabytes."""

    async def story() -> None:
        server, call = Server(), Call(b"\xff" * size)
        before = sys.getrefcount(call.message)
        refusal = await server.refusal(method, call)
        after = sys.getrefcount(call.message)
        assert after == before, "a frame that the refusal has passed holds them"
        assert refusal.args and server.memory.statistics().used_bytes == 0

    asyncio.run(story())


class NeverSent(Call):
    """A call whose message does not come."""

    async def read(self) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError


def test_a_message_that_does_not_come_is_waited_for_no_longer_than_any_may_take() -> None:
    async def story() -> None:
        began = asyncio.get_running_loop().time()
        refusal = await Server().refusal(API.name, NeverSent(b""))
        assert refusal.args[0] is grpc.StatusCode.DEADLINE_EXCEEDED and "has not come within 60 s" in refusal.args[1]
        assert asyncio.get_running_loop().time() - began == MESSAGE_MS / 1000

    run_virtual(story())


class Reads:
    """Reads that end when the test says so."""

    def __init__(self) -> None:
        self.turns = ReadTurns()
        self.begun: list[asyncio.Future[bytes]] = []

    def begin(self, peer: Endpoint = HERE) -> asyncio.Future[bytes]:
        async def read() -> bytes:
            self.begun.append(asyncio.get_running_loop().create_future())
            return await self.begun[-1]

        return asyncio.ensure_future(self.turns.read(peer, read))


async def settle() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


def test_a_connection_has_few_calls_that_are_read_and_another_one_does_not_wait() -> None:
    async def story() -> None:
        reads = Reads()
        calls = [reads.begin() for _ in range(READS_MAX + 3)]
        await settle()
        assert len(reads.begun) == READS_MAX
        other = reads.begin(ELSEWHERE)
        await settle()
        reads.begun[-1].set_result(b"other")
        assert await other == b"other"
        calls[READS_MAX].cancel()  # its client has gone before its turn
        reads.begun[0].set_result(b"whole")
        await settle()
        assert calls[0].result() == b"whole" and len(reads.begun) == READS_MAX + 2, "the next in turn is read"
        calls[1].cancel()
        await settle()
        assert len(reads.begun) == READS_MAX + 3
        for begun in reads.begun:
            if not begun.done():
                begun.set_result(b"whole")
        await settle()
        assert all(call.done() for call in calls) and not reads.turns._of

    asyncio.run(story())
