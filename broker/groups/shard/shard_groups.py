"""The groups of a shard, whichever protocol they speak: what others ask about one of them.

A group id that has offsets and no group is a simple group: no member ever joined it. It is listed as an empty classic
group without a protocol type, as Kafka does. Not here: requests (shard.py), offsets (offsets/).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from broker.coordination.turn import KnownTopics, Turn
from broker.groups.classic.classic_groups import ClassicGroups
from broker.groups.classic.group import ClassicGroup
from broker.groups.classic.states import GroupState
from broker.groups.consumer.consumer_groups import ConsumerGroups
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.offsets.offset_groups import OffsetExpiry
from penstock.errors import NonEmptyGroupError
from penstock.messages.groups.listing import DescribedGroup, GroupType, ListedGroup
from penstock.messages.groups.offsets import OffsetCommitRequest, OffsetFetchGroup
from penstock.messages.transactions.producers import TxnOffsetCommitRequest
from penstock.types import NO_TIMESTAMP, TopicPartition
from penstock.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, assigned_partitions


class ShardGroups:
    """`groups` are those of both protocols, by id. Has what the offsets ask (`OffsetGroups`)."""

    def __init__(
        self, groups: dict[str, ClassicGroup | ConsumerGroup], classic: ClassicGroups, consumer: ConsumerGroups
    ) -> None:
        self._groups, self._classic, self._consumer = groups, classic, consumer

    # -- of offsets ----------------------------------------------------------------------------------------------------

    def knows(self, group_id: str) -> bool:
        return group_id in self._groups

    def group_ids(self) -> Collection[str]:
        return self._groups.keys()

    def check_commit(self, turn: Turn, request: OffsetCommitRequest) -> None:
        group = self._groups[request.group_id]
        if isinstance(group, ConsumerGroup):
            self._consumer.check_commit(turn, group, request)
        else:
            self._classic.check_commit(turn, group, request)

    def check_transactional_commit(self, turn: Turn, request: TxnOffsetCommitRequest) -> None:
        """Checks the member of a commit. A commit that names no member is not checked, even if the group has
        members."""
        if request.member_epoch < 0 and not request.member_id and not request.group_instance_id:
            return
        group = self._groups[request.group_id]
        if isinstance(group, ConsumerGroup):
            self._consumer.check_transactional_commit(turn, group, request)
        else:
            self._classic.check_transactional_commit(group, request)

    def check_fetch(self, turn: Turn, request: OffsetFetchGroup) -> None:
        """Anybody may read the offsets of a classic group, as in Kafka."""
        group = self._groups[request.group_id]
        if isinstance(group, ConsumerGroup):
            self._consumer.check_fetch(turn, group, request)

    def check_offset_delete(self, group_id: str) -> None:
        group = self._groups[group_id]
        if isinstance(group, ClassicGroup) and group.members and self._classic.subscribed_topics(group) is None:
            raise NonEmptyGroupError(f"group {group_id} has members, and nobody knows which topics they read")

    def is_subscribed(self, group_id: str, topic: str) -> bool:
        group = self._groups[group_id]
        if isinstance(group, ConsumerGroup):
            return self._consumer.is_subscribed(group, topic)
        return topic in (self._classic.subscribed_topics(group) or ())

    def offset_expiry(self, group_id: str) -> OffsetExpiry | None:
        group = self._groups[group_id]
        if isinstance(group, ConsumerGroup):
            return OffsetExpiry(is_empty=not group.members)
        if group.state is GroupState.EMPTY:
            since_ms = group.state_changed_ms
            return OffsetExpiry(None if since_ms == NO_TIMESTAMP else since_ms, is_empty=True)
        is_known = group.state is GroupState.STABLE and self._classic.subscribed_topics(group) is not None
        return OffsetExpiry() if is_known else None

    def delete_if_empty(self, turn: Turn, group_id: str) -> None:
        if self.is_empty(group_id):
            self.delete(turn, group_id)

    # -- of administrators ---------------------------------------------------------------------------------------------

    def is_empty(self, group_id: str) -> bool:
        """True if the group has no members; of a group that is not known, too."""
        group: Any = self._groups.get(group_id)
        return group is None or bool(self._of(group).is_empty(group))

    def delete(self, turn: Turn, group_id: str) -> None:
        """Tombstones of a group without members, but for its offsets; nothing for a simple group."""
        group: Any = self._groups.get(group_id)
        if group is not None:
            self._of(group).delete(turn, group)

    def listed(self, group_id: str) -> ListedGroup:
        group = self._groups.get(group_id)
        if group is None:
            return ListedGroup(group_id, "", GroupState.EMPTY.value, GroupType.CLASSIC)
        if isinstance(group, ConsumerGroup):
            return ListedGroup(group_id, CONSUMER_PROTOCOL_TYPE, self._consumer.state_word(group), GroupType.CONSUMER)
        return ListedGroup(group_id, group.protocol_type, self._classic.state_word(group), GroupType.CLASSIC)

    def described(self, turn: Turn, group_id: str) -> DescribedGroup:
        group = self._groups.get(group_id)
        if group is None:
            return DescribedGroup(group_id, state=GroupState.EMPTY.value)
        if isinstance(group, ConsumerGroup):
            return self._consumer.described(turn, group)
        return self._classic.described(turn, group)

    def held(self, group_id: str, topics: KnownTopics) -> Iterator[TopicPartition]:
        """The partitions that members have, as far as their topics are there and those of a classic group are known."""
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            for member in group.members.values():
                yield from assigned_partitions(member.assignment)
        elif group is not None:
            for topic_id, partitions in group.owners.items():
                topic = topics.by_id(topic_id)
                if topic is not None:
                    yield from (TopicPartition(topic.name, partition) for partition in partitions)

    def _of(self, group: ClassicGroup | ConsumerGroup) -> Any:
        return self._consumer if isinstance(group, ConsumerGroup) else self._classic

    def __repr__(self) -> str:
        return f"ShardGroups({len(self._groups)})"
