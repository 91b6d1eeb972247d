"""The member that a heartbeat speaks for, and whether it may: epochs, static instances, the group's size.

Looks only, and raises Kafka's error. Pure. Not here: writing anything (heartbeats.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.member import Assignment, Member, is_within
from broker.groups.group_config import GroupConfig
from penstock.errors import (
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupMaxSizeReachedError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)
from penstock.messages.groups.consumer_protocol import JOINS, LEAVES_FOR_A_WHILE, ConsumerGroupHeartbeatRequest


class Found(NamedTuple):
    """The member as the group has it, or as it is to be written. A new one that `replaces` a static member's former
    self changes nothing for the others; any other new one does."""

    member: Member
    is_new: bool = False
    replaces: Member | None = None


def joining(group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest, config: GroupConfig) -> Found:
    """The member of a heartbeat of epoch 0."""
    known = group.members.get(member_id)
    instance_id = request.instance_id
    holder_id = None if instance_id is None else group.instances.get(instance_id)
    if holder_id is None or holder_id == member_id:
        if known is not None:
            return Found(known)
        check_places(group, config)
        return Found(Member(member_id), is_new=True)
    holder = group.members[holder_id]  # one of the classic protocol does not tell that it leaves for a while
    if known is not None or (holder.epoch != LEAVES_FOR_A_WHILE and holder.classic is None):
        raise UnreleasedInstanceIdError(
            f"{instance_id} of group {group.group_id} belongs to member {holder_id}, which has not left:"
            " stop it, or wait until its session is over"
        )
    return Found(replace(holder, member_id=member_id, epoch=JOINS, previous_epoch=-1), True, holder)


def staying(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, held: Assignment | None) -> Found:
    """The member of a heartbeat of a later epoch, which must be the group's, or the one before it (an answer was
    lost)."""
    member = known_member(group, request.member_id, request.instance_id)
    received = request.member_epoch
    if received > member.epoch:
        raise FencedMemberEpochError(
            f"member {member.member_id} comes from the later epoch {received}, and is in {member.epoch} here: give up"
            " all partitions, and join again"
        )
    if received < member.epoch and not (
        received == member.previous_epoch and held is not None and is_within(held, member.assigned, member.revoking)
    ):
        raise FencedMemberEpochError(
            f"member {member.member_id} comes from the past epoch {received}, and is in {member.epoch} here: give up"
            " all partitions, and join again"
        )
    return Found(member)


def known_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    """The member by its id; a static one by its instance's, which must be its own still."""
    if instance_id is not None:
        holder_id = group.instances.get(instance_id)
        if holder_id is None:
            raise UnknownMemberIdError(f"group {group.group_id} has no static member {instance_id}: join again")
        if holder_id != member_id:
            raise FencedInstanceIdError(
                f"another member has taken over {instance_id} of group {group.group_id}:"
                " two consumers may not have the same group.instance.id"
            )
    return member_of(group, member_id)


def member_of(group: ConsumerGroup, member_id: str) -> Member:
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMemberIdError(f"group {group.group_id} has no member {member_id} (any more): join again")
    return member


def check_places(group: ConsumerGroup, config: GroupConfig) -> None:
    """Checks that there is a place for one more member."""
    if len(group.members) >= config.group_consumer_max_size:
        raise GroupMaxSizeReachedError(
            f"group {group.group_id} has {config.group_consumer_max_size} members, its most (group.consumer.max.size)"
        )
