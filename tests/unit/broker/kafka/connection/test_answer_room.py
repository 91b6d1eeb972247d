"""Promises about connections that read none of their answers: what they asked for is not worked on any further."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.kafka.api_row import ApiRow
from broker.kafka.connection.element_room import HEAVY, OPEN_MAX
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.groups.coordinators import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from broker.kafka.schemas.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from broker.kafka.schemas.produce import ProduceRequest, ProduceResponse, TopicProduceData, TopicProduceResponse
from broker.network.answer_turns import SMALL_ELEMENTS
from broker.network.dispatcher import TURN_MS
from broker.network.memory_budget import Lease
from broker.network.request_channel import Request
from tests.support.kafka_listener import (
    LIMITS,
    MEMORY_BYTES,
    METADATA,
    PRODUCE,
    VERSION,
    ListenerBench,
    bench_of,
    frame,
    metadata,
    run_to_the_end,
)

ONE_ANSWER = [MetadataResponseTopic(name="x" * 30_000)] * 60
"""1.8 MB, and so counted as 3.6: a party has room for two of 16 MiB."""


def _plan(asked: Asked, body: MetadataRequest) -> Plan:
    yield Ask("Metadata", len(body.topics or ()))
    return MetadataResponse(topics=ONE_ANSWER)


LARGE = replace(METADATA, plan=_plan, is_paced=False)
MANY = replace(LIMITS, connections_max=50, connections_max_per_ip=50)


@pytest.mark.parametrize("elements", [1, HEAVY // 10, HEAVY])
def test_of_a_party_that_reads_nothing_no_more_requests_are_worked_on_than_have_room_for_an_answer(
    elements: int,
) -> None:
    """A decoded request and the objects of an answer take more memory than their bytes, and count nowhere."""

    async def scenario() -> ListenerBench:
        asked: list[object] = []

        def handle(request: Request) -> None:
            asked.append(request.body)
            bench.clock.advance(TURN_MS + 1)
            request.complete("found")

        bench = await bench_of(handle, limits=MANY, rows=[LARGE])
        deaf = [bench.connect(port=port) for port in range(1, 21)]
        for far in deaf:
            far.takes = False
            far.send(metadata(1, *("a" for _ in range(elements))))
        for _ in deaf:  # in turns
            await bench.settle()
        written = [far for far in deaf if far.written]
        assert len(asked) == len(written) <= 4, "no answer is built that waits for room"
        decoded = bench.elements.statistics().used_bytes
        assert decoded <= OPEN_MAX // 2, "of those that came at once no more than a party may have"
        deaf += [bench.connect(port=port) for port in range(21, 41)]
        for far in deaf[20:]:
            far.send(metadata(1, *("a" for _ in range(elements))))
        for _ in deaf:
            await bench.settle()
        assert (bench.elements.statistics().used_bytes, len(asked)) == (decoded, len(written)), "nor what came later"
        other = bench.connect("10.0.0.9")
        other.send(metadata(1, "b"))
        await bench.settle()
        assert len(other.answers(MetadataResponse, VERSION)) == 1
        for far in (*deaf, other):
            far.reset()
        await bench.settle()
        assert len(asked) == len(written) + 1, "what nobody waits for any more is not worked on"
        return bench

    run_to_the_end(scenario)


def test_requests_that_wait_for_room_are_answered_in_their_turn() -> None:
    async def scenario() -> ListenerBench:
        def handle(request: Request) -> None:
            bench.clock.advance(TURN_MS + 1)
            request.complete("found")

        bench = await bench_of(handle, limits=MANY, rows=[LARGE])
        deaf = [bench.connect(port=port) for port in range(1, 21)]
        for far in deaf:
            far.takes = False
            far.send(metadata(1, "a"))
        for _ in deaf:
            await bench.settle()
            for far in deaf:
                if far.written and not far.takes:
                    far.takes_again()
        await bench.settle()
        assert [len(far.answers(MetadataResponse, VERSION)) for far in deaf] == [1] * 20
        for far in deaf:
            far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def _coordinators(asked: Asked, body: FindCoordinatorRequest) -> Plan:
    response = yield Ask("FindCoordinator", len(body.coordinator_keys))
    return FindCoordinatorResponse(coordinators=[Coordinator(key="x" * response)])


def test_an_api_with_small_answers_waits_for_room_where_a_request_has_many_elements() -> None:
    """A user may ask for the coordinators of thousands of groups that there are not."""

    async def scenario() -> ListenerBench:
        kinds = FindCoordinatorRequest, FindCoordinatorResponse
        row = ApiRow(10, "FindCoordinator", *kinds, (4, 4), _coordinators, is_paced=False)
        bench = await bench_of(lambda request: request.complete(1), rows=[row])
        full = bench.memory.answers.open("10.0.0.1").take(MEMORY_BYTES)
        few, many = bench.connect(port=1), bench.connect(port=2)
        for far, elements in ((few, SMALL_ELEMENTS), (many, SMALL_ELEMENTS + 1)):
            far.send(frame(FindCoordinatorRequest(coordinator_keys=["g"] * elements), 4))
        await bench.settle()
        assert few.written and not many.written
        assert not bench.elements.statistics().used_bytes, "it is not decoded, and holds up no others"
        full.release()
        await bench.settle()
        assert many.written
        for far in (few, many):
            far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


@pytest.mark.parametrize("is_filled", [True, False])
def test_a_pipelined_request_does_not_overtake_one_that_waits_for_room(is_filled: bool) -> None:
    """The records of a producer, and the offsets of a group, stay in the order in which one client sent them."""

    async def scenario() -> ListenerBench:
        full: list[Lease] = []
        asked: list[int] = []

        def handle(request: Request) -> None:
            if request.api == "Metadata" and is_filled:
                account = bench.memory.answers.open("10.0.0.1")
                full.append(account.take(MEMORY_BYTES))
                account.close()
            elif isinstance(request.body, ProduceRequest):
                asked.append(len(request.body.topic_data))
            request.complete("found")

        bench = await bench_of(handle)
        deaf, producer = bench.connect(port=1), bench.connect(port=2)
        deaf.send(metadata(1, "a"))
        many, few = ([TopicProduceData(name="t")] * elements for elements in (SMALL_ELEMENTS + 1, 1))
        for topics in (many, few, few):  # decoded while there is room
            producer.send(frame(ProduceRequest(acks=1, topic_data=topics), VERSION))
        await bench.settle()
        assert asked == ([] if is_filled else [SMALL_ELEMENTS + 1, 1, 1])
        for lease in full:
            lease.release()
        await bench.settle()
        assert asked == [SMALL_ELEMENTS + 1, 1, 1]
        for far in (deaf, producer):
            far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def _producing(number: int) -> bytes:
    return frame(ProduceRequest(acks=1), PRODUCED_IN, number)


def _echoed(asked: Asked, body: ProduceRequest) -> Plan:
    yield Ask("Produce", None)
    return ProduceResponse(responses=[TopicProduceResponse(name="x" * 30_000)])


PRODUCED_IN = 9
SMALL = replace(PRODUCE, plan=_echoed)


def test_a_party_that_reads_no_small_answers_is_read_no_further_once_these_fill_its_share() -> None:
    """However many connections it has, and however many requests each of them sends."""

    async def scenario() -> ListenerBench:
        count, handled = 16, list[Request]()

        def handle(request: Request) -> None:
            handled.append(request)
            request.complete(None)

        bench = await bench_of(handle, limits=MANY, rows=[SMALL])
        full = bench.memory.answers.open("10.0.0.1").take(MEMORY_BYTES // 2 - 200_000)
        deaf = [bench.connect(port=port) for port in range(1, count + 1)]
        for number in range(1, 20):
            for far in deaf:
                far.takes = False
                far.send(_producing(number))
            await bench.settle()
        assert bench.memory.answers.statistics().used_bytes <= full.size + 200_000 + count * 31_000
        assert len(handled) <= 2 * count + 8
        reads = bench.connect(port=99)
        reads.send(_producing(1))
        await bench.settle()
        reads.send(_producing(2))
        await bench.settle()
        assert len(reads.answers(ProduceResponse, PRODUCED_IN)) == 2, "one of the party that reads its answers goes on"
        full.release()
        deaf[0].takes_again()
        await bench.settle()
        for _ in range(20):
            deaf[0].takes_again()
            await bench.settle()
        assert [number for number, _ in deaf[0].answers(ProduceResponse, PRODUCED_IN)] == list(range(1, 20))
        for far in (*deaf, reads):
            far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_a_connection_that_has_read_its_answers_is_read_again_though_its_party_has_no_room() -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of(rows=[SMALL])
        bench.memory.answers.open("10.0.0.1").take(MEMORY_BYTES)
        far = bench.connect()
        far.takes = False
        for number in range(1, 5):
            far.send(_producing(number))
            await bench.settle()
        assert bench.channel.response_queue_size == 1, "the one behind what is written"
        for _ in range(4):
            far.takes_again()
            await bench.settle()
        assert [number for number, _ in far.answers(ProduceResponse, PRODUCED_IN)] == [1, 2, 3, 4]
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)
