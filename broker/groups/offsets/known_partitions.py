"""The topics that a request about offsets names, each looked up once."""

from __future__ import annotations

from broker.coordination.turn import KnownTopics, TopicFacts
from penstock.errors import UnknownTopicIdError, UnknownTopicOrPartitionError
from penstock.types import TopicPartition


class KnownPartitions:
    """The topics that one request names."""

    def __init__(self, topics: KnownTopics) -> None:
        self._topics = topics
        self._by_name: dict[str, TopicFacts | None] = {}
        self._by_id: dict[str, TopicFacts | None] = {}

    def topic(self, name: str) -> TopicFacts | None:
        try:
            return self._by_name[name]
        except KeyError:
            facts = self._by_name[name] = self._topics.by_name(name)
            return facts

    def found(self, partition: TopicPartition, topic_id: str = "") -> tuple[str, str]:
        """The topic's name and id, by its id where that is told; the error of one that there is not."""
        if topic_id:
            facts = self._by_id.get(topic_id)
            if facts is None:
                facts = self._by_id[topic_id] = self._topics.by_id(topic_id)
            if facts is None:
                raise UnknownTopicIdError(f"no topic has the id {topic_id}")
        else:
            facts = self.topic(partition.topic)
        if facts is None or not 0 <= partition.partition < facts.partitions:
            raise UnknownTopicOrPartitionError(f"there is no partition {partition}")
        return facts.name, facts.topic_id

    def __repr__(self) -> str:
        return f"KnownPartitions({len(self._by_name) + len(self._by_id)} topics)"
