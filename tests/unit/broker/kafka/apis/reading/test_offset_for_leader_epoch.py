"""Promises of OffsetForLeaderEpoch in Kafka's protocol: where an epoch ends, for a client of the present leader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.kafka.apis.reading.offset_for_leader_epoch import PORTION
from broker.kafka.schemas.offsets import OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic
from tests.unit.broker.kafka.apis.reading.reading_node import EPOCH, ReadingNode

VERSIONS = (2, 3, 4)
UNKNOWN_TOPIC, NOT_LEADER = 3, 6


@pytest.fixture
def node(tmp_path: Path) -> ReadingNode:
    made = ReadingNode(tmp_path)
    made.create("t", partitions=2)
    made.produce("t", b"a", b"b")
    return made


def asks(
    node: ReadingNode, *wanted: tuple[str, int, int], version: int = 4, current: int = -1, **more: Any
) -> list[tuple[int, int, int, int]]:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for name, partition, epoch in wanted:
        asked = OffsetForLeaderPartition(partition=partition, leader_epoch=epoch, current_leader_epoch=current)
        topics.setdefault(name, OffsetForLeaderTopic(topic=name, partitions=[])).partitions.append(asked)
    body = OffsetForLeaderEpochRequest(topics=list(topics.values()), **more)
    return [
        (one.partition, one.error_code, one.leader_epoch, one.end_offset)
        for topic in node.ask(body, version).answer.topics
        for one in topic.partitions
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_present_epoch_ends_at_the_high_watermark(node: ReadingNode, version: int) -> None:
    assert asks(node, ("t", 0, EPOCH), version=version) == [(0, 0, EPOCH, 2)]


@pytest.mark.parametrize("epoch", [EPOCH + 1, -1])
def test_an_epoch_that_the_log_does_not_know_has_no_end(node: ReadingNode, epoch: int) -> None:
    assert asks(node, ("t", 0, epoch)) == [(0, 0, -1, -1)]


@pytest.mark.parametrize(("current", "code"), [(EPOCH - 1, 74), (EPOCH + 1, 75), (EPOCH, 0)])
def test_the_leader_epoch_of_the_client_is_checked(node: ReadingNode, current: int, code: int) -> None:
    ((_, given, _, _),) = asks(node, ("t", 0, EPOCH), current=current)
    assert given == code


def test_answers_keep_the_order_of_the_request_and_each_has_its_own_error(node: ReadingNode) -> None:
    node.create("elsewhere", leader_id=2)
    answers = asks(node, ("gone", 3, 5), ("t", 1, 5), ("t", 9, 5), ("t", 0, 5), ("elsewhere", 0, 5))
    assert [one[:2] for one in answers] == [(3, UNKNOWN_TOPIC), (1, 0), (9, UNKNOWN_TOPIC), (0, 0), (0, NOT_LEADER)]


@pytest.mark.parametrize("version", [3, 4])
def test_a_client_that_says_it_is_a_replica_is_told_what_others_are(node: ReadingNode, version: int) -> None:
    assert asks(node, ("t", 0, EPOCH), version=version, replica_id=2) == [(0, 0, EPOCH, 2)]


def test_a_client_before_version_3_says_nothing_of_itself(node: ReadingNode) -> None:
    assert asks(node, ("t", 0, EPOCH), version=2, replica_id=-2) == [(0, 0, EPOCH, 2)]


def test_more_partitions_than_one_request_of_the_node_has_are_asked_in_turns(node: ReadingNode) -> None:
    answers = asks(node, *(("t", n, EPOCH) for n in range(PORTION + 1)))
    assert [len(ask.body.partitions) for ask in node.asks] == [PORTION, 1]
    assert [found[1] for found in answers] == [0, 0] + [UNKNOWN_TOPIC] * (PORTION - 1)
