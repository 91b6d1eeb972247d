"""The committed offsets of the groups of one shard, as its records say.

Records and markers are the only way in: those just decided, and those of the log. An offset that a transaction commits
waits in `pending` until the marker of its producer comes. Not here: decisions (commits.py and the other modules of this
room), and the members of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any, Final

from broker.groups.offsets.pending_offsets import PendingOffsets
from broker.groups.offsets.topic_offsets import TOPIC_BYTES, StoredOffset, TopicOffsets
from broker.groups.records.offset_records import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetRun,
    OffsetRunKey,
)
from penstock.types import TopicPartition

GROUP_BYTES: Final = 400
"""The memory of a group without topics, about."""
_NO_TOPICS: Final[Mapping[str, TopicOffsets]] = {}


@dataclass(frozen=True, slots=True)
class OffsetStatistics:
    """`memory_bytes` is an estimate. `groups` are those with committed offsets."""

    groups: int
    offsets: int
    memory_bytes: int
    pending: int = 0


class GroupOffsetsState:
    """By group, topic and partition."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, TopicOffsets]] = {}
        self._offsets = 0
        self._bytes = 0
        self.pending = PendingOffsets()
        self.replays: Mapping[type, Callable[[Any, Any], None]] = {
            OffsetCommitKey: self.replay_offset,
            LegacyOffsetCommitKey: self.replay_legacy,
            OffsetRunKey: self.replay_run,
        }
        """By the class of the key."""

    # -- in ------------------------------------------------------------------------------------------------------------

    def replay_offset(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        if value is None:
            self._remove(key.group, key.topic, key.partition)
        else:
            self._commit(key.group, key.topic, key.partition, value)

    def replay_legacy(self, key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None) -> None:
        """A record of Kafka before 0.9, which means the same."""
        if value is None:
            self._remove(key.group, key.topic, key.partition)
            return
        now = OffsetCommitValue(offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp)
        self._commit(key.group, key.topic, key.partition, now)

    def replay_run(self, key: OffsetRunKey, run: OffsetRun) -> None:
        """Offsets of some partitions of a topic, read from the log together."""
        if self.pending:
            for partition, value in run.items():
                self._commit(key.group, key.topic, partition, value)
        else:
            offsets = self._offsets_in(key.group, key.topic, run.topic_id)
            before = len(offsets)
            self._bytes += offsets.put_run(run)
            self._offsets += len(offsets) - before

    def replay_pending(self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """A record of a transaction. A tombstone waits for nothing, as in Kafka."""
        if value is None:
            self._remove(key.group, key.topic, key.partition)
        else:
            self.pending.put(producer_id, key.group, TopicPartition(key.topic, key.partition), value)

    def replay_end(self, producer_id: int, is_committed: bool) -> int:
        """A marker: the transaction of this producer has ended. The number of offsets that it has committed."""
        decided = self.pending.decide(producer_id)
        if not is_committed:
            return 0
        for one in decided:
            self._commit(one.group_id, *one.place, one.value, one.order)
        return len(decided)

    def _commit(
        self, group_id: str, topic: str, partition: int, value: OffsetCommitValue, order: int | None = None
    ) -> None:
        """`order`: of one that has waited; those that came after it wait on."""
        if self.pending:
            self.pending.replaced(group_id, TopicPartition(topic, partition), order)
        self._put(group_id, topic, partition, value)

    def _put(self, group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> None:
        offsets = self._offsets_in(group_id, topic, value.topic_id)
        before = len(offsets)
        self._bytes += offsets.put(partition, value)
        self._offsets += len(offsets) - before

    def _offsets_in(self, group_id: str, topic: str, topic_id: str) -> TopicOffsets:
        """The offsets of a group in a topic, to which one is added now."""
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = {}
            self._bytes += GROUP_BYTES + len(group_id)
        offsets = topics.get(topic)
        if offsets is None:
            offsets = topics[intern(topic)] = TopicOffsets(intern(topic_id))
            self._bytes += TOPIC_BYTES
        return offsets

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        if self.pending:
            self.pending.forget(group_id, TopicPartition(topic, partition))
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

    def names_of(self, group_id: str) -> Iterable[str]:
        """The topics in which the group has offsets, committed or pending."""
        topics = self._groups.get(group_id, _NO_TOPICS).keys()
        if group_id not in self.pending:
            return topics
        return dict.fromkeys((*topics, *(place.topic for place in self.pending.places_of(group_id))))

    def count_of(self, group_id: str) -> int:
        return sum(map(len, self._groups.get(group_id, _NO_TOPICS).values()))

    def group_ids(self) -> Iterable[str]:
        """The groups that have offsets, committed or pending; with or without members."""
        return dict.fromkeys((*self._groups, *self.pending.group_ids())) if self.pending else self._groups.keys()

    def __contains__(self, group_id: object) -> bool:
        return group_id in self._groups or group_id in self.pending

    def statistics(self) -> OffsetStatistics:
        return OffsetStatistics(
            len(self._groups), self._offsets, self._bytes + self.pending.bytes, pending=len(self.pending)
        )

    def __repr__(self) -> str:
        return f"GroupOffsetsState({len(self._groups)} groups, {self._offsets} offsets)"
