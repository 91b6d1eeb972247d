"""Promises about requests with many elements: whatever they ask for, others have the event loop in between."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from broker.kafka.connection.element_room import LEASE_MS
from broker.kafka.plan import PAUSE, Ask, Asked, Plan
from broker.kafka.schemas.metadata import MetadataResponse
from broker.load.long_work import CREDIT_NS, PIECE_NS
from broker.network.decoding_turns import LONG
from tests.support.kafka_listener import METADATA, ListenerBench, answers, bench_of, metadata, run_to_the_end
from tests.support.virtual_time import run_virtual

PARTY = "10.0.0.1"
MS = 1_000_000


def _names(count: int) -> list[str]:
    return ["t"] * count


def _paused(bench: list[ListenerBench], steps: list[str], pauses: int = 100) -> Any:
    """A plan that has much to do, and a pause after every millisecond."""

    def plan(asked: Asked, body: Any) -> Plan:
        for _ in range(pauses if len(body.topics) >= LONG else 0):
            bench[0].clock.advance(1)
            steps.append("long")
            yield PAUSE
        steps.append("done")
        return MetadataResponse(cluster_id="done")

    return replace(METADATA, plan=plan, is_paced=False)


def test_a_plan_with_much_to_do_goes_on_piece_by_piece_and_others_are_answered_meanwhile() -> None:
    benches, steps = list[ListenerBench](), list[str]()

    async def scenario() -> ListenerBench:
        bench = await bench_of(rows=[_paused(benches, steps)])
        benches.append(bench)
        long, short = bench.connect(port=1), bench.connect(port=2)
        long.send(metadata(1, *_names(LONG)))
        await bench.settle()
        assert PIECE_NS // MS <= len(steps) < 100 and not answers(long)
        begun = len(steps)
        short.send(metadata(1, "a"))
        await bench.settle()
        assert answers(short) == [(1, "done")] and not answers(long)
        assert len(steps) - begun <= 41, "a piece in a turn"
        while not answers(long):
            await bench.settle()
            bench.clock.advance(100)
            await _rest()
        assert answers(long) == [(1, "done")] and steps.count("long") == 100
        for far in (long, short):
            far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario, run_virtual)


def test_a_connection_that_ends_in_a_pause_leaves_nothing_behind() -> None:
    benches, steps = list[ListenerBench](), list[str]()

    async def scenario() -> ListenerBench:
        bench = await bench_of(rows=[_paused(benches, steps, 100_000)])
        benches.append(bench)
        long, next_one = bench.connect(port=1), bench.connect(port=2)
        for far in (long, next_one):
            far.send(metadata(1, *_names(LONG)))
        await bench.settle()
        for far in (long, next_one):
            far.reset()
        await _rest()
        await bench.settle()
        assert "done" not in steps and bench.channel.long_work.is_free
        return bench

    run_to_the_end(scenario, run_virtual)


def test_while_long_work_rests_large_requests_are_not_even_decoded_and_small_ones_are_answered() -> None:
    benches, steps = list[ListenerBench](), list[str]()

    async def scenario() -> ListenerBench:
        bench = await bench_of(rows=[_paused(benches, steps, 0)])
        benches.append(bench)
        bench.channel.long_work.asked(bench.clock.now_ns())
        bench.channel.long_work.charge(PARTY, CREDIT_NS + 100 * MS)
        long, short = bench.connect(port=1), bench.connect(port=2)
        long.send(metadata(1, *_names(LONG)))
        short.send(metadata(1, *_names(LONG - 1)))
        await bench.settle()
        assert (answers(long), answers(short)) == ([], [(1, "done")])
        await _rest()
        await bench.settle()
        assert answers(long) == [(1, "done")]
        for far in (long, short):
            far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario, run_virtual)


def _asks_then_pauses(benches: list[ListenerBench], steps: list[str], pauses: int = 100) -> Any:
    """A plan whose answer is made with a pause after every millisecond."""

    def plan(asked: Asked, body: Any) -> Plan:
        yield Ask("Metadata", None)
        for _ in range(pauses):
            benches[0].clock.advance(1)
            steps.append("long")
            yield PAUSE
        return MetadataResponse(cluster_id="done")

    return replace(METADATA, plan=plan, is_paced=False)


def test_a_plan_that_waits_for_its_next_piece_keeps_its_room_for_elements_however_long_that_takes() -> None:
    benches, steps = list[ListenerBench](), list[str]()

    async def scenario() -> ListenerBench:
        bench = await bench_of(rows=[_asks_then_pauses(benches, steps)])
        benches.append(bench)
        long = bench.connect()
        long.send(metadata(1, *_names(LONG)))
        await bench.settle()
        work = bench.channel.long_work
        await work.turn("somebody else")
        begun = len(steps)
        await asyncio.sleep(3 * LEASE_MS / 1000)
        assert len(steps) == begun < 100 and bench.elements.statistics().used_bytes == LONG
        work.done("somebody else")
        while not answers(long):
            await bench.settle()
            await _rest()
        await bench.settle()
        assert bench.elements.statistics().used_bytes == 0
        long.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario, run_virtual)


def test_a_small_request_takes_turns_at_long_work_once_its_answer_takes_longer_than_a_piece() -> None:
    benches, steps = list[ListenerBench](), list[str]()

    async def scenario() -> ListenerBench:
        pauses = PIECE_NS // MS
        little, much = _asks_then_pauses(benches, steps, pauses - 1), _asks_then_pauses(benches, steps)
        bench = await bench_of(rows=[little])
        benches.append(bench)
        work, far = bench.channel.long_work, bench.connect()
        await work.turn("somebody else")
        far.send(metadata(1, "a"))
        await bench.settle()
        assert answers(far) == [(1, "done")], "no longer than a piece"
        bench.rows[little.key] = much
        steps.clear()
        far.send(metadata(2, "a"))
        await bench.settle()
        assert len(steps) == pauses and len(answers(far)) == 1
        work.done("somebody else")
        while len(answers(far)) < 2:
            await bench.settle()
            await _rest()
        assert len(steps) == 100
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario, run_virtual)


def test_a_request_that_waited_for_its_turn_is_prepared_as_any_other() -> None:
    benches, steps = list[ListenerBench](), list[str]()

    async def scenario() -> ListenerBench:
        async def prepare(asked: Asked, body: Any) -> Any:
            steps.append(f"{len(body.topics)} prepared")
            return body

        bench = await bench_of(rows=[replace(_paused(benches, steps, 0), prepare=prepare)])
        benches.append(bench)
        work, far = bench.channel.long_work, bench.connect()
        await work.turn("somebody else")
        far.send(metadata(1, *_names(LONG)))
        await bench.settle()
        assert not steps
        work.done("somebody else")
        while not answers(far):
            await bench.settle()
        assert steps == [f"{LONG} prepared", "done"]
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario, run_virtual)


async def _rest() -> None:
    await asyncio.sleep(1)
