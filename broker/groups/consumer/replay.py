"""The records of consumer groups, taken into their state: while deciding and while loading alike.

A log that was compacted has the last record of each key only, and those in the order in which they were written: so no
record here relies on another one that came before it. A member exists from its metadata to the tombstone of that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from broker.groups.consumer import record_forms
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.member import Member
from broker.groups.kind import GroupsOfKind
from broker.groups.records.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)


class ConsumerReplay:
    """Takes records into groups. One of another kind gives way to a record with its id, and not to a tombstone."""

    def __init__(self, groups: GroupsOfKind[ConsumerGroup]) -> None:
        self._groups = groups
        self.epochs = 0
        """Epochs of groups that records began."""
        self.replays: Mapping[type[Any], Callable[[Any, Any], None]] = {
            ConsumerGroupMetadataKey: self._metadata,
            ConsumerGroupPartitionMetadataKey: self._partition_metadata,
            ConsumerGroupMemberMetadataKey: self._member,
            ConsumerGroupTargetAssignmentMetadataKey: self._target_metadata,
            ConsumerGroupTargetAssignmentMemberKey: self._target,
            ConsumerGroupCurrentMemberAssignmentKey: self._current,
            ConsumerGroupRegularExpressionKey: self._regex,
        }

    def _metadata(self, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None) -> None:
        if value is None:
            if (gone := self._groups.get(key.group_id)) is not None:
                self._groups.remove(gone)
            return
        self.epochs += 1
        group = self._made(key.group_id)
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash

    def _partition_metadata(self, key: ConsumerGroupPartitionMetadataKey, value: Any | None) -> None:
        """A record of Kafka before 4.1: the hash has taken its place."""

    def _member(self, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None) -> None:
        if value is None:
            group = self._groups.get(key.group_id)
            if group is not None:
                group.remove_member(key.member_id)
            return
        group = self._made(key.group_id)
        member = group.members.get(key.member_id) or Member(key.member_id)
        group.set_member(record_forms.with_metadata(member, value))

    def _target_metadata(
        self,
        key: ConsumerGroupTargetAssignmentMetadataKey,
        value: ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        group = self._groups.get(key.group_id) if value is None else self._made(key.group_id)
        if group is not None:
            group.assignment_epoch = 0 if value is None else value.assignment_epoch
            group.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def _target(
        self,
        key: ConsumerGroupTargetAssignmentMemberKey,
        value: ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is not None:
            self._made(key.group_id).targets[key.member_id] = record_forms.read_target(value)
        elif (group := self._groups.get(key.group_id)) is not None:
            group.targets.pop(key.member_id, None)

    def _current(
        self,
        key: ConsumerGroupCurrentMemberAssignmentKey,
        value: ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        group = self._groups.get(key.group_id) if value is None else self._made(key.group_id)
        if group is None:
            return
        member = group.members.get(key.member_id)
        if value is not None:
            group.set_member(record_forms.with_current(member or Member(key.member_id), value))
        elif member is not None:
            group.set_member(replace(member, assigned={}, revoking={}))

    def _regex(self, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None) -> None:
        if value is not None:
            self._made(key.group_id).regexes[key.regular_expression] = record_forms.regex_of(value)
        elif (group := self._groups.get(key.group_id)) is not None:
            group.regexes.pop(key.regular_expression, None)

    def _made(self, group_id: str) -> ConsumerGroup:
        group = self._groups.get(group_id)
        if group is None:
            group = ConsumerGroup(group_id)
            self._groups.put(group)
        return group
