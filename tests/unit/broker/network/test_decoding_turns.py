"""Promises about when a message may be decoded, which both protocols keep: its answer has room, a large one has a
turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from broker.load.long_work import CREDIT_NS, LongWork
from broker.network.answer_turns import SMALL_ELEMENTS
from broker.network.decoding_turns import LONG, DecodingTurns
from broker.network.memory_budget import Lease
from broker.network.request_memory import RequestMemory
from penstock.clock import ManualClock

MIB, MS = 1 << 20, 1_000_000
ANNA, BOB = "User:anna", "User:bob"


class Bench:
    """The memory and the long work of a node; a party that leaves 8 MiB unread has no room."""

    def __init__(self) -> None:
        self.clock = ManualClock(1)
        self.memory, self.work = RequestMemory(8 * MIB), LongWork(self.clock.now_ns)
        self.turns = DecodingTurns(self.memory.turns, self.work)

    def fill(self, party: str = ANNA) -> Lease:
        return self.memory.answer(party, 8 * MIB)

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


def run(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        bench = Bench()
        await scenario(bench)
        await bench.settle()
        assert bench.work.is_free and not bench.memory.turns._lines, "something is held"
        assert not bench.memory.answers._parties

    asyncio.run(main())


def test_a_large_message_whose_answer_has_lost_its_room_at_its_turn_gives_the_turn_back() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.work.turn("another")
        annas, bobs = (asyncio.ensure_future(bench.turns.begins("Metadata", party, LONG)) for party in (ANNA, BOB))
        await bench.settle()
        assert not annas.done() and not bobs.done()
        full = bench.fill()
        bench.work.done("another")
        await bench.settle()
        assert await annas is False and await bobs is True
        bench.turns.done(BOB)
        full.release()

    run(scenario)


def test_whoever_gives_up_while_a_turn_or_room_is_waited_for_keeps_nobody_waiting() -> None:
    async def scenario(bench: Bench) -> None:
        full = bench.fill()
        await bench.work.turn("another")
        for_room = [asyncio.ensure_future(bench.turns.room("Metadata", ANNA)) for _ in range(3)]
        for_turn = [asyncio.ensure_future(bench.turns.begins("Metadata", BOB, LONG)) for _ in range(2)]
        await bench.settle()
        for gone in (for_room[0], for_turn[0]):
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone
        full.release()
        bench.work.done("another")
        await asyncio.gather(*for_room[1:])
        assert await for_turn[1]
        bench.turns.done(BOB)

    run(scenario)


def test_messages_of_a_party_that_wait_for_room_go_on_one_in_each_turn_of_the_loop() -> None:
    """All at once would be decoded for the room of one answer, which is counted some turns later."""

    async def scenario(bench: Bench) -> None:
        full, went_on = bench.fill(), list[int]()

        async def wait(number: int) -> None:
            await bench.turns.room("Metadata", ANNA)
            went_on.append(number)

        waiting = [asyncio.ensure_future(wait(number)) for number in range(10)]
        await bench.settle()
        full.release()
        passed, most = 0, 0
        while passed < len(waiting):
            await asyncio.sleep(0)
            most, passed = max(most, len(went_on) - passed), len(went_on)
        assert most == 1 and went_on == list(range(10))

    run(scenario)


def test_answers_that_wait_for_nothing_wait_for_no_room_and_small_ones_do_if_there_are_many_in_one() -> None:
    async def scenario(bench: Bench) -> None:
        full = bench.fill()
        assert not bench.turns.has_room("Metadata", ANNA) and bench.turns.has_room("Metadata", BOB)
        assert bench.turns.has_room("Fetch", ANNA, 2_000) and bench.turns.has_room("OffsetCommit", ANNA)
        assert not bench.turns.has_room("OffsetCommit", ANNA, SMALL_ELEMENTS + 1)
        await bench.turns.room("OffsetCommit", ANNA, SMALL_ELEMENTS)
        full.release()

    run(scenario)


def test_messages_of_nodes_wait_for_no_turn_and_are_charged_to_nobody() -> None:
    async def scenario(bench: Bench) -> None:
        nodes = DecodingTurns(bench.memory.turns, None)
        began_ns = nodes.now_ns()
        bench.clock.advance(2 * CREDIT_NS // MS)
        nodes.charge("node", began_ns)
        assert bench.work.is_free, "clients rest for none of it"
        await bench.work.turn("a client")
        assert nodes.is_free and await nodes.begins("AlterPartition", "node", 10_000)
        nodes.done("node")
        bench.work.done("a client")

    run(scenario)
