"""The subscriptions and assignments of classic members, which name topics, by topic ids as a consumer group has them.

Pure. Not here: the bytes themselves (penstock/wire/consumer_protocol.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from broker.coordination.turn import KnownTopics
from broker.groups.consumer.member import Assignment, Owned
from broker.network.request_ports import Visibility
from penstock.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolTopicPartitions,
    MalformedConsumerProtocolError,
    decode_assignment,
    decode_subscription,
    encode_consumer_protocol,
    subscription_version,
)


class SaidSubscription(NamedTuple):
    """A classic member's word when it joins. `held` are the partitions that it has not given up."""

    names: frozenset[str]
    rack_id: str | None
    held: Assignment


def read_subscription(metadata: bytes, topics: KnownTopics) -> SaidSubscription:
    """MalformedConsumerProtocolError for other bytes."""
    found = decode_subscription(metadata)
    return SaidSubscription(frozenset(found.topics), found.rack_id or None, _by_id(found.owned_partitions, topics))


def seen_by(visibility: Visibility | None, said: SaidSubscription, topics: KnownTopics) -> SaidSubscription:
    """The subscription without the topics that the member may not know of. They count as if they did not exist: the
    coordinator assigns, so a name would be answered with the topic's partitions."""
    if visibility is None:
        return said
    held = {topic_id: some for topic_id, some in said.held.items() if _is_seen(visibility, topics, topic_id)}
    return said._replace(names=frozenset(filter(visibility.sees, said.names)), held=held)


def _is_seen(visibility: Visibility | None, topics: KnownTopics, topic_id: str) -> bool:
    topic = topics.by_id(topic_id)
    return topic is not None and (visibility is None or visibility.sees(topic.name))


def read_assignment(assignment: bytes, topics: KnownTopics) -> Assignment:
    """MalformedConsumerProtocolError for other bytes. Topics that are not there any more are left out."""
    return _by_id(decode_assignment(assignment).assigned_partitions, topics)


def written_assignment(
    assigned: Owned, topics: KnownTopics, metadata: bytes, visibility: Visibility | None = None
) -> bytes:
    """The assignment in the version of the member's own subscription, so that the member can read it; in the first
    version if that is not known. It has no topic that the member may not know of: an assignment may be older than its
    rights."""
    try:
        version = subscription_version(metadata)
    except MalformedConsumerProtocolError:
        version = 0
    rows: list[ConsumerProtocolTopicPartitions] = []
    for topic_id, epochs in assigned.items():
        topic = topics.by_id(topic_id)
        if topic is not None and _is_seen(visibility, topics, topic_id):
            rows.append(ConsumerProtocolTopicPartitions(topic=topic.name, partitions=sorted(epochs)))
    rows.sort(key=lambda row: row.topic)
    return encode_consumer_protocol(ConsumerProtocolAssignment(assigned_partitions=rows), version)


def _by_id(rows: Iterable[ConsumerProtocolTopicPartitions], topics: KnownTopics) -> dict[str, frozenset[int]]:
    found: dict[str, frozenset[int]] = {}
    for row in rows:
        topic = topics.by_name(row.topic)
        if topic is not None and row.partitions:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | frozenset(row.partitions)
    return found
