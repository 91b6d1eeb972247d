"""A consumer group as DescribeGroups shows it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from broker.coordination.turn import KnownTopics
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.member import Assignment, Member, Owned
from penstock.messages.groups.consumer_protocol import TopicIdPartitions
from penstock.messages.groups.listing import DescribedGroup, GroupMember, GroupType

CONSUMER_PROTOCOL = "consumer"


def described_group(
    group: ConsumerGroup, topics: KnownTopics, assignor: str, silent_ms: Callable[[Member], int]
) -> DescribedGroup:
    """`silent_ms`: the time since a member was last heard."""
    return DescribedGroup(
        group_id=group.group_id,
        group_type=GroupType.CONSUMER,
        state=group.state,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=assignor,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        members=tuple(
            replace(_described_member(group, member, topics), silent_ms=silent_ms(member))
            for member in group.members.values()
        ),
    )


def _described_member(group: ConsumerGroup, member: Member, topics: KnownTopics) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        subscribed_topic_names=tuple(sorted(member.names)),
        subscribed_topic_regex=member.regex,
        assignment=_named(member.assigned, topics),
        target_assignment=_named(group.target_of(member.member_id), topics),
        member_type=GroupType.CONSUMER if member.classic is None else GroupType.CLASSIC,
    )


def _named(partitions: Owned | Assignment, topics: KnownTopics) -> tuple[TopicIdPartitions, ...]:
    """The partitions with the names of their topics; a topic that was deleted has none, and is left out."""
    found: list[TopicIdPartitions] = []
    for topic_id, numbers in partitions.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            found.append(TopicIdPartitions(topic_id, tuple(sorted(numbers)), topic.name))
    return tuple(sorted(found, key=lambda one: one.topic))
