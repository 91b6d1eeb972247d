"""Checks heartbeats, commits and fetches of members, with Kafka's errors. Changes nothing. Pure.

A heartbeat is refused here if no state could make it right. A member may commit in an epoch that it has left behind,
for a partition that it had in that epoch already and owns still: it only has not heard of the new epoch yet (KIP-1251).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.coordination.turn import KnownTopics
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.member import Member
from broker.groups.consumer.membership import member_of
from broker.groups.group_config import GroupConfig
from penstock.errors import (
    ApiError,
    IllegalGenerationError,
    InvalidRequestError,
    StaleMemberEpochError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from penstock.messages.groups.consumer_protocol import JOINS, LEAVES, LEAVES_FOR_A_WHILE, ConsumerGroupHeartbeatRequest
from penstock.messages.groups.offsets import OffsetCommitPartition, OffsetCommitRequest, OffsetFetchGroup
from penstock.messages.transactions.producers import TxnOffsetCommitRequest

ID_CHARACTERS_MAX: Final = 255
"""The most characters of a member's id, its instance's id and its rack: they stand in every record of the member."""
SUBSCRIBED_NAMES_MAX: Final = 10_000
"""The most names that a member subscribes to. A member that needs more subscribes by a pattern."""


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, config: GroupConfig) -> None:
    if not request.group_id:
        raise InvalidRequestError("the heartbeat names no group: give the group an id")
    for name, text in (("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if text == "":
            raise InvalidRequestError(f"{name} is empty: leave it out, or give it a value")
    for name, text in (
        ("MemberId", request.member_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if text is not None and len(text) > ID_CHARACTERS_MAX:
            raise InvalidRequestError(f"{name} has {len(text)} characters; {ID_CHARACTERS_MAX} at most")
    joins = request.member_epoch == JOINS
    if not request.member_id and not (joins and request.may_make_member_id):
        raise InvalidRequestError("the heartbeat has no member id: a member makes one for itself when it starts")
    if request.member_epoch < LEAVES_FOR_A_WHILE:
        raise InvalidRequestError(
            f"there is no member epoch {request.member_epoch}: 0 joins, -1 leaves, -2 leaves for a while"
        )
    if request.member_epoch == LEAVES_FOR_A_WHILE and request.instance_id is None:
        raise InvalidRequestError("only a member with a group.instance.id leaves for a while: leave with epoch -1")
    if joins:
        _check_join(request)
    if request.member_epoch in (LEAVES, LEAVES_FOR_A_WHILE):
        return
    names = request.subscribed_topic_names
    if names is not None and len(names) > SUBSCRIBED_NAMES_MAX:
        raise InvalidRequestError(
            f"the member subscribes to {len(names)} names, and {SUBSCRIBED_NAMES_MAX} is the most: use a pattern"
        )
    if request.rebalance_timeout_ms < -1:
        raise InvalidRequestError(f"the rebalance time-out is {request.rebalance_timeout_ms} ms: it cannot be negative")
    assignor = request.server_assignor
    if assignor is not None and assignor not in config.group_consumer_assignors:
        supported = ", ".join(config.group_consumer_assignors)
        raise UnsupportedAssignorError(f"there is no assignor {assignor!r} here: choose one of {supported}")


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise InvalidRequestError("a member that joins says its rebalance time-out")
    if request.owned_partitions is None or request.owned_partitions:
        raise InvalidRequestError("a member that joins owns nothing: send an empty list of owned partitions")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise InvalidRequestError(
            "a member that joins says what it subscribes to: names, which may be none, or a pattern"
        )


def check_commit(group: ConsumerGroup, request: OffsetCommitRequest, topics: KnownTopics) -> None:
    if request.member_epoch < 0 and not group.members:
        return  # an administrator's, or of a consumer that assigns its partitions itself
    member = member_of(group, request.member_id)
    if member.classic is None and not request.knows_stale_epoch:
        raise UnsupportedVersionError(
            "a member that joined by KIP-848 commits with version 9 of OffsetCommit or later: update the client"
        )
    _check_epoch(member, request.member_epoch, request.partitions, topics, _other_epoch(member, request.member_epoch))


def check_transactional_commit(group: ConsumerGroup, request: TxnOffsetCommitRequest, topics: KnownTopics) -> None:
    """Checks the commit of a member that is named by a transaction's producer, whose clients know one error for it."""
    if request.member_epoch < 0 and not group.members:
        return
    member = member_of(group, request.member_id)
    other = IllegalGenerationError(
        f"member {member.member_id} is in epoch {member.epoch}, and not in {request.member_epoch}: abort the"
        " transaction, and commit in the member's present epoch"
    )
    _check_epoch(member, request.member_epoch, request.partitions, topics, other)


def _check_epoch(
    member: Member, epoch: int, partitions: Iterable[OffsetCommitPartition], topics: KnownTopics, other: ApiError
) -> None:
    """Raises `other` unless `epoch` is the member's, or an earlier one in which it had all of these partitions
    already."""
    if epoch == member.epoch:
        return
    if member.classic is not None or not 0 <= epoch < member.epoch:
        raise other
    for partition in partitions:
        given = member.epoch_of(_topic_id(partition, topics), partition.partition.partition)
        if given is None or given > epoch:
            raise other


def check_fetch(group: ConsumerGroup, request: OffsetFetchGroup) -> None:
    if request.member_epoch < 0 and not request.member_id:
        return
    member = member_of(group, request.member_id)
    if request.member_epoch != member.epoch:
        raise _other_epoch(member, request.member_epoch)


def _other_epoch(member: Member, received: int) -> IllegalGenerationError | StaleMemberEpochError:
    if member.classic is not None:
        return IllegalGenerationError(
            f"member {member.member_id} is in generation {member.epoch}, and not in {received}: join again"
        )
    return StaleMemberEpochError(
        f"member {member.member_id} is in epoch {member.epoch}, and not in {received}: its next heartbeat tells it"
    )


def _topic_id(partition: OffsetCommitPartition, topics: KnownTopics) -> str:
    if partition.topic_id:
        return partition.topic_id
    topic = topics.by_name(partition.partition.topic)
    return "" if topic is None else topic.topic_id
