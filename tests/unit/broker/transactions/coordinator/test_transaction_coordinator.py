"""Promises of the coordinator of transactions on one broker, over real replicas and logs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from broker.coordination.partition_of import partition_of
from broker.coordination.shard_ports import ShardState
from penstock.errors import (
    ApiError,
    CoordinatorNotAvailableError,
    InvalidRequestError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    ResourceExhaustedError,
    TransactionalIdNotFoundError,
)
from penstock.messages.groups.coordinators import CoordinatorType, FindCoordinatorRequest
from penstock.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from penstock.messages.transactions.listing import (
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from penstock.messages.transactions.producers import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    EndTxnResponse,
    TransactionPartitions,
)
from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from storage.append.append_origin import COORDINATOR
from tests.support.transaction_broker import ME, OTHER, TransactionBroker

IDS = tuple(f"app-{number}" for number in range(8))
T0 = TopicPartition("t", 0)


def run(scenario: Callable[[TransactionBroker], Awaitable[None]], *, has_topic: bool = True) -> None:
    async def main() -> None:
        broker = TransactionBroker()
        broker.coordinator.start()
        if has_topic:
            broker.make_topic()
            await broker.active(4)
        try:
            await scenario(broker)
        finally:
            await broker.stop()

    asyncio.run(main())


def init(name: str) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)


async def begun(broker: TransactionBroker, name: str) -> InitProducerIdResponse:
    """A transaction that has t-0."""
    made = await broker.answered(broker.submit(init(name)))
    assert isinstance(made, InitProducerIdResponse), made
    added = await broker.answered(broker.submit_each(adding(name, made)))
    assert [one.error for one in added.transactions[0].partitions] == [None]
    return made


def adding(name: str, producer: InitProducerIdResponse) -> AddPartitionsToTxnRequest:
    asked = TransactionPartitions(name, producer.producer_id, producer.producer_epoch, (T0,))
    return AddPartitionsToTxnRequest((asked,))


def end(name: str, producer: InitProducerIdResponse, is_committed: bool = True) -> EndTxnRequest:
    return EndTxnRequest(name, producer.producer_id, producer.producer_epoch, is_committed, bumps_epoch=True)


async def described(broker: TransactionBroker, *names: str) -> list[Any]:
    answer = await broker.answered(broker.submit_each(DescribeTransactionsRequest(names)))
    return [one.error or one.state for one in answer.transactions]


async def becomes(broker: TransactionBroker, name: str, state: str) -> None:
    async with asyncio.timeout(60):
        while await described(broker, name) != [state]:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def test_a_transaction_from_its_begin_to_its_end() -> None:
    async def scenario(broker: TransactionBroker) -> None:
        made = await begun(broker, "app")
        assert (made.producer_id, made.producer_epoch) == (1_001, 0)
        assert await described(broker, "app") == ["Ongoing"] and not broker.markers
        ended = await broker.answered(broker.submit(end("app", made)))
        assert ended == EndTxnResponse(1_001, 1)
        await broker.until(lambda: broker.markers)
        (marker,) = broker.markers
        assert (marker.producer_id, marker.producer_epoch, marker.is_committed) == (1_001, 1, True)
        assert [one.partition for one in marker.partitions] == [T0] and marker.coordinator_epoch == 0
        await becomes(broker, "app", "CompleteCommit")
        figures = broker.figures.statistics()
        assert (figures.active, figures.idle, figures.ongoing, figures.prepared, figures.committed) == (4, 1, 0, 0, 1)
        assert (figures.markers_waiting, figures.markers_written, figures.oldest_marker_ms) == (0, 1, 0)

    run(scenario)


def test_the_topic_is_made_when_it_is_needed_and_asked_for_once() -> None:
    async def scenario(broker: TransactionBroker) -> None:
        asked = FindCoordinatorRequest(("a", "b", ""), CoordinatorType.TRANSACTION)
        errors = [found.error for found in broker.find(asked).response.coordinators]  # type: ignore[attr-defined]
        assert [type(error) for error in errors] == [CoordinatorNotAvailableError] * 2 + [InvalidRequestError]
        assert isinstance(broker.submit(init("a")).error, CoordinatorNotAvailableError)
        await broker.active(4)
        found = broker.find(asked).response.coordinators  # type: ignore[attr-defined]
        assert [one.node_id for one in found[:2]] == [ME, ME] and len(broker.asked) == 1

    run(scenario, has_topic=False)


def test_each_id_goes_to_its_partition_and_one_of_another_broker_is_refused() -> None:
    async def scenario(broker: TransactionBroker) -> None:
        for name in IDS:
            await begun(broker, name)
        lost = partition_of(IDS[0], 4)
        broker.elect(OTHER, lost)
        await broker.active(3)
        answers = await described(broker, *IDS)
        for name, answer in zip(IDS, answers, strict=True):
            is_lost = partition_of(name, 4) == lost
            assert isinstance(answer, NotCoordinatorError) if is_lost else answer == "Ongoing", (name, answer)
        assert isinstance(broker.submit(init(IDS[0])).error, NotCoordinatorError)
        (found,) = broker.find(FindCoordinatorRequest((IDS[0],), CoordinatorType.TRANSACTION)).response.coordinators  # type: ignore[attr-defined]
        assert found.node_id == OTHER
        listed = await broker.answered(broker.submit_each(ListTransactionsRequest(("Ongoing", "Wrong"))))
        assert isinstance(listed, ListTransactionsResponse) and listed.unknown_states == ("Wrong",)
        here = {name for name in IDS if partition_of(name, 4) != lost}
        assert {one.transactional_id for one in listed.transactions} == here
        added = await broker.answered(broker.submit_each(adding(IDS[0], InitProducerIdResponse(1, 0))))
        assert isinstance(added.transactions[0].partitions[0].error, NotCoordinatorError)

    run(scenario)


def test_a_list_leaves_out_what_nobody_can_read_and_one_by_producers_is_refused_then() -> None:
    async def scenario(broker: TransactionBroker) -> None:
        made = {name: await begun(broker, name) for name in IDS}
        number = partition_of(IDS[0], 4)
        by_producer = ListTransactionsRequest(producer_ids=(made[IDS[0]].producer_id,))
        listed = await broker.answered(broker.submit_each(by_producer))
        assert [one.transactional_id for one in listed.transactions] == [IDS[0]]
        damaged = build_batch([b"\x00\x63"], keys=[b"\x00\x00\x00\x01a"], timestamps_ms=0)
        broker.partition(number).append_as_leader(damaged, 1, 0, 0, COORDINATOR)
        broker.elect(OTHER, number)
        await broker.active(3)
        broker.elect(ME, number)
        await broker.until(lambda: any(shard.state is ShardState.FAILED for shard in broker.coordinator.shards))
        listed = await broker.answered(broker.submit_each(ListTransactionsRequest()))
        here = {name for name in IDS if partition_of(name, 4) != number}
        assert {one.transactional_id for one in listed.transactions} == here
        answer = await broker.answered(broker.submit_each(by_producer))
        assert isinstance(answer, CoordinatorNotAvailableError), "without a coordinator it would be taken for hanging"

    run(scenario)


def test_a_decision_is_known_after_a_new_lead_and_its_markers_are_sent_until_they_are_written() -> None:
    async def scenario(broker: TransactionBroker) -> None:
        broker.marker_error = NotEnoughReplicasError("too few")
        made = await begun(broker, "app")
        assert isinstance(await broker.answered(broker.submit(end("app", made))), EndTxnResponse)
        await broker.until(lambda: broker.sender.failures > 2)
        number = partition_of("app", 4)
        broker.elect(OTHER, number)
        await broker.active(3)
        assert broker.sender.open_partitions == 0, "the new coordinator sends them"
        broker.elect(ME, number)
        await broker.active(4)
        assert await described(broker, "app") == ["PrepareCommit"] and not broker.markers
        broker.marker_error = None
        await becomes(broker, "app", "CompleteCommit")
        assert {marker.is_committed for marker in broker.markers} == {True}
        assert min(marker.coordinator_epoch for marker in broker.markers) == 2

    run(scenario)


def test_without_a_producer_id_the_request_fails_and_nothing_is_written() -> None:
    async def scenario(broker: TransactionBroker) -> None:
        broker.id_error = ResourceExhaustedError("no ids")
        assert isinstance(await broker.answered(broker.submit(init("app"))), ResourceExhaustedError)
        (error,) = await described(broker, "app")
        assert isinstance(error, TransactionalIdNotFoundError)

    run(scenario)


def test_a_stop_answers_and_refuses() -> None:
    async def scenario(broker: TransactionBroker) -> None:
        waiting = broker.submit(init("app"))
        await broker.coordinator.stop()
        assert isinstance(await broker.answered(waiting), ApiError | InitProducerIdResponse)
        assert isinstance(broker.submit(init("app")).error, NotCoordinatorError)

    run(scenario)
