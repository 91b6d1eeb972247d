"""Whatever a client does between the steps of its requests, nothing of it is kept, and no other client waits."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from broker.kafka.api_row import BYTES_MAX
from broker.kafka.connection.incoming_frame import ABOVE_MS_MAX, FRAME_MS_MAX
from broker.kafka.schemas.metadata import MetadataResponse
from broker.kafka.schemas.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from broker.network.request_channel import Request
from penstock.errors import ApiError, InvalidRequestError
from tests.support.kafka_listener import (
    LIMITS,
    METADATA,
    ListenerBench,
    answers,
    bench_of,
    frame,
    metadata,
    run_to_the_end,
)
from tests.unit.broker.kafka.connection.test_plan_run import metadata_row


def _refused(asked: Any, body: Any, error: ApiError) -> MetadataResponse:
    return MetadataResponse(cluster_id=error.message)


def test_a_first_question_that_cannot_be_prepared_fails_its_request_alone() -> None:
    def prepare(request: Request) -> None:
        if request.body == "bad":
            raise InvalidRequestError("it cannot be prepared")

    async def scenario() -> ListenerBench:
        bench = await bench_of(prepare=prepare, rows=[metadata_row(METADATA.plan, _refused)])
        far = bench.connect()
        far.send(metadata(1, "bad") + metadata(2, "d"))
        await bench.settle()
        assert answers(far) == [(1, "it cannot be prepared"), (2, "d")]
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_a_client_that_goes_while_a_later_question_waits_for_the_queue_leaves_no_lease() -> None:
    async def scenario() -> ListenerBench:
        bench = ListenerBench(queued_max=1)
        far = bench.connect()
        far.send(metadata(1, "a", "b"))
        await bench.settle()
        first = await bench.channel.receive()
        await bench.channel.send(Request("Other", None, first.sink, first.caller, bench.clock.now_ns))
        first.complete("a")
        bench.channel.request_handled(first)
        await bench.settle()
        assert bench.channel.statistics().request_queue_size == 1 and not far.written
        far.reset()
        await bench.settle()
        assert (await bench.channel.receive()).api == "Other"
        return bench

    run_to_the_end(scenario)


def test_a_client_that_goes_while_a_later_question_is_prepared_leaves_no_lease() -> None:
    never = asyncio.Event()

    def prepare(request: Request) -> Any:
        return never.wait() if request.body == "slow" else None

    async def scenario() -> ListenerBench:
        bench = await bench_of(prepare=prepare)
        far = bench.connect()
        far.send(metadata(1, "a", "slow"))
        await bench.settle()
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_a_connection_that_is_gone_before_it_is_served_is_given_back() -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        bench.connect().reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_two_connections_of_one_address_and_port_both_end() -> None:
    """The older one may be half-closed, or both may have been reset before they were accepted and have no address."""

    async def scenario() -> ListenerBench:
        bench = await bench_of()
        older = bench.connect("", 0)
        await bench.settle()
        younger = bench.connect("", 0)
        younger.send(metadata(1, "a"))
        await bench.settle()
        assert older.is_closed and answers(younger) == [(1, "a")]
        younger.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_a_request_that_comes_too_slowly_for_its_size_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        crawling, steady = bench.connect(port=1), bench.connect(port=2)
        await found_quiet(bench)
        large = metadata(1, *(["x" * 30_000] * 5))
        pace = len(large) * 1_000 // FRAME_MS_MAX + 1  # bytes a second
        for far in (crawling, steady):
            far.send(large[:5])
        await bench.settle()
        assert bench.memory.large.statistics().used_bytes < 2 * 600, "an announced size costs nothing"
        for second in range(LIMITS.write_stall_ms_max // 1_000):
            bench.clock.advance(1_000)
            crawling.send(bytes(pace - 200))
            steady.send(large[5 + pace * second : 5 + pace * (second + 1)])
            bench.listener.sweep(bench.clock.now_ms())
            assert not crawling.is_closed
        bench.clock.advance(1)
        bench.listener.sweep(bench.clock.now_ms())
        await bench.settle()
        assert crawling.is_closed and not steady.is_closed and "with a request that comes too slowly" in caplog.text
        assert bench.listener.statistics().cut_stalled == 1
        steady.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_a_frame_is_counted_as_it_comes_and_waits_for_memory_in_the_middle() -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        far = bench.connect(port=1)
        large = metadata(1, *(["x" * 30_000] * 5))
        far.send(large[:20_000])
        await bench.settle()
        budget = bench.memory.large
        assert 20_000 < budget.statistics().used_bytes <= 40_000
        others = budget.open("10.0.0.9")
        first = budget.open("10.0.0.8").acquire(50_000, lambda lease: None, come=1)
        full = others.take(budget.statistics().bytes_max)
        assert first is not None and first.grow(50_000, lambda lease: None), "it has the one place above the limits"
        far.send(large[20_000:100_000])
        await bench.settle()
        assert budget.statistics().waiting == 1 and not far.is_reading
        bench.clock.advance(LIMITS.write_stall_ms_max + FRAME_MS_MAX)
        bench.listener.sweep(bench.clock.now_ms())
        await bench.settle()
        assert not far.is_closed, "it is not the sender that is slow"
        full.release()
        first.release()
        await bench.settle()
        far.send(large[100_000:])
        await bench.settle()
        assert answers(far) == [(1, "x" * 30_000)] and far.is_reading
        far.reset()
        await bench.settle()
        others.close()
        return bench

    run_to_the_end(scenario)


def test_a_slow_frame_above_the_limits_is_cut_when_another_party_waits(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        slow, budget = bench.connect(port=1), bench.memory.large
        large = metadata(1, *(["x" * 30_000] * 5))
        slow.send(large[:20_000])
        await bench.settle()
        full = budget.open("10.0.0.9").take(budget.statistics().bytes_max)
        slow.send(large[20_000:60_000])
        bench.clock.advance(ABOVE_MS_MAX + 1)
        bench.listener.sweep(bench.clock.now_ms())
        await bench.settle()
        assert not slow.is_closed, "nobody waits for its place"
        waiter = budget.open("10.0.0.8")
        assert waiter.acquire(9_000, lambda lease: None) is None
        bench.listener.sweep(bench.clock.now_ms())
        await bench.settle()
        assert slow.is_closed and "with a request that comes too slowly" in caplog.text
        waiter.close()
        full.release()
        return bench

    run_to_the_end(scenario)


def test_slow_frames_give_way_when_the_memory_is_full_and_a_party_with_little_waits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each holds less than it may, and comes at a pace at which it may come where nobody waits."""

    async def scenario() -> ListenerBench:
        bench = await bench_of()
        slow, young = bench.connect("10.0.0.1"), bench.connect("10.0.0.2")
        large, budget = metadata(1, *(["x" * 30_000] * 5)), bench.memory.large
        slow.send(large[:70_000])
        await bench.settle()
        bench.clock.advance(ABOVE_MS_MAX + 1)
        young.send(large[:70_000])
        await bench.settle()
        full = budget.open("10.0.0.9").take(budget.free)
        bench.listener.sweep(bench.clock.now_ms())
        await bench.settle()
        assert not slow.is_closed, "nobody waits"
        honest = bench.connect("10.0.0.8")
        honest.send(large[:150_000])
        await bench.settle()
        assert budget.statistics().waiting == 1 and honest.unsent
        bench.listener.sweep(bench.clock.now_ms())
        await bench.settle()
        assert slow.is_closed and not young.is_closed
        assert "whose requests took long while others waited for memory" in caplog.text
        assert budget.statistics().waiting == 0
        full.release()
        for far in (young, honest):
            far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_a_half_closed_client_whose_answer_never_comes_is_closed_when_it_was_silent_for_long() -> None:
    async def scenario() -> ListenerBench:
        held: list[Request] = []
        bench = await bench_of(held.append)
        ended, waiting = bench.connect(port=1), bench.connect(port=2)
        await found_quiet(bench)
        for far in (ended, waiting):
            far.send(metadata(1, "a"))
        ended.end()
        await bench.settle()
        bench.clock.advance(LIMITS.idle_ms_max)
        bench.listener.sweep(bench.clock.now_ms())
        await bench.settle()
        assert not ended.is_closed
        bench.clock.advance(1)
        bench.listener.sweep(bench.clock.now_ms())
        await bench.settle()
        assert ended.is_closed and not waiting.is_closed
        waiting.reset()
        await bench.settle()
        for request in held:
            request.complete("late")
        return bench

    run_to_the_end(scenario)


def test_a_request_without_records_has_its_own_largest_size(caplog: pytest.LogCaptureFixture) -> None:
    text = "x" * 1_000 + "🙂"
    large = BYTES_MAX // len(text.encode())

    async def scenario() -> ListenerBench:
        bench = await bench_of(limits=replace(LIMITS, message_bytes_max=2 * BYTES_MAX))
        far, other = bench.connect(port=1), bench.connect(port=2)
        far.send(metadata(1, *[text] * (large + 1)))
        other.send(frame(ProduceRequest(acks=1, topic_data=_of_bytes(BYTES_MAX + 1)), 9))
        await bench.settle()
        assert far.is_closed and not far.written and f"it may have {BYTES_MAX} at most" in caplog.text
        assert len(other.answers(ProduceResponse, 9)) == 1
        other.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def _of_bytes(count: int) -> list[TopicProduceData]:
    return [TopicProduceData(name="x", partition_data=[PartitionProduceData(records=bytes(count))])]


async def found_quiet(bench: ListenerBench) -> None:
    """A sweep has seen that nothing happens at any connection, and need not look at them until something does."""
    await bench.settle()
    bench.clock.advance(1)
    bench.listener.sweep(bench.clock.now_ms())
    assert all(served.quiet_since_ms >= 0 for served in bench.listener._open.values())
