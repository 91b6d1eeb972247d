"""Promises of the turns at long work on the event loop: one piece at a time, parties in turn, and time for all else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from broker.load.busy_time import BusyTimes
from broker.load.long_reads import HEARTBEAT
from broker.load.long_work import CREDIT_NS, EXCESS_NS_MAX, LISTENING, PIECE_NS, QUIET_NS, REST, LongWork
from broker.network.dispatcher import Dispatcher
from broker.network.request_channel import Caller, Request, RequestChannel
from penstock.clock import ManualClock
from penstock.messages.groups.consumer_protocol import ConsumerGroupHeartbeatRequest
from penstock.types import Endpoint, ListenerType
from tests.support.virtual_time import run_virtual

CREDIT_S, MS = CREDIT_NS / 1e9, 1_000_000


class Bench:
    """Pieces that take as long as the test says, by a clock that stands still otherwise but for the loop's time."""

    def __init__(self, *, others_ask: bool = True) -> None:
        """`others_ask`: a request that is not large comes in the time of each piece."""
        self.worked_ns, self._others_ask = 0, others_ask
        self._loop = asyncio.get_running_loop()
        self.work = LongWork(self.now_ns)
        self.began: list[tuple[str, float]] = []
        self._start = self._loop.time()

    def now_ns(self) -> int:
        return round(self._loop.time() * 1e9) + self.worked_ns

    async def piece(self, party: str, ns: int) -> None:
        await self.work.turn(party)
        self.began.append((party, self.since_s()))
        self.worked_ns += ns
        if self._others_ask:
            self.ask()
        self.work.done(party)

    def ask(self) -> None:
        self.work.asked(self.now_ns())

    def since_s(self) -> float:
        return round(self._loop.time() - self._start, 6)

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
                group.create_task(bench.piece(party, CREDIT_NS))
        assert bench.parties == "aabcabaaaaa"

    run(test)


def test_a_turn_is_several_pieces_that_are_small() -> None:
    async def test() -> None:
        bench = Bench()
        async with asyncio.TaskGroup() as group:
            for party in "aaaaaaaabbbc":
                group.create_task(bench.piece(party, CREDIT_NS // 5))
        assert bench.parties == "aaaaabbbcaaa"

    run(test)


def test_a_party_of_many_small_pieces_does_not_starve_beside_one_of_large_ones() -> None:
    """With a piece in each round it had 0.8 of them in a second, and the others waited for minutes."""

    async def test() -> None:
        bench = Bench()

        async def flood() -> None:
            while True:
                await bench.piece("flood", 300 * MS)

        floods = [asyncio.create_task(flood()) for _ in range(5)]
        small, waits_s = list[asyncio.Task[None]](), list[float]()

        async def ask() -> None:
            began_s = bench.since_s()
            await bench.piece("small", MS // 2)
            waits_s.append(bench.since_s() - began_s)

        for _ in range(400):
            small.append(asyncio.create_task(ask()))
            await asyncio.sleep(0.1)
        assert len(waits_s) > 380 and max(waits_s) < 2
        for task in (*floods, *small):
            task.cancel()
        await asyncio.gather(*floods, *small, return_exceptions=True)

    run(test)


def test_work_that_had_no_turn_is_owed_too() -> None:
    async def test() -> None:
        bench = Bench()
        bench.ask()
        bench.work.charge("a", CREDIT_NS)
        assert bench.work.is_free
        bench.work.charge("a", 10 * MS)
        assert not bench.work.is_free
        bench.work.charge("a", 10 * MS)
        await bench.piece("b", 0)
        assert bench.began == [("b", round(REST * 0.01, 6))]
        await bench.piece("b", 0)
        assert bench.began[1] == ("b", round(REST * 0.02, 6)), "what was charged in a rest is the next one's"

    run(test)


def test_work_beside_which_nobody_asks_for_the_loop_does_not_rest() -> None:
    async def test() -> None:
        bench = Bench(others_ask=False)
        async with asyncio.TaskGroup() as group:
            for number in range(200):
                group.create_task(bench.piece(f"party-{number % 3}", PIECE_NS))
        assert {at for _, at in bench.began} == {0}

    run(test)


def test_one_small_request_has_a_rest_of_the_work_and_when_no_other_comes_the_work_goes_on() -> None:
    async def test() -> None:
        bench = Bench(others_ask=False)
        await bench.piece("a", CREDIT_NS)
        bench.ask()
        for _ in range(2):
            await bench.piece("a", PIECE_NS)
        rest_s = REST * PIECE_NS / 1e9
        assert bench.began[-1][1] == bench.since_s() == round(rest_s, 6)
        bench.worked_ns += QUIET_NS
        last = bench.since_s()
        for _ in range(50):
            await bench.piece("a", PIECE_NS)
        assert [at for _, at in bench.began[-49:]] == [round(last + rest_s, 6)] * 49

    run(test)


def test_after_a_long_piece_the_loop_listens_for_those_whom_it_could_not_hear() -> None:
    async def test() -> None:
        bench, long_ns = Bench(others_ask=False), 100 * MS
        await bench.piece("a", CREDIT_NS)
        await bench.piece("a", long_ns)
        await bench.piece("a", long_ns)
        listened_s = long_ns / LISTENING / 1e9
        assert bench.began[-1] == ("a", round(listened_s, 6)), "nobody asked"
        await asyncio.sleep(0.001)
        bench.ask()
        await bench.piece("a", long_ns)
        assert bench.began[-1] == ("a", round(2 * listened_s + REST * long_ns / 1e9, 6))

    run(test)


def test_a_node_that_was_stopped_in_the_middle_of_a_piece_rests_no_longer_than_after_any_other() -> None:
    async def test() -> None:
        bench = Bench()
        await bench.piece("a", 60_000 * MS)
        await bench.piece("b", PIECE_NS)
        assert bench.began[-1] == ("b", round(REST * EXCESS_NS_MAX / 1e9, 6))

    run(test)


def test_a_party_that_waits_has_its_turn_however_much_is_charged_without_one() -> None:
    async def test() -> None:
        bench = Bench()

        async def charge() -> None:
            while True:
                bench.worked_ns += PIECE_NS
                bench.work.charge("a", PIECE_NS)
                await asyncio.sleep(PIECE_NS / 1e9)

        charging = asyncio.create_task(charge())
        await asyncio.sleep(1)
        began_s = bench.since_s()
        async with asyncio.timeout(60):
            await bench.piece("b", PIECE_NS)
        assert bench.began[0][1] - began_s <= REST * EXCESS_NS_MAX / 1e9
        charging.cancel()

    run(test)


def test_what_a_clock_that_stands_still_measures_is_no_work_and_everybody_has_a_turn() -> None:
    async def test() -> None:
        bench = Bench()
        bench.work.charge("a", CREDIT_NS + PIECE_NS)
        bench.work.now_ns = lambda: 0
        async with asyncio.timeout(1), asyncio.TaskGroup() as group:
            for party in "aabbc":
                group.create_task(bench.piece(party, PIECE_NS))
        await asyncio.sleep(0)
        assert bench.work.is_free

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
            clock.advance(2 * CREDIT_NS // MS)
            request.complete(None)

        dispatcher = Dispatcher(channel, handle, lambda request, error: None)
        dispatcher.start()
        caller = Caller(Endpoint("10.0.0.1", 1), listener_type=ListenerType.KAFKA)
        for api, is_large, is_free in (("Produce", True, True), ("OffsetFetch", False, False)):
            request = Request(api, None, _Sink(), caller, clock.now_ns)
            request.is_large = is_large
            await channel.send(request)
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
            clock.advance(2 * CREDIT_NS // MS)
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


def test_a_read_of_few_bytes_waits_for_a_turn_if_the_last_one_like_it_took_long() -> None:
    async def test() -> None:
        bench = Bench()
        channel = RequestChannel(100, BusyTimes(bench.now_ns), bench.now_ns)
        handled: list[str] = []

        def handle(request: Request) -> None:
            handled.append(request.caller.principal)
            bench.worked_ns += 100 * MS if request.api == "ListGroups" else 0
            request.complete(None)

        async def ask(user: str, api: str = "ListGroups") -> Request:
            caller = Caller(Endpoint("10.0.0.1", 1), "KAFKA", user, ListenerType.KAFKA)
            request = Request(api, None, _Sink(), caller, bench.now_ns)
            await channel.send(request)
            for _ in range(5):
                await asyncio.sleep(0)
            return request

        dispatcher = Dispatcher(channel, handle, lambda request, error: None)
        dispatcher.start()
        for _ in range(20):
            last = await ask("anna")
        assert handled == ["anna"]
        await ask("bob", "Heartbeat")
        await ask("anna", "Heartbeat")
        assert handled == ["anna", "bob", "anna"], "what takes little waits for nothing"
        last.abandoned()
        for _ in range(40):
            await asyncio.sleep(0.1)
            await ask("bob", "Heartbeat")
        listed = handled.count("anna") - 1
        assert 8 <= listed <= 14, "4 s, of which they have about a quarter, 100 ms each"
        await dispatcher.stop()

    run(test)


def test_reads_that_take_little_do_not_wait_in_line_for_turns_of_their_own() -> None:
    """Beside a party that floods, a line had one turn in a round of the parties: two minutes for a hundred."""

    async def test() -> None:
        bench = Bench()
        channel = RequestChannel(500, BusyTimes(bench.now_ns), bench.now_ns)
        waits_ns: list[int] = []

        def handle(request: Request) -> None:
            bench.worked_ns += {"ListGroups": 300 * MS, "Metadata": MS // 10}[request.api]
            if request.caller.principal == "anna":
                waits_ns.append(bench.now_ns() - request.received_ns)
                bench.worked_ns += 3 * MS if len(waits_ns) % 50 == 1 else 0
            request.complete(None)

        async def ask(user: str, api: str) -> Request:
            caller = Caller(Endpoint("10.0.0.1", 1), "KAFKA", user, ListenerType.KAFKA)
            request = Request(api, None, _Sink(), caller, bench.now_ns)
            await channel.send(request)
            return request

        dispatcher = Dispatcher(channel, handle, lambda request, error: None)
        dispatcher.start()
        for _ in range(50):
            await ask("bob", "ListGroups")
        asked = 0
        for _ in range(1_000):
            asked += 1
            gone = await ask("anna", "Metadata")
            await asyncio.sleep(0.01)
        gone.abandoned()
        assert 900 < len(waits_ns) <= asked and max(waits_ns) < 4_000 * MS
        await dispatcher.stop()

    run(test)


def test_a_heartbeat_without_a_pattern_never_waits() -> None:
    async def test() -> None:
        bench = Bench()
        channel = RequestChannel(100, BusyTimes(bench.now_ns), bench.now_ns)
        handled: list[str | None] = []

        def handle(request: Request) -> None:
            assert isinstance(request.body, ConsumerGroupHeartbeatRequest)
            handled.append(request.body.subscribed_topic_regex)
            bench.worked_ns += 100 * MS
            request.complete(None)

        dispatcher = Dispatcher(channel, handle, lambda request, error: None)
        dispatcher.start()
        caller = Caller(Endpoint("10.0.0.1", 1), "KAFKA", "anna", ListenerType.KAFKA)
        for pattern in ("a.*", "b.*", "c.*", None, "d.*", None):
            body = ConsumerGroupHeartbeatRequest("g", "m", 1, subscribed_topic_regex=pattern)
            await channel.send(Request(HEARTBEAT, body, _Sink(), caller, bench.now_ns))
        for _ in range(10):
            await asyncio.sleep(0)
        assert handled == ["a.*", None, None]
        await dispatcher.stop()

    run(test)
