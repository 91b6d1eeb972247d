"""Requests with many elements take turns: what a node works on is bounded, and small requests pass by."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import replace
from typing import Any

import pytest

from broker.kafka.connection import kafka_wire
from broker.kafka.connection.element_room import (
    FREE,
    HEAVY,
    HOLD_SECONDS,
    LEASE_MS,
    OPEN_MAX,
    ElementBudgets,
    ElementRoom,
)
from broker.kafka.plan import Ask, Asked, Plan, asks_nothing
from broker.kafka.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from broker.kafka_codec.codec import decode_counted
from broker.kafka_codec.primitives import uvarint_bytes
from broker.network.request_channel import Request
from tests.support.kafka_listener import (
    LIMITS,
    VERSION,
    ListenerBench,
    answers,
    bench_of,
    frame,
    metadata,
    run_to_the_end,
)
from tests.support.virtual_time import run_virtual
from tests.unit.broker.kafka.connection.test_plan_run import metadata_row

HALF = OPEN_MAX // 2
WIDE = replace(LIMITS, connections_max=100)


def _asks_once(asked: Asked, body: Any) -> Plan:
    """Answers with the number of its topics."""
    yield Ask("Metadata", None)
    return MetadataResponse(cluster_id=str(len(body.topics)))


def many(number: int, count: int) -> bytes:
    return frame(MetadataRequest(topics=[MetadataRequestTopic(name="")] * count), VERSION, number)


def long_names(number: int, count: int) -> bytes:
    """As many bytes as a request may need to have as many elements as any."""
    named = [MetadataRequestTopic(name="n" * (2 * OPEN_MAX // count)) for _ in range(count)]
    return frame(MetadataRequest(topics=named), VERSION, number)


def with_tags(number: int, count: int) -> bytes:
    """Each topic has two unknown tagged fields, so it counts three times."""
    head = frame(MetadataRequest(topics=[]), VERSION, number)[4:-5]
    body = head + uvarint_bytes(count + 1) + count * bytes.fromhex("0261 02 0200 0300") + bytes.fromhex("01000000")
    return struct.pack(">i", len(body)) + body


async def settled(bench: ListenerBench) -> None:
    """Many connections take more turns of the loop."""
    for _ in range(5):
        await bench.settle()


async def bench_that_holds(held: list[Request]) -> ListenerBench:
    rows = [replace(metadata_row(_asks_once), is_paced=False)]
    return await bench_of(held.append, rows=rows, limits=WIDE)


def test_one_address_has_half_of_the_room_and_others_and_small_requests_pass_by() -> None:
    async def scenario() -> ListenerBench:
        held: list[Request] = []
        bench = await bench_that_holds(held)
        first, second, small = (bench.connect(port=port) for port in (1, 2, 3))
        other = bench.connect("10.0.0.2")
        first.send(many(1, HALF))
        second.send(many(1, HEAVY))
        await bench.settle()
        assert len(held) == 1 and bench.elements.statistics().waiting == 1
        small.send(many(1, FREE))
        other.send(many(1, HALF))
        await bench.settle()
        assert len(held) == 3
        for request in tuple(held):
            request.complete(None)
        await bench.settle()
        held[3].complete(None)
        await bench.settle()
        assert [answers(far) for far in (first, second, small, other)] == [
            [(1, str(count))] for count in (HALF, HEAVY, FREE, HALF)
        ]
        for far in (first, second, small, other):
            far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario, run_virtual)


def test_requests_that_take_long_have_turns_of_the_loop_between_them() -> None:
    """Also those whose plans ask the node nothing, and end where they begin."""
    turns, made = [0], list[int]()

    def at_once(asked: Asked, body: Any) -> Plan:
        made.append(turns[0])
        return asks_nothing(MetadataResponse(cluster_id="done"))

    async def scenario() -> ListenerBench:
        bench = await bench_of(rows=[replace(metadata_row(at_once), is_paced=False)])
        clients = [bench.connect(port=port) for port in range(5)]
        for far in clients:
            far.send(many(1, HALF) * 2)
        while len(made) < 10:
            turns[0] += 1
            await asyncio.sleep(0)
        assert len(set(made)) == 10, made
        await bench.settle()
        for far in clients:
            assert answers(far) == [(1, "done")] * 2
            far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario, run_virtual)


@pytest.mark.parametrize("has_turn", [True, False])
def test_a_request_that_waits_for_something_gives_its_room_to_others_once_it_had_its_turn(has_turn: bool) -> None:
    async def scenario() -> ListenerBench:
        held: list[Request] = []
        bench = await bench_that_holds(held)
        first, second = bench.connect(port=1), bench.connect(port=2)
        if not has_turn:
            await bench.dispatcher.stop()
        first.send(many(1, HALF))
        second.send(many(1, HALF))
        await bench.settle()
        assert len(held) == has_turn
        await asyncio.sleep(5 * LEASE_MS / 1_000)
        queued = bench.channel.statistics().request_queue_size
        assert (len(held), queued) == ((2, 0) if has_turn else (0, 1))
        for far in (first, second):
            far.reset()
        if not has_turn:
            bench.dispatcher.start()
        await bench.settle()
        for request in held:
            request.complete(None)
        return bench

    run_to_the_end(scenario, run_virtual)


@pytest.mark.parametrize("waits", [False, True])
def test_a_connection_that_ends_gives_its_room_back_and_waits_no_more(waits: bool) -> None:
    async def scenario() -> ListenerBench:
        held: list[Request] = []
        bench = await bench_that_holds(held)
        first, second = bench.connect(port=1), bench.connect(port=2)
        first.send(many(1, HALF))
        await bench.settle()
        second.send(many(1, HALF))
        await bench.settle()
        (second if waits else first).reset()
        await bench.settle()
        assert (len(held), bench.elements.statistics().waiting) == ((1, 0) if waits else (2, 0))
        (first if waits else second).reset()
        await bench.settle()
        for request in held:
            request.complete(None)
        return bench

    run_to_the_end(scenario, run_virtual)


def test_the_next_request_is_read_when_the_answer_to_one_that_is_not_pipelined_has_left() -> None:
    async def scenario() -> ListenerBench:
        held: list[Request] = []
        bench = await bench_that_holds(held)
        far = bench.connect()
        far.takes = False
        far.send(b"".join(metadata(number, "a") for number in range(100)))
        await bench.settle()
        assert len(held) == 1
        held[0].complete(None)
        await bench.settle()
        assert len(held) == 1 and len(far.written) == 1, "nobody has read it"
        far.takes_again()
        for number in range(1, 100):
            await bench.settle()
            held[number].complete(None)
        await bench.settle()
        assert answers(far) == [(number, "1") for number in range(100)]
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario, run_virtual)


def test_a_partys_large_requests_have_pauses_between_them_and_another_party_waits_for_none() -> None:
    """Also where they are answered at once, or their connections are gone."""
    made: list[tuple[str, float]] = []

    def at_once(asked: Asked, body: Any) -> Plan:
        made.append((asked.caller.peer.host, asyncio.get_running_loop().time()))
        return asks_nothing(MetadataResponse(cluster_id="done"))

    async def scenario() -> ListenerBench:
        bench = await bench_of(rows=[metadata_row(at_once)])
        for port in range(4):
            greedy = bench.connect("10.0.0.1", port)
            greedy.send(many(1, HALF))
            await bench.settle()
            greedy.reset()
        waiting, other = bench.connect("10.0.0.1", 9), bench.connect("10.0.0.2")
        waiting.send(many(1, HALF))
        other.send(many(1, HALF // 2))
        await bench.settle()
        assert [host for host, _ in made] == ["10.0.0.1", "10.0.0.2"]
        await asyncio.sleep(HOLD_SECONDS)
        await bench.settle()
        assert answers(waiting)
        assert made[-1][1] - made[0][1] == pytest.approx(HOLD_SECONDS)
        waiting.reset()
        other.reset()
        await asyncio.sleep(2 * HOLD_SECONDS)
        return bench

    run_to_the_end(scenario, run_virtual)


def test_a_request_that_turns_out_small_holds_its_room_no_longer_than_its_answer() -> None:
    """Room is asked for by the bytes of a request; that of a few elements with long names is given back at once."""

    async def scenario() -> None:
        room = ElementRoom(ElementBudgets(), "10.0.0.1")
        lease = await room.wait(HALF, is_paced=True)
        lease.resize(FREE + 1)
        room.release(lease)
        assert room.now(HALF) == HALF
        room.close()

    run_virtual(scenario())


def test_however_many_networks_have_large_requests_one_that_is_not_large_waits_for_none_of_them() -> None:
    async def scenario() -> ListenerBench:
        held: list[Request] = []
        bench = await bench_that_holds(held)
        crowd = [bench.connect(f"10.0.1.{number}") for number in range(30)]
        for far in crowd:
            far.send(many(1, HALF))
        await settled(bench)
        assert len(held) == 3 and bench.elements.statistics().waiting == 27, "two halves, and one above the limit"
        other = bench.connect("10.0.0.2")
        other.send(long_names(1, HEAVY - 1))
        await settled(bench)
        held[3].complete(None)
        await settled(bench)
        assert answers(other) == [(1, str(HEAVY - 1))]
        for far in (*crowd, other):
            far.reset()
        await settled(bench)
        return bench

    run_to_the_end(scenario, run_virtual)


def test_a_request_asks_for_room_for_the_elements_that_it_has_however_many_bytes_these_have() -> None:
    """Both rooms are in use. When one neighbour goes there is enough for its elements, and not for as many as it has
    bytes."""

    async def scenario() -> ListenerBench:
        held: list[Request] = []
        bench = await bench_that_holds(held)
        crowd = [bench.connect(f"10.0.1.{number}") for number in range(20)]
        crowd += [bench.connect(f"10.0.2.{number}") for number in range(3)]
        for number, far in enumerate(crowd):
            far.send(many(1, HEAVY - 1 if number < 20 else HALF))
        await settled(bench)
        assert len(held) == 23
        other = bench.connect("10.0.0.2")
        other.send(long_names(1, 3 * FREE))
        await settled(bench)
        assert len(held) == 23
        crowd[0].reset()
        await settled(bench)
        held[23].complete(None)
        await settled(bench)
        assert answers(other) == [(1, str(3 * FREE))]
        for far in (*crowd, other):
            far.reset()
        await settled(bench)
        return bench

    run_to_the_end(scenario, run_virtual)


def test_a_request_whose_elements_have_more_of_them_is_read_few_times_until_it_has_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each time it asks for twice as much: only its first array says how many it has."""
    read: list[int] = []

    def counted(cls: type[Any], version: int, view: memoryview, at: int, elements_max: int) -> tuple[Any, int, int]:
        read.append(elements_max)
        return decode_counted(cls, version, view, at, elements_max)

    async def scenario() -> ListenerBench:
        held: list[Request] = []
        bench = await bench_that_holds(held)
        crowd = [bench.connect(f"10.0.1.{number}") for number in range(20)]
        crowd += [bench.connect(f"10.0.2.{number}") for number in range(2)]
        for number, far in enumerate(crowd):
            far.send(many(1, HEAVY - 1 if number < 20 else HALF))
        await settled(bench)
        monkeypatch.setattr(kafka_wire, "decode_counted", counted)
        other = bench.connect("10.0.0.2")
        other.send(with_tags(1, 300))
        await settled(bench)
        for far in crowd:
            far.reset()
        await settled(bench)
        held[-1].complete(None)
        await settled(bench)
        assert answers(other) == [(1, "300")]
        assert read[1:] == [300, 600, 1_200]
        other.reset()
        await settled(bench)
        return bench

    run_to_the_end(scenario, run_virtual)
