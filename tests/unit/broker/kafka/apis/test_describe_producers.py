"""Promises of DescribeProducers in Kafka's protocol: each partition has its place in the answer, and its own error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from broker.kafka.apis import describe_producers
from broker.kafka.apis.describe_producers import describe_producers_failed, describe_producers_plan
from broker.kafka.schemas.producers import DescribeProducersRequest, DescribeProducersRequestTopicRequest
from penstock.errors import RequestTimedOutError, UnknownTopicIdError
from penstock.messages.produce import DescribeProducersResponse, PartitionProducers, ProducerState
from penstock.types import TopicPartition
from tests.support.kafka_plans import ME, OTHER, asked, ended, first_ask, parts_of, read_by_client, topic_of

PARTS = parts_of(topic_of("t", "T" * 21 + "A", ME, ME), topic_of("u", "U" * 21 + "A", OTHER))
STATE = ProducerState(7, 2, 41, 1_700_000_000_000)


def request(**indexes: list[int]) -> DescribeProducersRequest:
    return DescribeProducersRequest(
        topics=[
            DescribeProducersRequestTopicRequest(name=name.replace("bad", "a b"), partition_indexes=found)
            for name, found in indexes.items()
        ]
    )


def outcomes(answer: Any) -> list[tuple[str, int, int, int]]:
    return [
        (topic.name, part.partition_index, part.error_code, len(part.active_producers))
        for topic in read_by_client(answer, 0).topics
        for part in topic.partitions
    ]


def test_each_partition_has_its_own_outcome() -> None:
    plan = describe_producers_plan(PARTS)(asked(0), request(t=[1, 9], gone=[0], bad=[0], u=[0]))
    body = first_ask(plan, "DescribeProducers")
    assert [str(one.partition) for one in body.partitions] == ["t-1", "u-0"] and body.of_replicas
    made = (
        PartitionProducers(TopicPartition("t", 1), None, (STATE, STATE)),
        PartitionProducers(TopicPartition("u", 0), UnknownTopicIdError()),
    )
    answer = ended(plan, DescribeProducersResponse(made))
    assert outcomes(answer) == [("t", 1, 0, 2), ("t", 9, 3, 0), ("gone", 0, 3, 0), ("a b", 0, 17, 0), ("u", 0, 6, 0)]
    state = read_by_client(answer, 0).topics[0].partitions[0].active_producers[0]
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (7, 2, 41)
    assert (state.last_timestamp, state.coordinator_epoch, state.current_txn_start_offset) == (
        STATE.last_append_ms,
        -1,
        -1,
    )


def test_a_transaction_is_told_with_its_first_offset_and_its_coordinators_epoch() -> None:
    plan = describe_producers_plan(PARTS)(asked(0), request(t=[1]))
    first_ask(plan, "DescribeProducers")
    given = replace(STATE, coordinator_epoch=0, transaction_start_offset=0)
    made = (PartitionProducers(TopicPartition("t", 1), None, (given,)),)
    state = read_by_client(ended(plan, DescribeProducersResponse(made)), 0).topics[0].partitions[0].active_producers[0]
    assert (state.coordinator_epoch, state.current_txn_start_offset) == (0, 0)


def test_more_partitions_than_one_request_may_have_are_asked_in_turns(monkeypatch: Any) -> None:
    monkeypatch.setattr(describe_producers, "PORTION", 1)
    plan = describe_producers_plan(PARTS)(asked(0), request(t=[0, 1]))
    first_ask(plan, "DescribeProducers")
    ask = plan.send(DescribeProducersResponse((PartitionProducers(TopicPartition("t", 0), None, (STATE,)),)))
    assert [str(one.partition) for one in ask.body.partitions] == ["t-1"]
    made = PartitionProducers(TopicPartition("t", 1), None, (STATE, STATE))
    assert outcomes(ended(plan, DescribeProducersResponse((made,)))) == [("t", 0, 0, 1), ("t", 1, 0, 2)]


def test_a_request_that_fails_has_the_error_for_each_partition() -> None:
    failed = describe_producers_failed(asked(0), request(t=[0, 1]), RequestTimedOutError())
    assert outcomes(failed) == [("t", 0, 7, 0), ("t", 1, 7, 0)]
