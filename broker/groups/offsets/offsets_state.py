"""The committed offsets of the groups of one shard, as its records say.

Records and markers are the only way in: those just decided, and those of the log. An offset that a transaction commits
waits in `pending` until the marker of its producer comes. Not here: decisions (commits.py and the other modules of this
room), and the members of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from sys import intern
from typing import Any, Final

from broker.coordination.held_memory import UNIT_BYTES, Grown, text_bytes, uncounted
from broker.groups.offsets.pending_offsets import PendingOffsets, entry_bytes
from broker.groups.offsets.topic_offsets import TOPIC_BYTES, StoredOffset, TopicOffsets
from broker.groups.records.offset_records import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetRun,
    OffsetRunKey,
)
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition

GROUP_BYTES: Final = 400 + UNIT_BYTES
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
    """The offsets by group, topic and partition."""

    def __init__(self, grown: Grown = uncounted, grown_for_now: Grown = uncounted) -> None:
        """`grown` hears of every change of the bytes of a group's lasting state; `grown_for_now`, of the state that
        ends with a transaction."""
        self._grown = grown
        self._groups: dict[str, dict[str, TopicOffsets]] = {}
        self._offsets = 0
        self._bytes = 0
        self.pending = PendingOffsets(grown, grown_for_now)
        self.replays: Mapping[type, Callable[[Any, Any], None]] = {
            OffsetCommitKey: self.replay_offset,
            LegacyOffsetCommitKey: self.replay_legacy,
            OffsetRunKey: self.replay_run,
        }
        """Functions by the class of the key. Each takes its record into the state."""

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
            self._changed(key.group, offsets.put_run(run))
            self._offsets += len(offsets) - before

    def replay_pending(self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """A record of a transaction. A tombstone waits for nothing, as in Kafka."""
        if value is None:
            self._remove(key.group, key.topic, key.partition)
        else:
            place = TopicPartition(key.topic, key.partition)
            self.pending.put(producer_id, key.group, place, value, self.reserved(key, value))

    def replay_end(self, producer_id: int, is_committed: bool) -> int:
        """A marker: the transaction of this producer has ended. The number of offsets that it has committed."""
        decided = self.pending.decided(producer_id) if is_committed else ()
        for one in decided:
            self._commit(one.group_id, *one.place, one.value, one.order)
        self.pending.ended(producer_id)
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
        self._changed(group_id, offsets.put(partition, value))
        self._offsets += len(offsets) - before

    def _offsets_in(self, group_id: str, topic: str, topic_id: str) -> TopicOffsets:
        """The offsets of a group in a topic, to which one is added now."""
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = {}
            self._changed(group_id, GROUP_BYTES + text_bytes(group_id))
        offsets = topics.get(topic)
        if offsets is None:
            offsets = topics[intern(topic)] = TopicOffsets(intern(topic_id))
            self._changed(group_id, TOPIC_BYTES)
        return offsets

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        if self.pending:
            self.pending.forget(group_id, TopicPartition(topic, partition))
        topics = self._groups.get(group_id, {})
        offsets = topics.get(topic)
        if offsets is None:
            return
        before = len(offsets)
        self._changed(group_id, offsets.pop(partition))
        self._offsets += len(offsets) - before
        if not offsets:
            del topics[topic]
            self._changed(group_id, -TOPIC_BYTES)
        if not topics:
            del self._groups[group_id]
            self._changed(group_id, -GROUP_BYTES - text_bytes(group_id))

    def _changed(self, group_id: str, by: int) -> None:
        if by:
            self._bytes += by
            self._grown(group_id, by)

    # -- out -----------------------------------------------------------------------------------------------------------

    def get(self, group_id: str, topic: str, partition: int) -> StoredOffset | None:
        offsets = self._groups.get(group_id, _NO_TOPICS).get(topic)
        return None if offsets is None else offsets.get(partition)

    def growth(self, key: OffsetCommitKey, value: OffsetCommitValue) -> int:
        """The bytes by which the group would grow if the offset were committed now."""
        topics = self._groups.get(key.group)
        group_bytes = GROUP_BYTES + text_bytes(key.group) if topics is None else 0
        offsets = None if topics is None else topics.get(key.topic)
        if offsets is None:
            return group_bytes + TOPIC_BYTES + TopicOffsets(value.topic_id).growth(key.partition, value)
        return offsets.growth(key.partition, value)

    def reserved(self, key: OffsetCommitKey, value: OffsetCommitValue) -> int:
        """The bytes that an offset of a transaction reserves, so that there is memory for it when it is committed; 0 if
        it replaces one as large."""
        growth = self.growth(key, value)
        return max(growth, entry_bytes(value)) if growth > 0 else 0

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
