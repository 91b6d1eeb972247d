"""The changes of a consumer group, each as the records that Kafka writes for it, in its order.

The caller writes one only if it changes something; `write_targets` looks by itself. Not here: deciding that it is due.
"""

from __future__ import annotations

from broker.coordination.turn import Turn
from broker.groups.consumer import record_forms
from broker.groups.consumer.group import ConsumerGroup, ResolvedRegex
from broker.groups.consumer.member import Assignment, Member
from broker.groups.records.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)


def write_metadata(turn: Turn, group_id: str, member: Member) -> None:
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    turn.write(key, record_forms.metadata_value(member))


def write_current(turn: Turn, group_id: str, member: Member) -> None:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    turn.write(key, record_forms.current_value(member))


def write_epoch(turn: Turn, group_id: str, epoch: int, metadata_hash: int) -> None:
    turn.write(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def write_regex(turn: Turn, group_id: str, regex: str, resolved: ResolvedRegex) -> None:
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    turn.write(key, record_forms.regex_value(resolved))


def drop_regex(turn: Turn, group_id: str, regex: str) -> None:
    turn.write(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def write_targets(turn: Turn, group: ConsumerGroup, targets: dict[str, Assignment], epoch: int) -> None:
    """The new targets of the group's members, of those alone whose target changes, and the epoch that they are of."""
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            write_target(turn, group.group_id, member_id, target)
    turn.write(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=turn.wall_ms),
    )


def write_target(turn: Turn, group_id: str, member_id: str, target: Assignment) -> None:
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    turn.write(key, record_forms.target_value(target))


def drop_member(turn: Turn, group_id: str, member_id: str) -> None:
    turn.write(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)
    turn.write(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)
    turn.write(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def replace_member(turn: Turn, group: ConsumerGroup, before: Member, now: Member) -> None:
    """A static member under its new id, with the target of the old one."""
    target = group.target_of(before.member_id)
    drop_member(turn, group.group_id, before.member_id)
    write_metadata(turn, group.group_id, now)
    write_target(turn, group.group_id, now.member_id, target)
    write_current(turn, group.group_id, now)


def drop_group(turn: Turn, group: ConsumerGroup) -> None:
    """Everything of the group but its committed offsets."""
    for member_id in list(group.members):
        drop_member(turn, group.group_id, member_id)
    for member_id in list(group.targets):
        turn.write(ConsumerGroupTargetAssignmentMemberKey(group_id=group.group_id, member_id=member_id), None)
    for regex in list(group.regexes):
        drop_regex(turn, group.group_id, regex)
    turn.write(ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id), None)
    turn.write(ConsumerGroupPartitionMetadataKey(group_id=group.group_id), None)
    turn.write(ConsumerGroupMetadataKey(group_id=group.group_id), None)
