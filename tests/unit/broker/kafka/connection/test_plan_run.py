"""Promises about the plan of a request: whatever becomes of it, its client is told, and nothing is kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from broker.kafka.api_row import ApiRow
from broker.kafka.plan import Ask, Asked, ConnectionEnds, MakePlan, Plan
from broker.kafka.schemas.cluster import DescribeClusterRequest, DescribeClusterResponse
from broker.kafka.schemas.metadata import MetadataRequest, MetadataResponse
from broker.network.memory_budget import MemoryBudget
from broker.network.request_channel import SMALL_BYTES, Request
from penstock.errors import (
    ApiError,
    InvalidRequestError,
    InvariantViolation,
    NotLeaderOrFollowerError,
    ResourceExhaustedError,
)
from penstock.types import LeaderHint
from tests.support.kafka_listener import METADATA, ListenerBench, answers, bench_of, frame, metadata, run_to_the_end

CLUSTER_VERSION = 1


def row(plan: MakePlan) -> ApiRow:
    """An API whose answer has a place for an error and its text."""
    return ApiRow(60, "DescribeCluster", DescribeClusterRequest, DescribeClusterResponse, (0, 2), plan)


def metadata_row(plan: MakePlan, failed: Any = None) -> ApiRow:
    """An API whose answer has no place for an error in the version that the tests send."""
    return ApiRow(3, "Metadata", MetadataRequest, MetadataResponse, (0, 12), plan, failed=failed)


def _answered(answer: Any) -> Any:
    return DescribeClusterResponse(cluster_id=answer)


def asks(body: object, then: Callable[[Any], Any] = _answered) -> MakePlan:
    """A plan with one question."""

    def plan(asked: Asked, request: Any) -> Plan:
        return then((yield Ask("DescribeCluster", body)))

    return plan


async def ask(bench: ListenerBench) -> list[DescribeClusterResponse]:
    """The answers to one request of a new connection, which is then reset."""
    far = bench.connect()
    far.send(frame(DescribeClusterRequest(), CLUSTER_VERSION))
    await bench.settle()
    found = [answer for _, answer in far.answers(DescribeClusterResponse, CLUSTER_VERSION)]
    if not far.is_closed:
        far.reset()
    await bench.settle()
    return found


def _refuse(request: Request) -> None:
    raise ResourceExhaustedError("too much")


def _break(request: Request) -> None:
    raise ZeroDivisionError("in the API")


def _no_plan(asked: Asked, request: Any) -> Plan:
    raise ZeroDivisionError("before the plan")


def _unwritable(answer: Any) -> Any:
    return DescribeClusterResponse(brokers=answer)


def _break_later(answer: Any) -> Any:
    raise ZeroDivisionError("in the plan")


@pytest.mark.parametrize(
    ("handle", "plan", "code", "words"),
    [
        pytest.param(_refuse, asks("it"), 7, "too much", id="the node refuses, in the code that clients know"),
        pytest.param(_break, asks("it"), -1, "ZeroDivisionError: in the API", id="an API has a bug"),
        pytest.param(None, _no_plan, -1, "ZeroDivisionError: before the plan", id="a plan cannot be made"),
        pytest.param(None, asks("it", _break_later), -1, "ZeroDivisionError: in the plan", id="a plan has a bug"),
        pytest.param(
            None,
            asks("it", _unwritable),
            -1,
            "EncodeError",
            id="its answer has",
        ),
    ],
)
def test_a_request_that_fails_is_answered_in_its_own_terms(
    handle: Any, plan: MakePlan, code: int, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of(handle, rows=[row(plan)])
        (answer,) = await ask(bench)
        assert answer.error_code == code and answer.error_message is not None and words in answer.error_message
        assert not bench.fatal
        return bench

    with caplog.at_level(logging.ERROR):
        run_to_the_end(scenario)
    assert len([record for record in caplog.records if record.exc_info]) == (code == -1), "a bug is in the log, once"


def test_a_plan_may_take_an_error_for_an_answer() -> None:
    def plan(asked: Asked, request: Any) -> Plan:
        try:
            yield Ask("DescribeCluster", None)
        except ResourceExhaustedError as error:
            return DescribeClusterResponse(cluster_id=error.message)

    async def scenario() -> ListenerBench:
        bench = await bench_of(_refuse, rows=[row(plan)])
        assert [answer.cluster_id for answer in await ask(bench)] == ["too much"]
        return bench

    run_to_the_end(scenario)


def test_a_broken_invariant_ends_the_node() -> None:
    def plan(asked: Asked, request: Any) -> Plan:
        yield Ask("DescribeCluster", None)
        raise InvariantViolation("it would go wrong")

    async def scenario() -> ListenerBench:
        bench = await bench_of(rows=[row(plan)])
        assert [answer.error_code for answer in await ask(bench)] == [-1]
        assert [str(error) for error in bench.fatal] == ["it would go wrong"]
        return bench

    run_to_the_end(scenario)


@pytest.mark.parametrize("ends", [ConnectionEnds("a write without acks failed"), InvalidRequestError("no place")])
def test_a_client_that_cannot_be_told_loses_its_connection_after_the_answers_before(
    ends: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def plan(asked: Asked, request: MetadataRequest) -> Plan:
        answer = yield Ask("Metadata", None)
        if not request.topics:
            raise ends
        return MetadataResponse(cluster_id=answer)

    async def scenario() -> ListenerBench:
        bench = await bench_of(lambda request: request.complete("fine"), rows=[metadata_row(plan)])
        far = bench.connect()
        far.send(metadata(1, "a") + metadata(2) + metadata(3, "a"))
        await bench.settle()
        assert answers(far) == [(1, "fine")] and far.is_closed
        return bench

    with caplog.at_level(logging.WARNING):
        run_to_the_end(scenario)
    assert len(caplog.records) == 1 and str(ends) in caplog.text and not caplog.records[0].exc_info


def test_a_row_may_have_its_own_answer_to_a_failure() -> None:
    def failed(asked: Asked, body: MetadataRequest, error: ApiError) -> MetadataResponse:
        return MetadataResponse(cluster_id=f"{len(body.topics or ())} of version {asked.version}: {error.message}")

    async def scenario() -> ListenerBench:
        bench = await bench_of(_refuse, rows=[metadata_row(asks("it"), failed)])
        far = bench.connect()
        far.send(metadata(1, "a"))
        await bench.settle()
        assert answers(far) == [(1, "1 of version 9: too much")]
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_an_error_names_its_leader_at_the_listener_of_the_client_while_the_plan_reads_it() -> None:
    error = NotLeaderOrFollowerError("elsewhere", leader=LeaderHint(2, 7))
    seen: list[Any] = []

    def handle(request: Request) -> None:
        request.failures = (error,)
        request.complete("answer")

    async def scenario() -> ListenerBench:
        bench = await bench_of(handle, rows=[row(asks("it", lambda answer: seen.append(error.leader)))])
        hint, error.leader = error.leader, _Hint()  # type: ignore[assignment]
        await ask(bench)
        assert seen == ["at KAFKA"] and isinstance(error.leader, _Hint)
        error.leader = hint
        return bench

    run_to_the_end(scenario)


class _Hint:
    def at(self, listener: str) -> str:
        return f"at {listener}"


def test_every_question_of_a_plan_is_prepared_before_it_queues_and_holds_up_its_connection_alone() -> None:
    async def scenario() -> ListenerBench:
        ready, asked = asyncio.Event(), []

        def prepare(request: Request) -> Any:
            asked.append(request.body)
            return ready.wait() if request.body == "slow" else None

        bench = await bench_of(prepare=prepare)
        far, other = bench.connect(port=1), bench.connect(port=2)
        far.send(metadata(1, "slow") + metadata(2, "behind"))
        other.send(metadata(1, "a", "b"))
        await bench.settle()
        assert not far.written and answers(other) == [(1, "b")]
        ready.set()
        await bench.settle()
        assert answers(far) == [(1, "slow"), (2, "behind")] and asked == ["slow", "a", "b", "behind"]
        for one in (far, other):
            one.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_a_question_that_cannot_be_prepared_fails_its_request_alone() -> None:
    def prepare(request: Request) -> None:
        if request.body == "bad":
            raise InvalidRequestError("it cannot be prepared")

    def failed(asked: Asked, body: MetadataRequest, error: ApiError) -> MetadataResponse:
        return MetadataResponse(cluster_id=error.message)

    async def scenario() -> ListenerBench:
        bench = await bench_of(prepare=prepare, rows=[metadata_row(METADATA.plan, failed)])
        far = bench.connect()
        far.send(metadata(1, "a", "bad", "c") + metadata(2, "bad") + metadata(3, "d"))
        await bench.settle()
        assert answers(far) == [(1, "it cannot be prepared"), (2, "it cannot be prepared"), (3, "d")]
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_a_full_request_queue_stops_the_reading() -> None:
    async def scenario() -> ListenerBench:
        bench = ListenerBench(queued_max=2)  # and nobody takes a request out
        far = bench.connect()
        sent = b"".join(metadata(number, "a") for number in range(1_000))
        far.send(sent)
        await bench.settle()
        assert bench.channel.statistics().request_queue_size == 2 and not far.is_reading and far.unsent
        bench.dispatcher.start()
        for _ in range(300):
            await bench.settle()
        assert len(answers(far)) == 1_000
        far.reset()
        await bench.settle()
        return bench

    run_to_the_end(scenario)


def test_an_answer_counts_in_memory_until_its_last_byte_has_left() -> None:
    async def scenario() -> ListenerBench:
        budget = MemoryBudget(1_000, 1)
        account = budget.open("10.0.0.1")

        def handle(request: Request) -> None:
            request.response_lease = account.take(100)
            request.complete(request.body)

        bench = await bench_of(handle)
        far = bench.connect()
        far.takes = False
        far.send(metadata(1, "a") + metadata(2, "b"))
        await bench.settle()
        assert budget.statistics().used_bytes == 200
        far.takes_again(3)
        await bench.settle()
        assert budget.statistics().used_bytes == 200
        far.takes_again()
        await bench.settle()
        assert budget.statistics().used_bytes == 0 and len(answers(far)) == 2
        far.takes = False
        far.send(metadata(3, "c") + metadata(4, "d"))
        await bench.settle()
        far.reset()
        await bench.settle()
        assert budget.statistics().used_bytes == 0
        account.close()
        return bench

    run_to_the_end(scenario)


def test_a_large_body_counts_until_a_handler_is_done_with_it_and_small_ones_do_not_hold_it_up() -> None:
    async def scenario() -> ListenerBench:
        held: list[Request] = []
        bench = await bench_of(held.append)
        far = bench.connect()
        large = frame(MetadataRequest(topics=[]), 9, 1)
        far.send(metadata(1, "x" * 30_000, *("y" * 30_000 for _ in range(3))) + large)
        await bench.settle()
        assert bench.memory.large.statistics().used_bytes > SMALL_BYTES
        far.reset()
        await bench.settle()
        assert [request.is_abandoned for request in held] == [True]
        held[0].complete("late")
        return bench

    run_to_the_end(scenario)


def _asks_twice(asked: Asked, request: Any) -> Plan:
    yield Ask("Metadata", "first")
    yield Ask("Metadata", "second")
    return MetadataResponse()


LARGE = metadata(1, *("y" * 30_000 for _ in range(4)))


def test_a_large_body_counts_between_the_questions_of_its_plan_so_that_nobody_takes_its_room() -> None:
    async def scenario() -> ListenerBench:
        held: list[Request] = []
        used: list[int] = []

        def handle(request: Request) -> None:
            used.append(bench.memory.large.statistics().used_bytes)
            held.append(request)

        bench = await bench_of(handle, rows=[metadata_row(_asks_twice)])
        far = bench.connect()
        far.send(LARGE)
        await bench.settle()
        held[0].complete("answer")
        assert bench.memory.large.statistics().used_bytes == used[0] > SMALL_BYTES, "before the second question"
        await bench.settle()
        held[1].complete("answer")
        await bench.settle()
        assert used == [used[0]] * 2 and bench.memory.large.statistics().used_bytes == 0
        far.reset()
        return bench

    run_to_the_end(scenario)


@pytest.mark.parametrize("questions", [1, 2])
def test_a_connection_that_ends_between_the_questions_gives_its_body_back(questions: int) -> None:
    async def scenario() -> ListenerBench:
        held: list[Request] = []
        bench = await bench_of(held.append, rows=[metadata_row(_asks_twice)])
        far = bench.connect()
        far.send(LARGE)
        await bench.settle()
        held[0].complete("answer")
        if questions == 2:
            await bench.settle()
        far.reset()
        await bench.settle()
        for request in held[1:]:
            request.complete("late")
        assert bench.memory.large.statistics().used_bytes == 0
        return bench

    run_to_the_end(scenario)
