"""Metadata: brokers, topics, partitions and their leaders, from this node's own image.

The answer may be a moment older than the controller's state: `metadata_offset` says which state it is. Without a quorum
it may be much older, and `metadata_age_ms` says how old. An unknown topic name gets an error of its own; the other
topics are answered.

If the log of a partition is lost on the broker that leads it, the image does not say so, because no other replica may
lead. Only that leader reports it in its own answer.

A client is told of the endpoints of the listener that it uses (KIP-103). A broker without a listener of that name is
left out, and a partition that it leads has the error LISTENER_NOT_FOUND in place of its leader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from broker.network.request_channel import Request
from metadata.image import MetadataImage
from metadata.offline import offline_reason, offline_text
from metadata.registrations import BrokerRegistration, PartitionRegistration
from penstock.errors import (
    ApiError,
    InvalidTopicError,
    LeaderNotAvailableError,
    ListenerNotFoundError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.metadata import BrokerInfo, MetadataRequest, MetadataResponse, PartitionInfo, TopicInfo
from penstock.types import NO_LEADER, TopicPartition

WhyLost = Callable[[TopicPartition, PartitionRegistration], str]
"""Why this broker cannot lead a partition that it should lead; "" when it can. `LostReplicas.why_offline`."""


class _Nowhere(NamedTuple):
    """The brokers that have no listener of the name of the one that a request came by."""

    listener: str
    brokers: frozenset[int]


class MetadataApi:
    """Handles metadata requests."""

    def __init__(
        self,
        cluster_id: str,
        image: Callable[[], MetadataImage],
        controller_id: Callable[[], int],
        why_lost: WhyLost,
        metadata_age_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self._metadata_age_ms = metadata_age_ms
        self._why_lost = why_lost
        self._cluster_id = cluster_id
        self._image = image
        self._controller_id = controller_id

    def handle(self, request: Request, body: MetadataRequest) -> None:
        image = self._image()
        names = sorted(image.topics_by_name) if body.topics is None else dict.fromkeys(body.topics)
        listener, brokers = request.caller.listener, image.brokers.values()
        nowhere = _Nowhere(listener, frozenset(b.broker_id for b in brokers if b.endpoint_at(listener) is None))
        topics = tuple(self._topic_view(image, name, body.include_log_dirs, nowhere) for name in names)
        request.complete(
            MetadataResponse(
                self._cluster_id,
                self._controller_id(),
                tuple(node_view(b, listener) for b in brokers if not b.fenced and b.broker_id not in nowhere.brokers),
                topics,
                image.offset,
                self._metadata_age_ms(),
            )
        )

    def _topic_view(self, image: MetadataImage, name: str, include_log_dirs: bool, nowhere: _Nowhere) -> TopicInfo:
        topic = image.topic(name)
        if topic is None:
            return TopicInfo(name, error=_why_unknown(name))
        partitions = tuple(
            PartitionInfo(
                number,
                NO_LEADER if p.leader_id in nowhere.brokers else p.leader_id,
                p.leader_epoch,
                p.partition_epoch,
                p.replicas,
                p.isr,
                self._why_offline(image, TopicPartition(topic.name, number), p, nowhere),
                p.elr,
                p.directories if include_log_dirs else (),
                p.adding_replicas,
                p.removing_replicas,
            )
            for number, p in sorted(topic.partitions.items())
        )
        return TopicInfo(topic.name, topic.topic_id, partitions, image.topic_config(topic.name))

    def _why_offline(
        self, image: MetadataImage, key: TopicPartition, partition: PartitionRegistration, nowhere: _Nowhere
    ) -> LeaderNotAvailableError | ListenerNotFoundError | None:
        if partition.leader_id in nowhere.brokers:
            return ListenerNotFoundError(
                f"{key} is led by broker {partition.leader_id}, which has no listener {nowhere.listener}; add it to "
                "the listeners of that broker, or connect at a listener that all brokers have"
            )
        reason = offline_reason(partition, image)
        if reason is not None:
            return LeaderNotAvailableError(offline_text(partition, reason, image))
        lost = self._why_lost(key, partition)
        return LeaderNotAvailableError(f"offline on its leader, broker {partition.leader_id}: {lost}") if lost else None


def _why_unknown(name: str) -> ApiError:
    if not name:
        return InvalidTopicError("a topic name must not be empty")
    return UnknownTopicOrPartitionError(f"topic {name!r} does not exist; create it first")


def node_view(broker: BrokerRegistration, listener: str) -> BrokerInfo:
    """The broker as a client of that listener reaches it; without an address if it has no such listener."""
    host, port = broker.endpoint_at(listener) or ("", 0)
    return BrokerInfo(broker.broker_id, host, port, broker.rack, broker.fenced)
