"""Positions in the topics of a stream: the offset JSON that Spark keeps in its checkpoint.

    {"version": 1, "topics": {"orders": {"id": "pK3x…", "partitions": {"0": [1200, 7], "1": [40, 7, 0]}}},
     "metadata": {"cluster": "f8Qz…", "offset": 512}}

Each partition has the next offset to read and the leader epoch in which it was seen. A partition that is new in this
offset, or that was truncated below the offset before it, also has the offset at which reading it begins. The offset
from which a query begins has `"initial": true`. Spark does not log it, and asks for it again after a crash in the first
micro-batch; so every partition is new after it.

`metadata` is how far the cluster's metadata had been heard: a broker that has heard less says nothing that counts.
Positions of a topic that is gone are kept by its id (`gone`): should an answer have it again, it is not new. An offset
of an earlier version lacks these two, and is read on; that version reads an offset with them, and leaves them out.

The topic's id distinguishes the topic from a later one of the same name; without an id, any topic of that name counts
as the same. Everything that planning needs is in here, because after a restart Spark asks for `partitions(start, end)`
before anything else. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Any, NamedTuple

from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_EPOCH, NO_OFFSET, NOTHING_SEEN, MetadataOffset, TopicPartition

VERSION = 1
GONE_MAX = 1_000
"""Topics that are gone: some 100 bytes each in every offset."""


class StreamPosition(NamedTuple):
    """The next offset to read; `begin` is where a partition begins that the offset before this one did not have."""

    offset: int
    leader_epoch: int = NO_EPOCH
    begin: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class TopicPositions:
    """The positions of one topic's partitions."""

    topic_id: str
    partitions: Mapping[int, StreamPosition]


@dataclass(frozen=True, slots=True)
class SourcePositions:
    """One stream offset."""

    topics: Mapping[str, TopicPositions] = field(default_factory=dict)
    initial: bool = False
    metadata: MetadataOffset = NOTHING_SEEN
    gone: Mapping[str, Mapping[int, StreamPosition]] = field(default_factory=dict)
    """The positions of topics that are gone, by topic id; the topic that went last is at the end."""

    def get(self, tp: TopicPartition) -> StreamPosition | None:
        topic = self.topics.get(tp.topic)
        return topic.partitions.get(tp.partition) if topic is not None else None

    def of_topic(self, tp: TopicPartition, topic_id: str) -> StreamPosition | None:
        """The position in exactly this topic; one whose id was not written counts as any of its name."""
        if topic_id and topic_id in self.gone:
            return self.gone[topic_id].get(tp.partition)
        return self.get(tp) if not topic_id or self.topic_id(tp.topic) in ("", topic_id) else None

    def topic_id(self, topic: str) -> str:
        """Empty when it is not known."""
        found = self.topics.get(topic)
        return found.topic_id if found is not None else ""

    def same_topic(self, other: SourcePositions, topic: str) -> bool:
        """True if both speak of the same topic of that name. An id that was not written counts as the same."""
        mine, theirs = self.topic_id(topic), other.topic_id(topic)
        return not mine or not theirs or mine == theirs

    def items(self) -> Iterator[tuple[TopicPartition, StreamPosition]]:
        for name, topic in self.topics.items():
            for partition, position in topic.partitions.items():
                yield TopicPartition(name, partition), position

    def same_places(self, other: SourcePositions) -> bool:
        """True if no offset has changed and nothing is to be read; leader epochs and metadata do not count."""
        return (
            {(tp, p.offset) for tp, p in self.items()} == {(tp, p.offset) for tp, p in other.items()}
            and all(self.same_topic(other, topic) for topic in self.topics)
            and all(p.begin in (NO_OFFSET, p.offset) or p == other.get(tp) for tp, p in self.items())
        )

    def is_older_than(self, other: SourcePositions) -> str:
        """The proof that these positions were seen before the other ones; "" without such a proof."""
        mine, theirs = self.metadata, other.metadata
        if mine.cluster_id == theirs.cluster_id and mine.offset < theirs.offset:
            return f"the metadata was heard up to offset {mine.offset}, and the checkpoint has {theirs.offset}"
        for tp, position in self.items():
            known = other.get(tp)
            is_same = self.topic_id(tp.topic) and self.topic_id(tp.topic) == other.topic_id(tp.topic)
            if is_same and known is not None and NO_EPOCH < position.leader_epoch < known.leader_epoch:
                return f"{tp} is led in epoch {position.leader_epoch}, and the checkpoint has {known.leader_epoch}"
        return ""

    def to_json(self) -> dict[str, Any]:
        """The positions as Spark stores them; in one order, because Spark compares the text."""
        topics = {}
        for name in sorted(self.topics):
            topic = self.topics[name]
            partitions = {str(p): _position_json(topic.partitions[p]) for p in sorted(topic.partitions)}
            topics[name] = {"id": topic.topic_id, "partitions": partitions}
        found: dict[str, Any] = {"version": VERSION, "topics": topics}
        if self.initial:
            found["initial"] = True
        if self.metadata != NOTHING_SEEN:
            found["metadata"] = {"cluster": self.metadata.cluster_id, "offset": self.metadata.offset}
        if self.gone:
            found["gone"] = {
                topic_id: {str(p): list(partitions[p][:2]) for p in sorted(partitions)}
                for topic_id, partitions in self.gone.items()
            }
        return found

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
            seen = data.get("metadata", {})
            metadata = MetadataOffset(str(seen.get("cluster", "")), int(seen.get("offset", NO_OFFSET)))
            gone = {str(topic_id): _partitions(positions) for topic_id, positions in data.get("gone", {}).items()}
            return SourcePositions(topics, data.get("initial") is True, metadata, gone)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(f"the checkpoint holds the damaged offset {data!r}: {error!r}") from None


def positions_of(found: Mapping[TopicPartition, StreamPosition], topic_ids: Mapping[str, str]) -> SourcePositions:
    """Puts positions together by topic."""
    topics: dict[str, dict[int, StreamPosition]] = {}
    for tp, position in sorted(found.items()):
        topics.setdefault(tp.topic, {})[tp.partition] = position
    return SourcePositions({name: TopicPositions(topic_ids[name], partitions) for name, partitions in topics.items()})


def lags(progress: Any) -> dict[TopicPartition, int]:
    """Records between the end of a micro-batch and that of each partition of its topics.

    `progress` is Spark's report of a micro-batch: `query.lastProgress`, the event of a StreamingQueryListener, or the
    JSON of either. A source that is no topic of Penstock counts for nothing.
    """
    found: dict[TopicPartition, int] = {}
    for source in progress["sources"]:
        try:
            end, latest = (
                SourcePositions.from_json(json.loads(source[name])) for name in ("endOffset", "latestOffset")
            )
        except (ConfigError, TypeError, ValueError):
            continue
        reached = dict(end.items())
        for tp, position in latest.items():
            found[tp] = max(0, position.offset - (reached[tp].offset if tp in reached else 0))
    return found


def _position_json(position: StreamPosition) -> list[int]:
    return list(position) if position.begin != NO_OFFSET else list(position[:2])


def _topic_positions(data: Mapping[str, Any]) -> TopicPositions:
    return TopicPositions(str(data.get("id", "")), _partitions(data["partitions"]))


def _partitions(data: Mapping[str, Any]) -> dict[int, StreamPosition]:
    return {int(p): StreamPosition(*map(int, values)) for p, values in data.items()}


def with_gone(before: SourcePositions, after: SourcePositions) -> SourcePositions:
    """`after`, with the positions of the topics of `before` that it has no more; the oldest are forgotten."""
    ids = {topic.topic_id for topic in after.topics.values()}
    gone = dict(before.gone)
    for topic in before.topics.values():
        if topic.topic_id and topic.topic_id not in ids:
            gone[topic.topic_id] = topic.partitions
    kept = [(topic_id, partitions) for topic_id, partitions in gone.items() if topic_id not in ids]
    return replace(after, gone=dict(kept[-GONE_MAX:]))
