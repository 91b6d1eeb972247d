"""Checks whether a member may commit or fetch offsets in its epoch. Changes nothing, and raises Kafka's error. Pure.

A member may commit in an epoch that it has left behind, for a partition that it had in that epoch already and owns
still: it only has not heard of the new epoch yet (KIP-1251).
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.coordination.turn import KnownTopics
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.member import Member
from broker.groups.consumer.membership import member_of
from penstock.errors import ApiError, IllegalGenerationError, StaleMemberEpochError, UnsupportedVersionError
from penstock.messages.groups.offsets import OffsetCommitPartition, OffsetCommitRequest, OffsetFetchGroup
from penstock.messages.transactions.producers import TxnOffsetCommitRequest


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
