"""The topics of this node's image of the metadata, as the groups' cores see them, and which of them have changed.

A topic has changed for a group if it was created, has more partitions, or has replicas in other racks. A new leader or
ISR is no news to a group, and a cluster that lives has many of them. Not here: what a group does about it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

from broker.coordination.turn import TopicFacts
from metadata.delta import MetadataDelta
from metadata.features import GROUP_VERSION, TABLE
from metadata.image import MetadataImage, TopicImage
from metadata.internal_topics import INTERNAL_TOPICS

_NO_RACK: frozenset[str] = frozenset()


class TopicNews(NamedTuple):
    """The names of topics that were created or changed, and of those that are gone."""

    changed: frozenset[str]
    deleted: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.changed or self.deleted)


class ImageTopics:
    """`KnownTopics` over the newest image. Facts are made when they are asked for, and kept while they are true."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._facts: dict[str, tuple[TopicImage, object, TopicFacts]] = {}
        self._names: tuple[object, Sequence[str]] = (None, ())

    def by_name(self, name: str) -> TopicFacts | None:
        image = self._image()
        topic = image.topic(name)
        return None if topic is None else self._facts_of(image, topic)

    def by_id(self, topic_id: str) -> TopicFacts | None:
        image = self._image()
        topic = image.topics_by_id.get(topic_id)
        return None if topic is None else self._facts_of(image, topic)

    def names(self) -> Sequence[str]:
        """Sorted; without the cluster's own topics."""
        by_name = self._image().topics_by_name
        if self._names[0] is not by_name:
            self._names = by_name, sorted(by_name.keys() - INTERNAL_TOPICS.keys())
        return self._names[1]

    def may_begin_consumer_groups(self) -> bool:
        return TABLE.level(self._image().levels, GROUP_VERSION) > 0

    def _facts_of(self, image: MetadataImage, topic: TopicImage) -> TopicFacts:
        known = self._facts.get(topic.topic_id)
        if known is not None and known[0] is topic and known[1] is image.brokers:
            return known[2]
        racks = {broker.broker_id: broker.rack for broker in image.brokers.values() if broker.rack}
        of_partitions = (
            [
                frozenset(racks[replica] for replica in topic.partitions[number].replicas if replica in racks)
                for number in sorted(topic.partitions)
            ]
            if racks
            else [_NO_RACK] * len(topic.partitions)
        )
        facts = TopicFacts(topic.topic_id, topic.name, len(topic.partitions), of_partitions)
        self._facts[topic.topic_id] = topic, image.brokers, facts
        return facts

    def published(self, delta: MetadataDelta, image: MetadataImage) -> TopicNews:
        """The changes of this image, for groups."""
        before = delta.image
        for topic_id in delta.deleted_topic_ids:
            self._facts.pop(topic_id, None)
        gone = frozenset(before.topics_by_id[topic_id].name for topic_id in delta.deleted_topic_ids)
        changed = {
            image.topics_by_id[topic_id].name
            for topic_id, numbers in delta.changed_topics.items()
            if _concerns_groups(before.topics_by_id.get(topic_id), image.topics_by_id[topic_id], numbers)
        }
        if any(_rack(before, broker_id) != _rack(image, broker_id) for broker_id in delta.changed_brokers):
            changed |= image.topics_by_name.keys()
        return TopicNews(frozenset(changed | gone) - INTERNAL_TOPICS.keys(), gone - INTERNAL_TOPICS.keys())

    def __repr__(self) -> str:
        return f"ImageTopics({len(self._facts)} known)"


def _concerns_groups(before: TopicImage | None, after: TopicImage, numbers: Set[int]) -> bool:
    if before is None or len(before.partitions) != len(after.partitions):
        return True
    return any(before.partitions[number].replicas != after.partitions[number].replicas for number in numbers)


def _rack(image: MetadataImage, broker_id: int) -> str:
    broker = image.brokers.get(broker_id)
    return broker.rack if broker is not None else ""
