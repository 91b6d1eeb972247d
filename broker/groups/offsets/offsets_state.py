"""The committed offsets of the groups of one shard, as its records say.

`replay` is the only way in: of what was just decided, and of what the log holds. Not here: decisions (commits.py and
the other modules of this room), and the members of groups.

Transactions: an offset that a transaction commits will wait beside these until the transaction is decided, by producer
id; `OffsetFetchRequest.require_stable` will refuse what waits (KIP-447). Nothing of it exists yet, and
`records/record_log.py` leaves such records out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any, Final

from broker.groups.offsets.topic_offsets import TOPIC_BYTES, StoredOffset, TopicOffsets
from broker.groups.records.offset_records import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from penstock.types import TopicPartition

GROUP_BYTES: Final = 400
"""The memory of a group without topics, about."""
_NO_TOPICS: Final[Mapping[str, TopicOffsets]] = {}


@dataclass(frozen=True, slots=True)
class OffsetStatistics:
    """`memory_bytes` is an estimate."""

    groups: int
    offsets: int
    memory_bytes: int


class GroupOffsetsState:
    """By group, topic and partition."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, TopicOffsets]] = {}
        self._offsets = 0
        self._bytes = 0
        self.replays: Mapping[type, Callable[[Any, Any], None]] = {
            OffsetCommitKey: self.replay_offset,
            LegacyOffsetCommitKey: self.replay_legacy,
        }
        """By the class of the key."""

    # -- in ------------------------------------------------------------------------------------------------------------

    def replay_offset(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        if value is None:
            self._remove(key.group, key.topic, key.partition)
        else:
            self._put(key.group, key.topic, key.partition, value)

    def replay_legacy(self, key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None) -> None:
        """A record of Kafka before 0.9, which means the same."""
        if value is None:
            self._remove(key.group, key.topic, key.partition)
            return
        now = OffsetCommitValue(offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp)
        self._put(key.group, key.topic, key.partition, now)

    def _put(self, group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> None:
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = {}
            self._bytes += GROUP_BYTES + len(group_id)
        offsets = topics.get(topic)
        if offsets is None:
            offsets = topics[intern(topic)] = TopicOffsets(intern(value.topic_id))
            self._bytes += TOPIC_BYTES
        before = len(offsets)
        self._bytes += offsets.put(partition, value)
        self._offsets += len(offsets) - before

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self._groups.get(group_id, {})
        offsets = topics.get(topic)
        if offsets is None:
            return
        before = len(offsets)
        self._bytes += offsets.pop(partition)
        self._offsets += len(offsets) - before
        if not offsets:
            del topics[topic]
            self._bytes -= TOPIC_BYTES
        if not topics:
            del self._groups[group_id]
            self._bytes -= GROUP_BYTES + len(group_id)

    # -- out -----------------------------------------------------------------------------------------------------------

    def get(self, group_id: str, topic: str, partition: int) -> StoredOffset | None:
        offsets = self._groups.get(group_id, _NO_TOPICS).get(topic)
        return None if offsets is None else offsets.get(partition)

    def of_group(self, group_id: str) -> Iterator[tuple[TopicPartition, StoredOffset]]:
        """All offsets of a group."""
        for topic, offsets in list(self._groups.get(group_id, _NO_TOPICS).items()):
            for partition, committed in offsets.items():
                yield TopicPartition(topic, partition), committed

    def topics_of(self, group_id: str) -> Mapping[str, TopicOffsets]:
        return self._groups.get(group_id, _NO_TOPICS)

    def count_of(self, group_id: str) -> int:
        return sum(map(len, self._groups.get(group_id, _NO_TOPICS).values()))

    def group_ids(self) -> Iterable[str]:
        """The groups that have offsets; with or without members."""
        return self._groups.keys()

    def __contains__(self, group_id: object) -> bool:
        return group_id in self._groups

    def statistics(self) -> OffsetStatistics:
        return OffsetStatistics(len(self._groups), self._offsets, self._bytes)

    def __repr__(self) -> str:
        return f"GroupOffsetsState({len(self._groups)} groups, {self._offsets} offsets)"
