"""The groups of a shard, whichever kind they are: what others ask about one of them (`GroupKind` answers it).

A group id that has offsets and no group is a simple group: no member ever joined it. It is listed as an empty classic
group without a protocol type, as Kafka does. Not here: requests (shard.py), offsets (offsets/).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from broker.coordination.turn import Client, KnownTopics, Turn
from broker.groups.classic.states import GroupState
from broker.groups.kind import Group, GroupKind, Groups, Kinds
from broker.groups.lag.lag_pass import GroupFacts
from broker.groups.offsets.offset_groups import OffsetExpiry
from broker.groups.shard.removals import removes_another
from penstock.messages.groups.listing import DescribedGroup, GroupType, ListedGroup
from penstock.messages.groups.offsets import OffsetCommitRequest, OffsetFetchGroup
from penstock.messages.transactions.producers import TxnOffsetCommitRequest
from penstock.types import TopicPartition


class ShardGroups:
    """`groups` are those of every kind, by id. Has what the offsets ask (`OffsetGroups`)."""

    def __init__(self, groups: Groups, kinds: Kinds) -> None:
        self._groups, self._kinds = groups, kinds

    # -- of offsets ----------------------------------------------------------------------------------------------------

    def knows(self, group_id: str) -> bool:
        return group_id in self._groups

    def group_ids(self) -> Collection[str]:
        return self._groups.keys()

    def check_commit(self, turn: Turn, request: OffsetCommitRequest) -> None:
        group = self._groups[request.group_id]
        self._of(group).check_commit(turn, group, request)

    def check_transactional_commit(self, turn: Turn, request: TxnOffsetCommitRequest) -> None:
        """Checks the member of a commit. A commit that names no member is not checked, even if the group has
        members."""
        if request.member_epoch < 0 and not request.member_id and not request.group_instance_id:
            return
        group = self._groups[request.group_id]
        self._of(group).check_transactional_commit(turn, group, request)

    def check_fetch(self, turn: Turn, request: OffsetFetchGroup) -> None:
        group = self._groups[request.group_id]
        self._of(group).check_fetch(group, request)

    def check_offset_delete(self, group_id: str) -> None:
        group = self._groups[group_id]
        self._of(group).check_offset_delete(group)

    def is_subscribed(self, group_id: str, topic: str) -> bool:
        group = self._groups[group_id]
        return self._of(group).is_subscribed(group, topic)

    def offset_expiry(self, group_id: str) -> OffsetExpiry | None:
        group = self._groups[group_id]
        return self._of(group).offset_expiry(group)

    def delete_if_empty(self, turn: Turn, group_id: str) -> None:
        if self.is_empty(group_id):
            self.delete(turn, group_id)

    # -- of administrators, metrics and the audit ----------------------------------------------------------------------

    def is_empty(self, group_id: str) -> bool:
        """True if the group has no members; of a group that is not known, too."""
        group = self._groups.get(group_id)
        return group is None or self._of(group).is_empty(group)

    def delete(self, turn: Turn, group_id: str) -> None:
        """Tombstones of a group without members, but for its offsets; nothing for a simple group."""
        group = self._groups.get(group_id)
        if group is not None:
            self._of(group).delete(turn, group)

    def listed(self, group_id: str) -> ListedGroup:
        group = self._groups.get(group_id)
        if group is None:
            return ListedGroup(group_id, "", GroupState.EMPTY.value, GroupType.CLASSIC)
        return self._of(group).listed(group)

    def described(self, turn: Turn, group_id: str) -> DescribedGroup:
        group = self._groups.get(group_id)
        if group is None:
            return DescribedGroup(group_id, state=GroupState.EMPTY.value)
        return self._of(group).described(turn, group)

    def facts(self, group_id: str) -> GroupFacts:
        """The group as metrics show it."""
        group = self._groups.get(group_id)
        if group is None:
            return GroupFacts(GroupType.CLASSIC.value, GroupState.EMPTY.value, 0, 0)
        return self._of(group).facts(group)

    def held(self, group_id: str, topics: KnownTopics) -> Iterator[TopicPartition]:
        """The partitions that members have, as far as their topics are there and those of a classic group are known."""
        group = self._groups.get(group_id)
        if group is not None:
            yield from self._of(group).held(group, topics)

    def removes_another(self, request: Any, sender: Client) -> bool:
        """True if the request, should it succeed, removes a member of somebody else."""
        group = self._groups.get(request.group_id)
        if group is None:
            return False
        holder = self._of(group).holder
        return removes_another(lambda member_id, instance_id: holder(group, member_id, instance_id), request, sender)

    def _of(self, group: Group) -> GroupKind[Any]:
        return self._kinds[type(group)]

    def __repr__(self) -> str:
        return f"ShardGroups({len(self._groups)})"
