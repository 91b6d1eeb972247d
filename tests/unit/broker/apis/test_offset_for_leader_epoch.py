"""Promises of the epoch look-up: a consumer never learns of what may be lost, nor of a truncation that never was."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from broker.apis.offset_for_leader_epoch import OffsetForLeaderEpochApi
from broker.network.request_channel import Request
from broker.replication.hosting.hosted_partitions import PartitionLookup
from broker.replication.partition import Partition
from penstock.errors import OffsetNotAvailableError
from penstock.messages.offsets import (
    EpochPartition,
    EpochPartitionResult,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from tests.support.machine import NOW_NS
from tests.support.partitions import PARTITION, TOPIC_ID, batch, flush, make_partition, state
from tests.support.sinks import CALLER, Sink

CONSUMER, REPLICA = -1, 2
WALL_MS = 1_700_000_000_000


def asked(partition: Partition, leader_epoch: int, replica_id: int) -> EpochPartitionResult:
    body = OffsetForLeaderEpochRequest((EpochPartition(PARTITION, TOPIC_ID, leader_epoch),), replica_id)
    request = Request("OffsetForLeaderEpoch", body, Sink(), CALLER, NOW_NS)
    replicas = cast(PartitionLookup, SimpleNamespace(get=lambda key, topic_id: partition))
    OffsetForLeaderEpochApi(replicas).handle(request, body)
    (result,) = cast(OffsetForLeaderEpochResponse, request.response).partitions
    return result


def test_a_new_leader_that_does_not_know_the_high_watermark_yet_says_so(tmp_path: Path) -> None:
    partition = make_partition(tmp_path)
    partition.become_leader(state(leader_epoch=5), 0)
    partition.append_as_leader(batch(b"a", b"b"), 1, 0, WALL_MS)
    flush(partition)
    partition.become_leader(state(leader_epoch=6), 1)
    assert isinstance(asked(partition, 5, CONSUMER).error, OffsetNotAvailableError)
    assert asked(partition, 5, REPLICA).end_offset == 2


def test_a_consumer_is_told_no_more_than_the_high_watermark(tmp_path: Path) -> None:
    partition = make_partition(tmp_path)
    partition.become_leader(state(leader_epoch=5), 0)
    partition.append_as_leader(batch(b"a", b"b"), 1, 0, WALL_MS)
    assert (asked(partition, 5, CONSUMER).end_offset, asked(partition, 5, REPLICA).end_offset) == (0, 2)
