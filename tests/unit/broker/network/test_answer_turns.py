"""Promises about requests whose answers have no room: they are not worked on, cost what came of them at once, and hold
up no other party."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.load.busy_time import BusyTimes
from broker.network.answer_turns import SMALL_ELEMENTS, SWEPT_MIN, AnswerTurns, needs_room
from broker.network.dispatcher import TURN_MS, Dispatcher
from broker.network.failed_requests import FailedRequests
from broker.network.memory_budget import Lease, MemoryBudget
from broker.network.request_channel import SMALL_BYTES, Caller, Request, RequestChannel
from penstock.clock import ManualClock
from penstock.types import Endpoint

ALL_BYTES, ANSWER_BYTES = 1 << 20, 300_000
ANNA, BOB = (Caller(Endpoint("10.0.0.1", port), principal=f"User:{name}") for port, name in ((1, "anna"), (2, "bob")))


class Reader:
    """The far end of every request: an answer is counted in the next turn of the loop, as its connection does it, and
    is read when the test says so."""

    def __init__(self, answers: MemoryBudget) -> None:
        self._answers = answers
        self.unread: list[Lease] = []

    def response_ready(self, request: Request) -> None:
        asyncio.get_running_loop().call_soon(self._count, request.caller.principal)

    def part_ready(self, request: Request) -> None: ...

    def _count(self, party: str) -> None:
        account = self._answers.open(party)
        self.unread.append(account.take(ANSWER_BYTES))
        account.close()

    def read(self) -> None:
        self.unread.pop(0).release()


class Bench:
    """A channel, its dispatcher, and a budget that has room for two answers of a party."""

    def __init__(self) -> None:
        self.clock = ManualClock(1)
        self.answers = MemoryBudget(ALL_BYTES, 1)
        self.turns, self.reader = AnswerTurns(self.answers), Reader(self.answers)
        self.channel = RequestChannel(1_000, BusyTimes(self.clock.now_ns), self.clock.now_ns)
        self.dispatcher = Dispatcher(self.channel, self._handle, FailedRequests(pytest.fail).fail)
        self.handled: list[object] = []

    def _handle(self, request: Request) -> None:
        self.handled.append(request.body)
        self.clock.advance(TURN_MS + 1)
        request.complete("answer")

    async def ask(self, body: object, caller: Caller = ANNA, api: str = "OffsetFetch") -> Request:
        request = Request(api, body, self.reader, caller, self.clock.now_ns)
        request.turns = self.turns if needs_room(api) else None
        await self.channel.send(request)
        return request

    async def settle(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0)


def run(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        bench = Bench()
        bench.dispatcher.start()
        await scenario(bench)
        await bench.dispatcher.stop()
        while bench.reader.unread:
            bench.reader.read()
            await bench.settle()
        assert not bench.turns._aside and not bench.answers._parties, "something is held"

    asyncio.run(main())


def test_however_many_requests_of_a_party_came_at_once_those_are_worked_on_whose_answers_have_room() -> None:
    async def scenario(bench: Bench) -> None:
        for number in range(20):
            await bench.ask(number)
        await bench.settle()
        assert bench.handled == [0, 1]
        for number in range(2, 20):
            bench.reader.read()
            await bench.settle()
            assert bench.handled == list(range(number + 1)), "in their order, one for each that was read"
            assert bench.answers.statistics().used_bytes <= 2 * ANSWER_BYTES

    run(scenario)


def test_requests_of_others_and_those_with_small_answers_are_worked_on_meanwhile() -> None:
    async def scenario(bench: Bench) -> None:
        for number in range(5):
            await bench.ask(number)
        await bench.settle()
        await bench.ask("bob's", BOB)
        await bench.ask("alive", api="Heartbeat")
        await bench.ask("fetch", api="Fetch")
        await bench.settle()
        assert bench.handled == [0, 1, "bob's", "alive", "fetch"]

    run(scenario)


def test_a_request_of_many_elements_needs_room_also_where_its_api_has_small_answers() -> None:
    longest = 249 + 7  # a topic's name, with its size, a partition and an error
    assert SMALL_ELEMENTS * longest <= SMALL_BYTES < (SMALL_ELEMENTS + 1) * longest
    for api in ("FindCoordinator", "OffsetCommit", "Produce"):
        assert not needs_room(api, SMALL_ELEMENTS) and needs_room(api, SMALL_ELEMENTS + 1)
    assert not needs_room("Fetch", 20_000), "its session counts the answer"


def test_a_request_that_is_put_aside_and_abandoned_is_not_worked_on_and_not_kept() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.ask(0)
        await bench.ask(1)
        await bench.settle()
        for number in range(10 * SWEPT_MIN):
            (await bench.ask(number)).abandoned()
        await bench.settle()
        await bench.ask("last")
        await bench.settle()
        (aside,) = bench.turns._aside.values()
        assert len(aside.requests) <= SWEPT_MIN + 1
        bench.reader.read()
        await bench.settle()
        assert bench.handled == [0, 1, "last"]

    run(scenario)


def test_no_further_request_of_a_party_is_decoded_before_the_last_that_is_put_aside_has_had_its_turn() -> None:
    async def scenario(bench: Bench) -> None:
        for number in range(4):
            await bench.ask(number)
        await bench.settle()
        waiting = asyncio.ensure_future(bench.turns.wait("User:anna"))
        await asyncio.wait_for(bench.turns.wait("User:bob"), 60)
        bench.reader.read()
        await bench.settle()
        assert bench.handled == [0, 1, 2] and not waiting.done()
        bench.reader.read()
        await bench.settle()
        assert bench.handled == [0, 1, 2, 3] and not waiting.done(), "the last one's answer has no reader yet"
        bench.reader.read()
        await bench.settle()
        assert waiting.done()
        await waiting

    run(scenario)


def test_reads_that_wait_among_the_long_work_ask_for_room_once_more() -> None:
    async def scenario(bench: Bench) -> None:
        requests = [await bench.ask(number, api="ListGroups") for number in range(6)]
        for _ in range(50):
            await asyncio.sleep(0.01)
        assert bench.handled == [0, 1], "each had room when it came"
        requests[-1].abandoned()
        for number in range(2, 5):
            bench.reader.read()
            for _ in range(50):
                await asyncio.sleep(0.01)
            assert bench.handled == list(range(number + 1))

    run(scenario)
