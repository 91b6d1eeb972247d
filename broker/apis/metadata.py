"""Metadata: brokers, topics, partitions and their leaders, from this node's own image.

The answer may be older than the controller's by a moment; its `metadata_offset` says how old. A topic that is asked for
by name and unknown gets its own error; the others are answered.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.network.request_channel import Request
from broker.requests import MetadataRequest, MetadataResponse, NodeView, PartitionView, TopicView
from metadata.image import MetadataImage, TopicImage
from metadata.offline import offline_reason, offline_text
from metadata.registrations import BrokerRegistration, PartitionRegistration
from penstock.errors import InvalidTopicError, LeaderNotAvailableError, UnknownTopicOrPartitionError


class MetadataApi:
    """Handles metadata requests."""

    def __init__(self, cluster_id: str, image: Callable[[], MetadataImage], controller_id: Callable[[], int]) -> None:
        self._cluster_id = cluster_id
        self._image = image
        self._controller_id = controller_id

    def handle(self, request: Request, body: MetadataRequest) -> None:
        image = self._image()
        if body.topics is None:
            topics = tuple(topic_view(image, image.topics_by_name[name]) for name in sorted(image.topics_by_name))
        else:
            topics = tuple(_named(image, name) for name in body.topics)
        request.complete(
            MetadataResponse(
                self._cluster_id,
                self._controller_id(),
                tuple(node_view(broker) for broker in image.brokers.values() if not broker.fenced),
                topics,
                image.offset,
            )
        )


def node_view(broker: BrokerRegistration) -> NodeView:
    return NodeView(broker.broker_id, broker.host, broker.port, broker.rack, broker.fenced)


def topic_view(image: MetadataImage, topic: TopicImage) -> TopicView:
    partitions = tuple(
        PartitionView(number, p.leader_id, p.leader_epoch, p.partition_epoch, p.replicas, p.isr, _why_offline(image, p))
        for number, p in sorted(topic.partitions.items())
    )
    return TopicView(topic.name, topic.topic_id, None, partitions, image.topic_config(topic.name))


def _why_offline(image: MetadataImage, partition: PartitionRegistration) -> LeaderNotAvailableError | None:
    reason = offline_reason(partition, image.is_active)
    return None if reason is None else LeaderNotAvailableError(offline_text(partition, reason))


def _named(image: MetadataImage, name: str) -> TopicView:
    topic = image.topic(name)
    if topic is not None:
        return topic_view(image, topic)
    if not name:
        return TopicView(name, error=InvalidTopicError("a topic name must not be empty"))
    return TopicView(name, error=UnknownTopicOrPartitionError(f"topic {name!r} does not exist; create it first"))
