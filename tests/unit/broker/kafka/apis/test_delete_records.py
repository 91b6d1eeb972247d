"""Promises of DeleteRecords in Kafka's protocol: each partition has its place in the answer, and its own error."""

from __future__ import annotations

from typing import Any

import pytest

from broker.apis.delete_records import TIMEOUT_MS_MAX
from broker.kafka.apis.delete_records import delete_records_failed, delete_records_plan
from broker.kafka.plan import Plan
from broker.kafka.schemas.offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from penstock.errors import InvalidRequestError, OffsetOutOfRangeError, UnknownTopicIdError
from penstock.messages.offsets import DeleteRecordsResponse, DeleteRecordsResult
from penstock.types import TopicPartition
from tests.support.kafka_plans import ME, OTHER, asked, ended, first_ask, parts_of, read_by_client, topic_of

PARTS = parts_of(topic_of("t", "T" * 21 + "A", ME, ME), topic_of("u", "U" * 21 + "A", OTHER))


def request(*offsets: tuple[str, int, int], timeout_ms: int = 1_000) -> DeleteRecordsRequest:
    topics = [
        DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)])
        for topic, index, offset in offsets
    ]
    return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def planned(version: int, body: DeleteRecordsRequest) -> Plan:
    return delete_records_plan(PARTS)(asked(version), body)


def outcomes(answer: Any, version: int) -> list[tuple[str, int, int, int]]:
    return [
        (topic.name, part.partition_index, part.low_watermark, part.error_code)
        for topic in read_by_client(answer, version).topics
        for part in topic.partitions
    ]


@pytest.mark.parametrize("version", range(3))
def test_each_partition_has_its_own_outcome(version: int) -> None:
    plan = planned(version, request(("t", 0, 7), ("gone", 0, 7), ("t", 9, 7), ("t", 1, -1), ("u", 0, 7)))
    body = first_ask(plan, "DeleteRecords")
    assert [(str(one.partition), one.before_offset) for one in body.partitions] == [("t-0", 7), ("t-1", -1), ("u-0", 7)]
    made = (
        DeleteRecordsResult(TopicPartition("t", 0), None, 7),
        DeleteRecordsResult(TopicPartition("t", 1), OffsetOutOfRangeError()),
        DeleteRecordsResult(TopicPartition("u", 0), UnknownTopicIdError()),
    )
    assert outcomes(ended(plan, DeleteRecordsResponse(made)), version) == [
        ("t", 0, 7, 0),
        ("gone", 0, -1, 3),
        ("t", 9, -1, 3),
        ("t", 1, -1, 1),
        ("u", 0, -1, 6),
    ]


def test_an_error_for_all_is_told_for_each_partition_that_was_asked_for() -> None:
    plan = planned(2, request(("gone", 0, 7), ("t", 0, 7)))
    first_ask(plan, "DeleteRecords")
    assert outcomes(ended(plan, InvalidRequestError()), 2) == [("gone", 0, -1, 3), ("t", 0, -1, 42)]
    failed = delete_records_failed(asked(2), request(("gone", 0, 7), ("t", 0, 7)), InvalidRequestError())
    assert outcomes(failed, 2) == [("gone", 0, -1, 42), ("t", 0, -1, 42)]


def test_nothing_is_asked_where_there_is_nothing_to_delete() -> None:
    assert outcomes(ended(planned(2, request())), 2) == []
    assert outcomes(ended(planned(2, request(("gone", 0, 7)))), 2) == [("gone", 0, -1, 3)]


@pytest.mark.parametrize(("given", "used"), [(-1, 0), (2**31 - 1, TIMEOUT_MS_MAX)])
def test_any_time_out_is_taken(given: int, used: int) -> None:
    assert first_ask(planned(2, request(("t", 0, 7), timeout_ms=given)), "DeleteRecords").timeout_ms == used
