"""Answers of calls count until their clients have read them, but tiny ones, and who does not read is known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import grpc.aio

from broker.connections.connection_watch import NoStreams
from broker.grpc.client_calls import _encoded
from broker.grpc.handlers import Call as CallOfService
from broker.grpc.handlers import Service, add_calls
from broker.grpc.incoming.request_decoder import RequestDecoders
from broker.grpc.servers import CONNECTION_STREAMS_MAX
from broker.grpc.unread_answers import FREE_BYTES, UnreadAnswers, WithCalls
from broker.load.busy_time import BusyTime
from broker.network.request_channel import _NOWHERE, Caller, Request
from broker.network.request_memory import ANSWER_COPIES, RequestMemory
from penstock.messages.api import Api
from penstock.messages.apis import APIS
from penstock.pb import broker_pb2 as pb
from penstock.pb import groups_pb2
from penstock.types import Endpoint
from tests.support.machine import NOW_NS

MIB = 1 << 20
SIZES = (0, FREE_BYTES, FREE_BYTES + 1)
HERE = Caller(Endpoint("10.0.0.1", 1), "OUT", "User:anna")


class Call:
    def __init__(self) -> None:
        self.ended: list[Callable[[Any], None]] = []

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self.ended.append(callback)

    def end(self) -> None:
        for callback in self.ended:
            callback(self)


async def until(condition: Callable[[], object]) -> None:
    for _ in range(6_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


def test_a_large_answer_counts_until_its_call_ends_and_its_connection_is_known_to_write() -> None:
    now_ms, memory = [7], RequestMemory(64 * MIB)
    unread = UnreadAnswers(lambda: now_ms[0])
    calls = [Call(), Call(), Call()]
    unread.count(bytes(FREE_BYTES), calls[0], HERE, memory)
    assert not calls[0].ended and not memory.answers.statistics().used_bytes
    unread.count(bytes(MIB), calls[1], HERE, memory)
    now_ms[0] = 9
    unread.count(bytes(MIB), calls[2], HERE, memory)
    assert memory.answers.statistics().used_bytes == 2 * ANSWER_COPIES * MIB
    assert WithCalls(NoStreams(), unread).writing_since_ms() == {HERE.peer: 7}
    calls[1].end()
    assert unread.writing_since_ms() == {HERE.peer: 9}
    calls[2].end()
    assert not unread.writing_since_ms() and not memory.answers.statistics().used_bytes


def test_the_small_answers_of_a_connections_calls_count_together() -> None:
    memory, unread = RequestMemory(64 * MIB), UnreadAnswers(lambda: 7)
    for _ in range(CONNECTION_STREAMS_MAX):
        unread.count(bytes(60_000), Call(), HERE, memory)
    assert memory.answers.statistics().used_bytes == ANSWER_COPIES * CONNECTION_STREAMS_MAX * 60_000
    assert CONNECTION_STREAMS_MAX * FREE_BYTES <= MIB, "what does not count is little for a whole connection"


def test_calls_of_a_party_wait_unread_while_its_answers_fill_its_share_and_others_do_not() -> None:
    async def main() -> None:
        memory = RequestMemory(8 * MIB)
        leases = [memory.answer("User:anna", MIB) for _ in range(3)]
        waiting = asyncio.ensure_future(memory.wait_for_answers("User:anna"))
        await asyncio.wait_for(memory.wait_for_answers("User:bob"), 60)
        assert not waiting.done()
        leases.pop().release()
        await asyncio.wait_for(waiting, 60)

    asyncio.run(main())


def test_a_small_answer_of_a_call_with_small_ones_waits_for_no_unread_answer() -> None:
    async def main() -> None:
        memory = RequestMemory(8 * MIB)
        full = memory.answer("User:anna", 8 * MIB)
        answers = {size: asyncio.ensure_future(_encoded(asked("Heartbeat", size), bytes, memory)) for size in SIZES}
        other = asyncio.ensure_future(_encoded(asked("Metadata", 0), bytes, memory))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [answer.done() for answer in answers.values()] == [True, True, False] and not other.done()
        full.release()
        assert [len(await answer) for answer in answers.values()] == list(SIZES) and await other == b""

    asyncio.run(main())


def asked(api: str, size: int) -> Request:
    """A call whose answer has so many bytes."""
    request = Request(api, None, _NOWHERE, HERE, NOW_NS)
    request.complete(size)
    return request


def service(calls: Mapping[Api[Any, Any], CallOfService], memory: RequestMemory) -> Service:
    return Service(
        name="any",
        calls=calls,
        streams={},
        decoders=RequestDecoders(MIB),
        memory=memory,
        busy=BusyTime(NOW_NS),
        caller_of=lambda *_: HERE,
    )


def test_a_call_with_small_answers_is_read_beside_unread_ones_of_its_party() -> None:
    async def main() -> None:
        memory, server = RequestMemory(64 * MIB), grpc.aio.server()

        async def call(decoded: Any, context: grpc.aio.ServicerContext, caller: Caller) -> bytes:
            return b"done"

        calls = {api: call for api in APIS.values() if api.name in ("Metadata", "Heartbeat")}
        add_calls(server, service(calls, memory))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        full = memory.answer("User:anna", 64 * MIB)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            waiting = asyncio.ensure_future(_call(channel, "/any/Metadata", pb.MetadataRequest()))
            assert await _call(channel, "/any/Heartbeat", groups_pb2.HeartbeatRequest()) == b"done"
            assert not waiting.done()
            full.release()
            assert await waiting == b"done"
        await server.stop(None)

    asyncio.run(main())


async def _call(channel: grpc.aio.Channel, method: str, request: Any) -> Any:
    return await channel.unary_unary(method)(request.SerializeToString(), timeout=60)


def test_an_answer_that_a_client_does_not_read_is_under_way_until_it_is_read() -> None:
    """By gRPC itself: the end of a call is when its answer has left."""

    async def main() -> None:
        api = next(api for api in APIS.values() if api.name == "Metadata")
        memory, unread, server = RequestMemory(64 * MIB), UnreadAnswers(lambda: 5), grpc.aio.server()

        async def call(decoded: Any, context: grpc.aio.ServicerContext, caller: Caller) -> bytes:
            return bytes(2 * MIB)

        add_calls(server, service({api: call}, memory), unread=unread)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536)]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            asked = channel.unary_stream("/any/Metadata")(pb.MetadataRequest().SerializeToString())
            await until(unread.writing_since_ms)
            assert unread.writing_since_ms() == {HERE.peer: 5}
            assert memory.answers.statistics().used_bytes == 2 * ANSWER_COPIES * MIB
            await asked.read()
            await until(lambda: not unread.writing_since_ms())
        assert not memory.answers.statistics().used_bytes
        await server.stop(None)

    asyncio.run(main())
