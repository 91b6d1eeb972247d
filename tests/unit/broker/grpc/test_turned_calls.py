"""Promises about the messages of clients: none is read or decoded while its answer has no room, large ones take turns,
and whoever gives up leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from broker.grpc.handlers import Service, add_calls
from broker.grpc.incoming.call_turns import OF_PARTY
from broker.grpc.incoming.read_turns import READS_MAX
from broker.grpc.incoming.request_decoder import RequestDecoder, RequestDecoders
from broker.grpc.incoming.turned_decoder import FEW, DecodedMessage
from broker.load.busy_time import BusyTime
from broker.load.long_work import LongWork
from broker.network.decoding_turns import LONG
from broker.network.memory_budget import Lease
from broker.network.request_channel import Caller
from broker.network.request_memory import RequestMemory
from penstock.messages.apis import APIS
from penstock.pb import broker_pb2 as pb
from penstock.pb import groups_pb2
from penstock.types import Endpoint
from tests.support.machine import NOW_NS

MIB = 1 << 20
ANNA = Caller(Endpoint("10.0.0.1", 1), principal="User:anna")
SMALL = pb.MetadataRequest(topics=["t"]).SerializeToString()
LARGE = pb.MetadataRequest(topics=["t" * 30] * LONG).SerializeToString()
MANY_COMMITS = groups_pb2.OffsetCommitRequest(
    group_id="g", partitions=[groups_pb2.OffsetCommitPartition()] * 2_000
).SerializeToString()


class Aborted(Exception):
    """The call was refused."""


class Call:
    """A call whose message comes when the test says so."""

    def __init__(self) -> None:
        self.is_read = False
        self._message: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def send(self, message: bytes) -> None:
        self._message.set_result(message)

    async def read(self) -> bytes:
        self.is_read = True
        return await self._message

    async def abort(self, code: grpc.StatusCode, *status: object) -> None:
        raise Aborted(code)


async def until(condition: Callable[[], object]) -> None:
    for _ in range(6_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


class Node:
    """The listener of one node, without a network; its answers to Metadata are done at once."""

    def __init__(self, *, is_of_clients: bool = True) -> None:
        self.memory, self.work = RequestMemory(8 * MIB), LongWork(NOW_NS)
        self.decoders, self.handlers = RequestDecoders(MIB), dict[str, Any]()
        self.handled: list[DecodedMessage] = []
        self.asked = 0
        calls = {APIS[name]: self._call for name in ("Metadata", "OffsetCommit")}
        service = Service(
            name="any",
            calls=calls,
            streams={},
            decoders=self.decoders,
            memory=self.memory,
            busy=BusyTime(NOW_NS),
            caller_of=self._caller,
            work=self.work if is_of_clients else None,
        )
        add_calls(self, service)

    def _caller(self, context: object, api: object) -> Caller:
        self.asked += 1
        return ANNA

    async def _call(self, decoded: DecodedMessage, context: Any, caller: Caller) -> bytes:
        self.handled.append(decoded)
        return b"done"

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """The registered ones are enough."""

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        self.handlers |= handlers

    def begin(self, call: Call, api: str = "Metadata") -> asyncio.Future[bytes]:
        return asyncio.ensure_future(self.handlers[api].stream_unary(None, cast(Any, call)))

    def fill(self) -> Lease:
        """The party's answers have no more room."""
        return self.memory.answer("User:anna", 8 * MIB)

    async def settle(self) -> None:
        for _ in range(40):
            await asyncio.sleep(0)


def run(scenario: Callable[[Node], Awaitable[None]], *, is_of_clients: bool = True) -> None:
    async def main() -> None:
        node = Node(is_of_clients=is_of_clients)
        await scenario(node)
        await node.settle()
        await until(lambda: node.work.is_free)  # the work on a large request rests after it on a busy machine
        assert node.memory.statistics().used_bytes == 0, "something is held"
        assert not node.memory.turns._lines and not node.memory.answers._parties

    asyncio.run(main())


def test_a_message_that_comes_when_its_answer_has_lost_its_room_is_not_decoded_before_there_is_room_again() -> None:
    async def scenario(node: Node) -> None:
        calls = [Call() for _ in range(READS_MAX)]
        served = [node.begin(call) for call in calls]
        await node.settle()
        assert all(call.is_read for call in calls)
        full = node.fill()
        for call in calls:
            call.send(SMALL)
        await node.settle()
        assert node.decoders.received_bytes()["Metadata"] == 0 and not node.handled
        assert node.memory.statistics().used_bytes == len(calls) * len(SMALL), "their bytes count meanwhile"
        full.release()
        assert await asyncio.gather(*served) == [b"done"] * len(calls)

    run(scenario)


def test_a_call_that_was_begun_before_the_answers_filled_up_is_not_read_at_its_turn() -> None:
    async def scenario(node: Node) -> None:
        calls = [Call() for _ in range(3 * READS_MAX)]
        served = [node.begin(call) for call in calls]
        await node.settle()
        full = node.fill()
        for call in calls:
            call.send(SMALL)
        await node.settle()
        assert [call.is_read for call in calls] == [True] * READS_MAX + [False] * 2 * READS_MAX
        full.release()
        assert await asyncio.gather(*served) == [b"done"] * len(calls)

    run(scenario)


def test_messages_that_wait_for_room_have_a_share_of_the_memory_and_the_next_one_is_refused() -> None:
    async def scenario(node: Node) -> None:
        calls = [Call() for _ in range(READS_MAX)]
        served = [node.begin(call) for call in calls]
        await node.settle()
        full, taken = node.fill(), node.memory.small.open("User:anna").take(MIB // 2)
        for call in calls:
            call.send(SMALL)
        refused = await asyncio.gather(*served, return_exceptions=True)
        assert [str(error) for error in refused] == [str(Aborted(grpc.StatusCode.RESOURCE_EXHAUSTED))] * len(calls)
        taken.release()
        full.release()

    run(scenario)


def test_a_large_message_waits_for_its_turn_and_a_small_one_does_not() -> None:
    async def scenario(node: Node) -> None:
        await node.work.turn("another")
        large, small = Call(), Call()
        served = node.begin(large)
        large.send(LARGE)
        await node.settle()
        small.send(SMALL)
        assert await node.begin(small) == b"done"
        assert not served.done() and len(node.handled) == 1
        node.work.done("another")
        assert await served == b"done"

    run(scenario)


@pytest.mark.parametrize(("elements", "waits"), [(FEW - 1, False), (FEW, True)])
def test_a_message_that_might_be_large_waits_too_and_is_none(elements: int, waits: bool) -> None:
    """Its elements are not counted to their end before its turn: a walk over 256 takes 3 ms of the loop."""

    async def scenario(node: Node) -> None:
        await node.work.turn("another")
        call = Call()
        call.send(pb.MetadataRequest(topics=["t" * 200] * elements).SerializeToString())
        served = node.begin(call)
        await node.settle()
        assert served.done() is not waits
        node.work.done("another")
        assert await served == b"done"
        assert [one.is_large for one in node.handled] == [False]

    run(scenario)


def test_few_calls_of_a_party_are_decoded_in_one_turn_of_the_loop() -> None:
    async def scenario(node: Node) -> None:
        calls = [Call() for _ in range(READS_MAX)]
        served = [node.begin(call) for call in calls]
        await node.settle()
        for call in calls:
            call.send(SMALL)
        decoded = []
        while len(node.handled) < len(calls):
            before = len(node.handled)
            await asyncio.sleep(0)
            decoded.append(len(node.handled) - before)
        assert max(decoded) <= OF_PARTY < READS_MAX
        await asyncio.gather(*served)

    run(scenario)


def test_a_large_message_asks_for_room_again_at_its_turn() -> None:
    async def scenario(node: Node) -> None:
        await node.work.turn("another")
        large = Call()
        served = node.begin(large)
        large.send(LARGE)
        await node.settle()
        full = node.fill()
        node.work.done("another")
        await node.settle()
        assert node.decoders.received_bytes()["Metadata"] == 0 and node.work.is_free, "the turn is for others"
        full.release()
        assert await served == b"done"

    run(scenario)


def test_a_call_that_ends_while_its_message_waits_gives_everything_back() -> None:
    """A call that is cancelled, or past its deadline, is cancelled by gRPC wherever it is."""

    async def scenario(node: Node) -> None:
        for of_room in (True, False):
            full = node.fill() if of_room else None
            if full is None:
                await node.work.turn("another")
            call, unread = Call(), Call()
            if full is not None:
                full.release()
            served = [node.begin(call)]
            await node.settle()
            if full is not None:
                full = node.fill()
                served.append(node.begin(unread))
            call.send(LARGE)
            await node.settle()
            assert not any(one.done() for one in served) and node.memory.statistics().used_bytes == len(LARGE)
            for one in served:
                one.cancel()
                with suppress(asyncio.CancelledError):
                    await one
            assert node.memory.statistics().used_bytes == 0
            if full is not None:
                full.release()
            else:
                node.work.done("another")
            await node.settle()
            later = Call()
            later.send(LARGE)
            assert await node.begin(later) == b"done", "the next one waits for none of them"
            await node.settle()

    run(scenario)


@pytest.mark.parametrize("deadline_s", [None, 1.0])
def test_a_call_whose_client_has_left_or_waits_no_more_holds_nothing(deadline_s: float | None) -> None:
    """By gRPC itself, which cancels a call for both."""

    async def main() -> None:
        node, server = Node(), grpc.aio.server()
        server.add_registered_method_handlers("any", node.handlers)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.stream_unary("/any/Metadata")(timeout=deadline_s)
            await until(lambda: node.asked)
            full = node.fill()
            await call.write(LARGE)
            await until(lambda: node.memory.statistics().used_bytes)
            if deadline_s is None:
                call.cancel()
            await until(lambda: not node.memory.statistics().used_bytes)
            full.release()
            assert await channel.unary_unary("/any/Metadata")(LARGE, timeout=60) == b"done"
        assert len(node.handled) == 1 and not node.memory.turns._lines
        await server.stop(None)

    asyncio.run(main())


def test_a_call_with_small_answers_waits_for_room_only_where_it_has_many_elements() -> None:
    async def scenario(node: Node) -> None:
        full, few, many = node.fill(), Call(), Call()
        few.send(groups_pb2.OffsetCommitRequest(group_id="g").SerializeToString())
        assert await node.begin(few, "OffsetCommit") == b"done"
        many.send(MANY_COMMITS)
        served = node.begin(many, "OffsetCommit")
        await node.settle()
        assert not served.done()
        full.release()
        assert await served == b"done"

    run(scenario)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(("is_of_clients", "message"), [(True, LARGE), (True, SMALL), (False, LARGE)])
def test_a_call_knows_whether_a_client_has_sent_it_many_elements(
    is_of_clients: bool, message: bytes, waits: bool
) -> None:
    async def scenario(node: Node) -> None:
        if waits:
            await node.work.turn("another")
        call = Call()
        call.send(message)
        served = node.begin(call)
        await node.settle()
        if waits:
            node.work.done("another")
        assert await served == b"done"
        assert [one.is_large for one in node.handled] == [is_of_clients and message is LARGE]

    run(scenario, is_of_clients=is_of_clients)


def test_a_large_message_of_a_node_waits_for_no_turn_of_clients() -> None:
    async def scenario(node: Node) -> None:
        await node.work.turn("a client")
        call = Call()
        call.send(LARGE)
        assert await node.begin(call) == b"done"
        node.work.done("a client")

    run(scenario, is_of_clients=False)


def test_elements_are_counted_no_further_than_is_asked_however_large_a_message_is() -> None:
    decoder = RequestDecoder(APIS["Metadata"], 1 << 20)
    assert decoder.elements(SMALL, 257) == 0, "too small to have many"
    assert decoder.elements(LARGE, 257) == LONG and decoder.elements(LARGE, 50) == 50
    assert decoder.elements(b"\x0a\x00" * 400_000, 257) == 257 and decoder.elements(b"\xff" * 5_000, 257) == 257
    assert decoder.received_bytes == decoder.refused == 0, "it has still to be decoded"
