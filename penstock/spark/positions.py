"""Positions in the topics of a stream: the offset JSON that Spark keeps in its checkpoint.

    {"version": 1, "topics": {"orders": {"id": "pK3x…", "partitions": {"0": [1200, 7], "1": [40, 7, 0]}}}}

Each partition has the next offset to read and the leader epoch in which it was seen. A partition that is new in this
offset also has the offset at which reading it begins. The offset from which a query begins has `"initial": true`. Spark
does not log it, and asks for it again after a crash in the first micro-batch; so every partition is new after it.

The topic's id distinguishes the topic from a later one of the same name; without an id, any topic of that name counts
as the same. Everything that planning needs is in here, because after a restart Spark asks for `partitions(start, end)`
before anything else. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.errors import ConfigError
from penstock.types import NO_EPOCH, NO_OFFSET, TopicPartition

VERSION = 1


class Position(NamedTuple):
    """The next offset to read; `begin` is where a partition begins that the offset before this one did not have."""

    offset: int
    leader_epoch: int = NO_EPOCH
    begin: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class TopicPositions:
    """The positions of one topic's partitions."""

    topic_id: str
    partitions: Mapping[int, Position]


@dataclass(frozen=True, slots=True)
class SourcePositions:
    """One stream offset."""

    topics: Mapping[str, TopicPositions] = field(default_factory=dict)
    initial: bool = False

    def get(self, tp: TopicPartition) -> Position | None:
        topic = self.topics.get(tp.topic)
        return topic.partitions.get(tp.partition) if topic is not None else None

    def topic_id(self, topic: str) -> str:
        """Empty when it is not known."""
        found = self.topics.get(topic)
        return found.topic_id if found is not None else ""

    def same_topic(self, other: SourcePositions, topic: str) -> bool:
        """Whether both speak of the same topic of that name. An id that was not written counts as the same."""
        mine, theirs = self.topic_id(topic), other.topic_id(topic)
        return not mine or not theirs or mine == theirs

    def items(self) -> Iterator[tuple[TopicPartition, Position]]:
        for name, topic in self.topics.items():
            for partition, position in topic.partitions.items():
                yield TopicPartition(name, partition), position

    def same_places(self, other: SourcePositions) -> bool:
        """Whether no offset has changed; leader epochs do not count."""
        return {(tp, p.offset) for tp, p in self.items()} == {(tp, p.offset) for tp, p in other.items()} and all(
            self.same_topic(other, topic) for topic in self.topics
        )

    def to_json(self) -> dict[str, Any]:
        """As Spark stores it; in one order, because Spark compares the text."""
        topics = {}
        for name in sorted(self.topics):
            topic = self.topics[name]
            partitions = {str(p): _position_json(topic.partitions[p]) for p in sorted(topic.partitions)}
            topics[name] = {"id": topic.topic_id, "partitions": partitions}
        return {"version": VERSION, "topics": topics, **({"initial": True} if self.initial else {})}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> SourcePositions:
        """ConfigError when it is not ours, or from a version that this one does not know."""
        version = data.get("version") if isinstance(data, Mapping) else None
        if version != VERSION:
            raise ConfigError(
                f"the checkpoint holds the offset {data!r}, which is not one of the penstock source "
                f"(version {VERSION}); it belongs to another source or a newer version: use another checkpointLocation"
            )
        try:
            topics = {name: _topic_positions(topic) for name, topic in data["topics"].items()}
            return SourcePositions(topics, data.get("initial") is True)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(f"the checkpoint holds the damaged offset {data!r}: {error!r}") from None


def positions_of(found: Mapping[TopicPartition, Position], topic_ids: Mapping[str, str]) -> SourcePositions:
    """Puts positions together by topic."""
    topics: dict[str, dict[int, Position]] = {}
    for tp, position in sorted(found.items()):
        topics.setdefault(tp.topic, {})[tp.partition] = position
    return SourcePositions({name: TopicPositions(topic_ids[name], partitions) for name, partitions in topics.items()})


def _position_json(position: Position) -> list[int]:
    return list(position) if position.begin != NO_OFFSET else list(position[:2])


def _topic_positions(data: Mapping[str, Any]) -> TopicPositions:
    return TopicPositions(
        str(data.get("id", "")), {int(p): Position(*map(int, values)) for p, values in data["partitions"].items()}
    )
