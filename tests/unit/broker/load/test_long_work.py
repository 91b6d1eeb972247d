"""Promises of the turns at long work on the event loop: one piece at a time, parties in turn, and time for all else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from broker.load.busy_time import BusyTimes
from broker.load.long_work import CREDIT_NS, PIECE_NS, REST, LongWork
from broker.network.dispatcher import Dispatcher
from broker.network.request_channel import Caller, Request, RequestChannel
from penstock.clock import ManualClock
from penstock.types import Endpoint, ListenerType
from tests.support.virtual_time import run_virtual

CREDIT_S, MS = CREDIT_NS / 1e9, 1_000_000


class Bench:
    """Pieces that take as long as the test says, by a clock that stands still otherwise but for the loop's time."""

    def __init__(self) -> None:
        self.worked_ns = 0
        self._loop = asyncio.get_running_loop()
        self.work = LongWork(self.now_ns)
        self.began: list[tuple[str, float]] = []
        self._start = self._loop.time()

    def now_ns(self) -> int:
        return round(self._loop.time() * 1e9) + self.worked_ns

    async def piece(self, party: str, ns: int) -> None:
        await self.work.turn(party)
        self.began.append((party, round(self._loop.time() - self._start, 6)))
        self.worked_ns += ns
        self.work.done(party)

    @property
    def parties(self) -> str:
        return "".join(party for party, _ in self.began)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await test()

    run_virtual(main())


def test_what_comes_now_and_then_waits_for_nothing() -> None:
    async def test() -> None:
        bench = Bench()
        for _ in range(10):
            await bench.piece("a", CREDIT_NS)
            await asyncio.sleep((REST + 0.1) * CREDIT_S)
        every_s = (REST + 0.1) * CREDIT_S
        assert [at for _, at in bench.began] == [round(number * every_s, 6) for number in range(10)]

    run(test)


def test_work_that_goes_on_has_a_part_of_the_loop_whoever_does_it() -> None:
    async def test() -> None:
        bench = Bench()
        async with asyncio.TaskGroup() as group:
            for number in range(100):
                group.create_task(bench.piece(f"party-{number % 7}", 10 * MS))
        rested_s = bench.began[-1][1]
        assert rested_s >= REST * (0.99 - CREDIT_S), "the first pieces have a credit, and no others"

    run(test)


def test_parties_take_turns_however_much_one_of_them_has_to_do() -> None:
    async def test() -> None:
        bench = Bench()
        async with asyncio.TaskGroup() as group:
            for party in "aaaaaaaabbc":
                group.create_task(bench.piece(party, 10 * MS))
        assert bench.parties == "aabcabaaaaa"

    run(test)


def test_work_that_had_no_turn_is_owed_too() -> None:
    async def test() -> None:
        bench = Bench()
        bench.work.charge("a", CREDIT_NS)
        assert bench.work.is_free
        bench.work.charge("a", 10 * MS)
        assert not bench.work.is_free
        bench.work.charge("a", 10 * MS)
        await bench.piece("b", 0)
        assert bench.began == [("b", round(REST * 0.02, 6))]

    run(test)


def test_others_of_the_loop_are_first_even_between_two_pieces_that_are_not_held_up() -> None:
    async def test() -> None:
        bench, seen = Bench(), list[str]()
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(bench.piece("a", MS))

            async def other() -> None:
                for _ in range(8):
                    seen.append(bench.parties)
                    await asyncio.sleep(0)

            group.create_task(other())
        assert seen.index("aa") < seen.index("aaa"), "there is a turn between"

    run(test)


def test_a_turn_that_nobody_takes_any_more_is_the_next_ones() -> None:
    async def test() -> None:
        bench = Bench()
        await bench.work.turn("a")
        first, second = (asyncio.create_task(bench.piece("b", 0)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        bench.work.done("a")
        await asyncio.sleep(0)
        await second
        with suppress(asyncio.CancelledError):
            await first
        await asyncio.sleep(0)
        assert bench.work.is_free and bench.parties == "b"

    run(test)


def test_a_handler_that_takes_long_is_owed_unless_it_is_for_records() -> None:
    async def test() -> None:
        clock = ManualClock(1)
        channel = RequestChannel(10, BusyTimes(clock.now_ns), clock.now_ns)

        def handle(request: Request) -> None:
            clock.advance((CREDIT_NS + PIECE_NS) // MS)
            request.complete(None)

        dispatcher = Dispatcher(channel, handle, lambda request, error: None)
        dispatcher.start()
        caller = Caller(Endpoint("10.0.0.1", 1), listener_type=ListenerType.KAFKA)
        for api, is_free in (("Produce", True), ("OffsetCommit", False)):
            await channel.send(Request(api, None, _Sink(), caller, clock.now_ns))
            for _ in range(3):
                await asyncio.sleep(0)
            assert channel.long_work.is_free is is_free, api
        await dispatcher.stop()

    run(test)


def test_what_clients_ask_for_is_owed_whatever_protocol_they_speak_and_what_nodes_ask_for_is_not() -> None:
    async def test() -> None:
        clock = ManualClock(1)
        channel = RequestChannel(10, BusyTimes(clock.now_ns), clock.now_ns)

        def handle(request: Request) -> None:
            clock.advance((CREDIT_NS + PIECE_NS) // MS)
            request.complete(None)

        dispatcher = Dispatcher(channel, handle, lambda request, error: None, nodes_listener="INTERNAL")
        dispatcher.start()
        for listener, is_free in (("INTERNAL", True), ("BROKER", False)):
            caller = Caller(Endpoint("10.0.0.1", 1), listener)
            await channel.send(Request("OffsetCommit", None, _Sink(), caller, clock.now_ns))
            for _ in range(3):
                await asyncio.sleep(0)
            assert channel.long_work.is_free is is_free, listener
        await dispatcher.stop()

    run(test)


class _Sink:
    def response_ready(self, request: Request) -> None:
        """Nobody waits for it."""

    def part_ready(self, request: Request) -> None:
        """Nobody waits for it."""
