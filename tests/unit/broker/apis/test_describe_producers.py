"""Promises of the description of producers: it is the leader's, up to date, and never larger than a message."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from broker.apis.describe_producers import PRODUCERS_MAX, DescribeProducersApi
from broker.network.request_channel import Request
from broker.replication.partition import Partition
from penstock.errors import NotLeaderOrFollowerError, ResourceExhaustedError
from penstock.messages.produce import (
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionProducers,
)
from penstock.record.builder import build_batch
from penstock.record.markers import Marker, build_marker
from penstock.types import TopicPartition
from storage.append.append_origin import COORDINATOR
from tests.support.machine import NOW_NS
from tests.support.partitions import NOBODY, TOPIC_ID, flush, make_partition, state
from tests.support.producer_node import sent
from tests.support.sinks import CALLER, Sink

WALL_MS = 1_700_000_000_000


def asked(
    *partitions: Partition, of_replicas: bool = False, producers_max: int = PRODUCERS_MAX
) -> tuple[PartitionProducers, ...]:
    by_key = {TopicPartition("t", number): partition for number, partition in enumerate(partitions)}
    body = DescribeProducersRequest(tuple(DescribeProducersPartition(key, TOPIC_ID) for key in by_key), of_replicas)
    request = Request("DescribeProducers", body, Sink(), CALLER, NOW_NS)
    lookup: Any = SimpleNamespace(get=lambda key, topic_id: by_key[key])
    DescribeProducersApi(lookup, producers_max).handle(request, body)
    return cast(DescribeProducersResponse, request.response).partitions


def leading(path: Path, *producer_ids: int) -> Partition:
    partition = make_partition(path)
    partition.become_leader(state(isr=(1,)), 0)
    for producer_id in producer_ids:
        partition.append_as_leader(sent(0, 3, epoch=2, producer_id=producer_id), 1, 0, WALL_MS)
    flush(partition)
    return partition


def test_each_producer_is_told_with_its_epoch_and_its_last_sequence(tmp_path: Path) -> None:
    partition = leading(tmp_path, 7, 8)
    partition.append_as_leader(sent(3, epoch=2, producer_id=7), 1, 0, WALL_MS)
    (shown,) = asked(partition)
    assert shown.error is None
    found = [(one.producer_id, one.producer_epoch, one.last_sequence) for one in shown.producers]
    assert found == [(8, 2, 2), (7, 2, 3)], "the longest silent first"
    assert all(one.last_append_ms > 0 for one in shown.producers)


def test_a_transaction_is_told_from_its_first_offset_until_its_marker(tmp_path: Path) -> None:
    partition = leading(tmp_path, 7)
    data = build_batch(
        [b"v"], timestamps_ms=WALL_MS, is_transactional=True, producer_id=8, producer_epoch=2, base_sequence=0
    )
    partition.append_as_leader(data, 1, 0, WALL_MS)
    plain, writer = asked(partition)[0].producers
    assert (plain.transaction_start_offset, plain.coordinator_epoch) == (None, None)
    assert (writer.last_sequence, writer.transaction_start_offset, writer.coordinator_epoch) == (0, 3, None)

    marker = build_marker(Marker(8, 3, is_committed=False, coordinator_epoch=5), WALL_MS)
    partition.log.append.as_leader(marker, partition.log.latest_epoch, WALL_MS, COORDINATOR)
    writer = asked(partition)[0].producers[-1]
    assert (writer.producer_epoch, writer.last_sequence) == (3, -1)
    assert (writer.transaction_start_offset, writer.coordinator_epoch) == (None, 5)


def test_a_truncation_is_in_the_answer(tmp_path: Path) -> None:
    partition = leading(tmp_path, 7)
    partition.append_as_leader(sent(3, epoch=2, producer_id=7), 1, 0, WALL_MS)
    partition.log.truncate_to(3)
    assert [(one.producer_id, one.last_sequence) for one in asked(partition)[0].producers] == [(7, 2)]


def test_a_follower_answers_only_who_asks_for_replicas(tmp_path: Path) -> None:
    partition = leading(tmp_path, 7)
    partition.become_follower(state(leader_id=2, leader_epoch=6), NOBODY)
    (found,) = asked(partition)
    assert isinstance(found.error, NotLeaderOrFollowerError) and found.producers == ()
    (found,) = asked(partition, of_replicas=True)
    assert found.error is None and [one.producer_id for one in found.producers] == [7]


def test_partitions_that_have_no_room_in_the_answer_are_asked_for_again(tmp_path: Path) -> None:
    many = leading(tmp_path / "0", 1, 2, 3, 4)
    one, two = leading(tmp_path / "1", 5), leading(tmp_path / "2", 6, 7)
    assert [len(found.producers) for found in asked(many, producers_max=3)] == [4], "the first one is always told"
    found = asked(two, two, one, producers_max=3)
    assert [len(partition.producers) for partition in found] == [2, 0, 1]
    assert isinstance(found[1].error, ResourceExhaustedError) and found[1].error.retriable
