"""DescribeCluster: every registered broker, fenced ones included, the active controller, and what is wrong.

Brokers, leaders and offline partitions are those of this node's own image, which may be old when the quorum is lost.
So the answer has the node's own standing beside them: how old the image may be, whether the controller answers this
broker, and how the partitions that it should lead stand by its own knowledge.

A broker without a listener of the name of the one that the client uses is there without an address. All its listeners
for clients are named beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from broker.apis.api_parts import OwnStatus
from broker.apis.cluster.metadata import node_view
from broker.apis.served import Served
from broker.authorization.rules.administration import describe_cluster_rule
from broker.network.request_channel import Request
from broker.replication.replica_troubles import NAMED_MAX
from metadata.cordon import is_cordoned
from metadata.image import MetadataImage, TopicImage
from metadata.offline import offline_reason, offline_text
from penstock.messages.admin_apis import DESCRIBE_CLUSTER
from penstock.messages.cluster import (
    ClusterInfo,
    DescribeClusterRequest,
    PartitionTrouble,
    PartitionTroubleKind,
)
from penstock.messages.metadata import BrokerInfo, ClientListener
from penstock.topic_names import reading_order
from penstock.types import CLIENT_LISTENER, NO_LEADER, ListenerEndpoint


class _LeaderCounts(NamedTuple):
    """How many partitions each broker leads, and how many have no leader, by one table of topics."""

    topics: Mapping[str, TopicImage]
    leaders: Mapping[int, int]
    offline: int


class DescribeClusterApi:
    """Handles cluster descriptions."""

    def __init__(
        self,
        cluster_id: str,
        image: Callable[[], MetadataImage],
        controller_id: Callable[[], int],
        own_status: Callable[[], OwnStatus],
    ) -> None:
        self._cluster_id = cluster_id
        self._image = image
        self._controller_id = controller_id
        self._own_status = own_status
        self._counted = _LeaderCounts({}, {}, 0)

    def handle(self, request: Request, body: DescribeClusterRequest) -> None:
        image = self._image()
        brokers = tuple(_described(image, each, request.caller.listener) for each in sorted(image.brokers))
        if self._counted.topics is not image.topics_by_id:  # images share the table until a topic changes
            self._counted = _leader_counts(image.topics_by_id)
        counted = self._counted
        own_status, troubles = self._own_status()
        offline = _offline(image) if counted.offline else ()
        request.complete(
            ClusterInfo(
                cluster_id=self._cluster_id,
                controller_id=self._controller_id(),
                brokers=brokers,
                metadata_offset=image.offset,
                standing=own_status,
                leaders=counted.leaders,
                offline_partitions=counted.offline,
                troubles=(*offline, *troubles),
            )
        )


def _described(image: MetadataImage, broker_id: int, listener: str) -> BrokerInfo:
    """The broker as a client of that listener reaches it, with the addresses of all its other listeners for clients."""
    broker = image.brokers[broker_id]
    everywhere = (ListenerEndpoint(CLIENT_LISTENER, broker.endpoint), *broker.listeners)
    return replace(
        node_view(broker, listener),
        listeners=tuple(ClientListener(name, *endpoint) for name, endpoint in everywhere),
        cordoned=is_cordoned(broker, image.configs),
        broker_epoch=broker.broker_epoch,
    )


def _leader_counts(topics: Mapping[str, TopicImage]) -> _LeaderCounts:
    leaders = Counter(p.leader_id for topic in topics.values() for p in topic.partitions.values())
    offline = leaders.pop(NO_LEADER, 0)
    return _LeaderCounts(topics, leaders, offline)


def _offline(image: MetadataImage) -> tuple[PartitionTrouble, ...]:
    return tuple(islice(_every_offline(image), NAMED_MAX))


def _every_offline(image: MetadataImage) -> Iterator[PartitionTrouble]:
    for name in sorted(image.topics_by_name, key=reading_order):
        for number, partition in sorted(image.topics_by_name[name].partitions.items()):
            reason = offline_reason(partition, image)
            if reason is not None:
                yield PartitionTrouble(
                    name,
                    number,
                    PartitionTroubleKind.OFFLINE,
                    partition.replicas,
                    partition.isr,
                    reason=offline_text(partition, reason, image),
                )


SERVED: Final = (
    Served(
        api=DESCRIBE_CLUSTER,
        rule=describe_cluster_rule,
        make=lambda parts: DescribeClusterApi(parts.cluster_id, parts.image, parts.leader_id, parts.own_status).handle,
    ),
)
