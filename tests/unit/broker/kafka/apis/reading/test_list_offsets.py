"""Promises of ListOffsets in Kafka's protocol: every timestamp with a meaning of its own, errors, and duplicates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.kafka.apis.reading.list_offsets import PORTION
from broker.kafka.schemas.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.replication.leader.record_deletion import delete_below
from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from tests.support.partitions import flush
from tests.support.undecided_log import said_transactions
from tests.unit.broker.kafka.apis.reading.reading_node import EPOCH, ReadingNode

T = 1_700_000_000_000
VERSIONS = range(1, 12)
LATEST, EARLIEST, LARGEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
UNSUPPORTED, INVALID_REQUEST, UNKNOWN_TOPIC, NOT_LEADER = 35, 42, 3, 6


@pytest.fixture
def node(tmp_path: Path) -> ReadingNode:
    """Topic t has records at T + 10, T + 30 and T + 20, and the first one is deleted."""
    made = ReadingNode(tmp_path)
    made.create("t", partitions=2)
    partition = made.hosted[TopicPartition("t", 0)]
    for time_ms in (T + 10, T + 30, T + 20):
        partition.append_as_leader(build_batch([b"v"], timestamps_ms=time_ms), 1, 0, T)
    flush(partition)
    delete_below(partition, 1)
    return made


def asks(
    node: ReadingNode, *wanted: tuple[str, int, int], version: int = 11, epoch: int = -1, **more: Any
) -> list[ListOffsetsPartitionResponse]:
    topics: dict[str, ListOffsetsTopic] = {}
    for name, partition, timestamp in wanted:
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
        topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[])).partitions.append(asked)
    body = ListOffsetsRequest(**{"replica_id": -1, "topics": list(topics.values()), **more})
    return [one for topic in node.ask(body, version).answer.topics for one in topic.partitions]


def found(node: ReadingNode, timestamp: int, version: int = 11, partition: int = 0) -> tuple[int, int, int]:
    (one,) = asks(node, ("t", partition, timestamp), version=version)
    assert one.error_code == 0
    return one.offset, one.timestamp, one.leader_epoch


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_tells_both_ends_and_the_first_record_at_a_time(node: ReadingNode, version: int) -> None:
    epoch = EPOCH if version >= 4 else -1
    assert found(node, EARLIEST, version) == (1, -1, epoch)
    assert found(node, LATEST, version) == (3, -1, epoch)
    assert found(node, T + 15, version) == (1, T + 30, epoch)
    assert found(node, 0, version) == (1, T + 30, epoch)


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_the_latest_committed_offset_is_the_high_watermark(node: ReadingNode, isolation_level: int) -> None:
    partition = node.hosted[TopicPartition("t", 0)]
    partition.append_as_leader(build_batch([b"not flushed"], timestamps_ms=T), 1, 0, T)
    (one,) = asks(node, ("t", 0, LATEST), isolation_level=isolation_level)
    assert one.offset == 3


@pytest.mark.parametrize("timestamp", [T + 31, 2**63 - 1])
def test_nothing_that_late_is_minus_1_at_minus_1(node: ReadingNode, timestamp: int) -> None:
    assert found(node, timestamp) == (-1, -1, -1)


@pytest.mark.parametrize("timestamp", [0, T, LARGEST])
def test_an_empty_log_has_nothing_at_any_time(node: ReadingNode, timestamp: int) -> None:
    assert found(node, timestamp, partition=1) == (-1, -1, -1)


def test_the_record_with_the_largest_timestamp_is_found(node: ReadingNode) -> None:
    assert found(node, LARGEST) == (1, T + 30, EPOCH)


def test_without_tiered_storage_the_log_is_local_and_nothing_is_tiered(node: ReadingNode) -> None:
    assert found(node, EARLIEST_LOCAL) == (1, -1, EPOCH)
    assert found(node, LATEST_TIERED) == (-1, -1, -1)
    assert found(node, EARLIEST_PENDING) == (-1, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "first"), [(LARGEST, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING, 11), (-7, 12)]
)
def test_a_timestamp_with_a_meaning_is_unsupported_before_its_version(
    node: ReadingNode, timestamp: int, first: int
) -> None:
    for version in VERSIONS:
        (one,) = asks(node, ("t", 0, timestamp), version=version)
        assert one.error_code == (0 if version >= first else UNSUPPORTED), version


def test_a_partition_that_is_named_twice_is_refused_and_the_others_answered(node: ReadingNode) -> None:
    answers = asks(node, ("t", 0, LATEST), ("t", 1, LATEST), ("t", 0, EARLIEST))
    assert [(one.partition_index, one.error_code) for one in answers] == [
        (0, INVALID_REQUEST),
        (1, 0),
        (0, INVALID_REQUEST),
    ]


def test_answers_keep_the_order_of_the_request_and_each_has_its_own_error(node: ReadingNode) -> None:
    node.create("elsewhere", leader_id=2)
    answers = asks(
        node, ("gone", 0, LATEST), ("t", 1, LATEST), ("elsewhere", 0, LATEST), ("t", 7, LATEST), ("t", 0, LATEST)
    )
    shown = [(one.partition_index, one.error_code, one.offset) for one in answers]
    assert shown == [
        (0, UNKNOWN_TOPIC, -1),
        (1, 0, 0),
        (7, UNKNOWN_TOPIC, -1),
        (0, 0, 3),
        (0, NOT_LEADER, -1),
    ], "by topic, as the request has them"


@pytest.mark.parametrize(("epoch", "code"), [(EPOCH - 1, 74), (EPOCH + 1, 75), (EPOCH, 0)])
def test_the_leader_epoch_of_the_client_is_checked(node: ReadingNode, epoch: int, code: int) -> None:
    (one,) = asks(node, ("t", 0, LATEST), epoch=epoch)
    assert one.error_code == code


@pytest.mark.parametrize("replica_id", [-2, 0, 2])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_that_says_it_is_a_replica_is_told_what_others_are(
    node: ReadingNode, version: int, replica_id: int
) -> None:
    """Every consumer of kafka-python 3.0.0 to 3.0.11 says 0. It is told of no record that is not committed."""
    partition = node.hosted[TopicPartition("t", 0)]
    partition.append_as_leader(build_batch([b"not flushed"], timestamps_ms=T), 1, 0, T)
    for timestamp, offset in ((LATEST, 3), (EARLIEST, 1)):
        (one,) = asks(node, ("t", 0, timestamp), version=version, replica_id=replica_id)
        assert (one.error_code, one.offset) == (0, offset)


def test_the_time_that_the_client_gives_is_that_of_the_look_up(node: ReadingNode) -> None:
    asks(node, ("t", 0, LATEST), timeout_ms=1234)
    asks(node, ("t", 0, LATEST), timeout_ms=-5)
    asks(node, ("t", 0, LATEST), timeout_ms=1234, version=9)
    assert [ask.body.timeout_ms for ask in node.asks] == [1234, 0, 1234]


def test_more_partitions_than_one_request_of_the_node_has_are_asked_in_turns(node: ReadingNode) -> None:
    answers = asks(node, *(("t", n, LATEST) for n in range(PORTION + 1)))
    assert [len(ask.body.partitions) for ask in node.asks] == [PORTION, 1]
    assert [one.error_code for one in answers] == [0, 0] + [UNKNOWN_TOPIC] * (PORTION - 1)


def test_a_request_for_nothing_asks_nothing(node: ReadingNode) -> None:
    assert asks(node) == [] and not node.asks


def test_a_reader_of_committed_records_is_told_the_last_stable_offset(node: ReadingNode) -> None:
    said_transactions(node.hosted[TopicPartition("t", 0)]).undecided[2] = 2**60
    for isolation_level, end in ((0, 3), (1, 2)):
        (one,) = asks(node, ("t", 0, LATEST), isolation_level=isolation_level)
        assert (one.error_code, one.offset) == (0, end)


@pytest.mark.parametrize("isolation_level", [-1, 2, 127])
def test_an_isolation_level_that_there_is_not_is_refused(node: ReadingNode, isolation_level: int) -> None:
    (one,) = asks(node, ("t", 0, LATEST), isolation_level=isolation_level)
    assert (one.error_code, one.offset) == (INVALID_REQUEST, -1)
