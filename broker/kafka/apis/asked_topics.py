"""Topics as requests of Kafka's protocol name them, found in the metadata; who leads a partition that is elsewhere.

A node's own requests name a partition by its topic's name and id. Kafka's have one of the two, so the metadata tells
the other. Between this look and the append or the read, the topic may be deleted and created again: the id makes sure
that nothing is done to the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from broker.kafka.schemas.shared import NodeEndpoint
from metadata.image import MetadataImage, TopicImage
from penstock.errors import (
    ApiError,
    InvalidRequestError,
    NotLeaderOrFollowerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.client_apis import NAMES_MAX
from penstock.types import LeaderHint, TopicPartition

T = TypeVar("T")


def check_number(topics: Sequence[object]) -> None:
    """InvalidRequestError for more topics than the controller changes at once; it is told before any work on them."""
    if len(topics) > NAMES_MAX:
        raise InvalidRequestError(f"{len(topics)} topics in one request, at most {NAMES_MAX}: ask for less at once")


def each_once(items: Iterable[T], name: Callable[[T], Hashable]) -> list[T]:
    """The items without those whose name came before. An answer has each name once, as Kafka's: librdkafka refuses a
    whole answer that has one twice."""
    found: dict[Hashable, T] = {}
    for item in items:
        found.setdefault(name(item), item)
    return list(found.values())


def topic_named(image: MetadataImage, name: str) -> TopicImage:
    """Raises UnknownTopicOrPartitionError."""
    found = image.topics_by_name.get(name)
    if found is None:
        raise UnknownTopicOrPartitionError(f"there is no topic {name!r}")
    return found


def topic_with_id(image: MetadataImage, topic_id: str) -> TopicImage:
    """Raises UnknownTopicIdError."""
    found = image.topics_by_id.get(topic_id)
    if found is None:
        raise UnknownTopicIdError(f"there is no topic of the id {topic_id!r}: it was deleted, or is not known here yet")
    return found


def no_partition(topic: TopicImage, partition: int) -> UnknownTopicOrPartitionError:
    """The error for a number that the topic does not have."""
    return UnknownTopicOrPartitionError(
        f"topic {topic.name!r} has no partition {partition}: it has {len(topic.partitions)}"
    )


def unless_elsewhere(
    image: MetadataImage, node_id: int, key: TopicPartition, topic_id: str, error: ApiError
) -> ApiError:
    """The error of a partition, as Kafka has it: a broker that does not serve an existing partition does not lead it,
    and says who does. It has no replica, or has not begun to make its log."""
    if not isinstance(error, UnknownTopicIdError):
        return error
    partition = image.partition(*key)
    if partition is None or partition.topic_id != topic_id:
        return error
    why = "serves no replica of it yet" if node_id in partition.replicas else "has no replica of it"
    return NotLeaderOrFollowerError(f"{key}: broker {node_id} {why}", leader=image.leader_hint(partition))


def add_leader(endpoints: list[NodeEndpoint], image: MetadataImage, leader: LeaderHint) -> None:
    """Adds the leader's address to those of an answer, once, if it has one for these clients."""
    if leader.endpoint is None or any(known.node_id == leader.leader_id for known in endpoints):
        return
    host, port = leader.endpoint
    broker = image.find_broker(leader.leader_id)
    rack = broker.rack or None if broker is not None else None
    endpoints.append(NodeEndpoint(node_id=leader.leader_id, host=host, port=port, rack=rack))
