"""Three real nodes: offsets are committed for a new topic, and a transaction gets its partition, at once at a
coordinator that is another node than the one that made the topic, in both protocols. It tries nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from broker.kafka.schemas.groups import offsets as group_offsets
from broker.kafka.schemas.table import REQUESTS, RESPONSES
from broker.kafka.schemas.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from broker.kafka.schemas.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.messages.apis import BY_REQUEST
from penstock.messages.groups.coordinators import CoordinatorType, FindCoordinatorRequest
from penstock.messages.groups.offsets import OffsetCommitPartition, OffsetCommitRequest
from penstock.messages.produce import InitProducerIdRequest
from penstock.messages.transactions import producers
from penstock.testing import Cluster
from penstock.testing.ports import free_ports
from penstock.types import TopicPartition
from penstock.wire.message_codec import request_codec, response_codec
from tests.support.both_protocols import by_grpc, codes_in, eventually
from tests.support.kafka_socket import KafkaSocket

TOPICS, SIDE_BY_SIDE, NODES = 64, 4, 3
MINUTE_MS, TIMEOUT_S = 60_000, 60
KEYS = {request: key for key, request in REQUESTS.items()}


@dataclass
class Coordinator:
    """One node that coordinates a group or a transactional id, with an open connection to each of its listeners."""

    key: str
    producer_id: int
    producer_epoch: int
    kafka: KafkaSocket
    grpc: grpc.Channel
    topic: str = ""
    topic_id: str = ""

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    def by_kafka(self, request: Any, version: int) -> set[int]:
        answer: Any = self.kafka.ask(request, version, RESPONSES[KEYS[type(request)]])
        return set(codes_in(answer)) - {0}

    def by_grpc(self, request: Any) -> set[int]:
        api = BY_REQUEST[type(request)]
        raw = self.grpc.unary_unary(api.method)(request_codec(api).encode(request), timeout=TIMEOUT_S)
        outcomes = api.outcomes(response_codec(api).decode(raw))
        return {outcome.error.code for outcome in outcomes if outcome.error is not None}


def committed(far: Coordinator, version: int) -> set[int]:
    part = group_offsets.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = group_offsets.OffsetCommitRequestTopic(name=far.topic, topic_id=far.topic_id, partitions=[part])
    return far.by_kafka(group_offsets.OffsetCommitRequest(group_id=far.key, topics=[topic]), version)


def by_name(far: Coordinator) -> set[int]:
    return committed(far, 9)


def by_id(far: Coordinator) -> set[int]:
    return committed(far, 10)


def fetched_by_id(far: Coordinator) -> set[int]:
    topic = group_offsets.OffsetFetchRequestTopics(topic_id=far.topic_id, partition_indexes=[0])
    group = group_offsets.OffsetFetchRequestGroup(group_id=far.key, topics=[topic])
    return far.by_kafka(group_offsets.OffsetFetchRequest(groups=[group]), 10)


def by_our_own(far: Coordinator) -> set[int]:
    return far.by_grpc(OffsetCommitRequest(far.key, (OffsetCommitPartition(far.place, 1),)))


def in_transaction(far: Coordinator) -> set[int]:
    part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = TxnOffsetCommitRequestTopic(name=far.topic, partitions=[part])
    request = TxnOffsetCommitRequest(
        transactional_id=far.key,
        group_id=far.key,
        producer_id=far.producer_id,
        producer_epoch=far.producer_epoch,
        topics=[topic],
    )
    return far.by_kafka(request, 5)


def in_transaction_by_our_own(far: Coordinator) -> set[int]:
    parts = (OffsetCommitPartition(far.place, 1),)
    who = far.producer_id, far.producer_epoch
    return far.by_grpc(producers.TxnOffsetCommitRequest(far.key, far.key, *who, parts, adds_group=True))


def added(far: Coordinator) -> set[int]:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=far.key,
        v3_and_below_producer_id=far.producer_id,
        v3_and_below_producer_epoch=far.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=far.topic, partitions=[0])],
    )
    return far.by_kafka(request, 3)


def added_by_our_own(far: Coordinator) -> set[int]:
    one = producers.TransactionPartitions(far.key, far.producer_id, far.producer_epoch, (far.place,))
    return far.by_grpc(producers.AddPartitionsToTxnRequest((one,)))


OF_GROUP, OF_ID = CoordinatorType.GROUP, CoordinatorType.TRANSACTION
USES: tuple[tuple[CoordinatorType, Callable[[Coordinator], set[int]]], ...] = (
    (OF_GROUP, by_name),
    (OF_GROUP, by_id),
    (OF_GROUP, fetched_by_id),
    (OF_GROUP, by_our_own),
    (OF_GROUP, in_transaction),
    (OF_GROUP, in_transaction_by_our_own),
    (OF_ID, added),
    (OF_ID, added_by_our_own),
)


@contextmanager
def coordinator_of(cluster: Cluster, key: str, kind: CoordinatorType) -> Iterator[tuple[int, Coordinator]]:
    """The node and its coordinator, which has loaded all that there is of the key."""
    ours, kafkas = cluster.bootstrap.split(","), cluster.kafka_bootstrap.split(",")

    def node_of(kind: CoordinatorType) -> int:
        (found,) = by_grpc(ours[0], FindCoordinatorRequest((key,), kind)).coordinators
        if found.error is not None:
            raise found.error
        return int(found.node_id)

    init = InitProducerIdRequest(key, MINUTE_MS)
    given = eventually(lambda: by_grpc(ours[node_of(OF_ID)], init))
    node = eventually(lambda: node_of(kind))
    with KafkaSocket(kafkas[node]) as kafka, grpc.insecure_channel(ours[node]) as channel:
        grpc.channel_ready_future(channel).result(TIMEOUT_S)
        yield node, Coordinator(key, given.producer_id, given.producer_epoch, kafka, channel)


def used_at_once(cluster: Cluster, number: int) -> tuple[str, set[int]]:
    """Creates a topic by another node, and asks the coordinator one thing; error codes."""
    kind, use = USES[number % len(USES)]
    with coordinator_of(cluster, f"key-{number}", kind) as (node, far):
        far.topic = f"topic-{number}"
        wanted = CreateTopicsRequest(topics=[CreatableTopic(name=far.topic, num_partitions=1, replication_factor=3)])
        with KafkaSocket(cluster.kafka_bootstrap.split(",")[(node + 1) % NODES]) as near:
            (made,) = near.ask(wanted, 7, CreateTopicsResponse).topics
        assert made.error_code == 0, made
        far.topic_id = made.topic_id
        return use.__name__, use(far)


def test_a_coordinator_knows_a_topic_as_soon_as_another_node_has_made_it() -> None:
    with Cluster(NODES, kafka_ports=[ports.kafka for ports in free_ports(NODES)]) as cluster:
        for kind in (OF_GROUP, OF_ID):  # their internal topics are made, and loaded
            with coordinator_of(cluster, "first", kind):
                pass
        with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
            answers = list(threads.map(lambda number: used_at_once(cluster, number), range(TOPICS)))
    assert {use for use, _ in answers} == {use.__name__ for _, use in USES}
    assert [answer for answer in answers if answer[1]] == []
