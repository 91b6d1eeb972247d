"""Lists groups, and describes them with their members.

Every broker lists the groups that it coordinates (`ask_every_broker`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from penstock.client.admin.cluster_views import ask_every_broker
from penstock.client.admin.groups.group_types import GroupDescription, GroupListing, MemberDescription
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.coordinators import Coordinators
from penstock.client.wire.connection import Connection
from penstock.errors import ApiError
from penstock.messages.groups.consumer_protocol import TopicIdPartitions
from penstock.messages.groups.group_apis import DESCRIBE_GROUPS, LIST_GROUPS
from penstock.messages.groups.listing import (
    DescribedGroup,
    DescribeGroupsRequest,
    GroupMember,
    ListGroupsRequest,
)
from penstock.types import TopicPartition
from penstock.wire.consumer_protocol import MalformedConsumerProtocolError, assigned_partitions, decode_subscription


async def list_groups(
    cluster: ClusterClient, states: Collection[str], types: Collection[str], deadline_ms: int
) -> list[GroupListing]:
    """Sorted by id. The error of a broker that does not tell its groups until the deadline."""
    request = ListGroupsRequest(tuple(states), tuple(types))
    found = {
        group.group_id: GroupListing(group.group_id, group.state, group.group_type, group.protocol_type, node_id)
        for node_id, answer in await ask_every_broker(cluster, LIST_GROUPS, request, deadline_ms)
        for group in answer.groups
    }
    return [found[group_id] for group_id in sorted(found)]


async def describe_groups(
    coordinators: Coordinators, group_ids: Sequence[str], deadline_ms: int
) -> dict[str, GroupDescription]:
    """Each as its coordinator describes it, in the order of the ids."""

    async def ask(
        connection: Connection, named: Sequence[str], left_ms: int
    ) -> Mapping[str, DescribedGroup | ApiError]:
        answer = await connection.call(DESCRIBE_GROUPS, DescribeGroupsRequest(tuple(named)), left_ms)
        return {group.group_id: group.error or group for group in answer.groups}

    answers = await coordinators.ask_each(group_ids, ask, deadline_ms)
    found: dict[str, GroupDescription] = {}
    for group_id, answer in answers.items():
        if isinstance(answer, ApiError):
            found[group_id] = GroupDescription(group_id, answer)
        else:
            found[group_id] = _description(answer, await coordinators.node_of(group_id, deadline_ms))
    return found


def _description(group: DescribedGroup, coordinator_id: int) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        error=None,
        state=group.state,
        group_type=group.group_type,
        protocol_type=group.protocol_type,
        assignor=group.protocol_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        coordinator_id=coordinator_id,
        members=tuple(_member(member) for member in group.members),
    )


def _member(member: GroupMember) -> MemberDescription:
    assignment, target = _partitions(member.assignment), _partitions(member.target_assignment)
    if member.assignment_bytes and not assignment:  # the coordinator of a classic group need not understand them
        assignment = target = assigned_partitions(member.assignment_bytes)
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        subscribed_topic_names=member.subscribed_topic_names or _subscribed(member.metadata),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=assignment,
        target_assignment=target,
        member_type=member.member_type,
        silent_ms=member.silent_ms,
    )


def _subscribed(metadata: bytes) -> tuple[str, ...]:
    """The topics of a classic member; none where its bytes are something else."""
    try:
        return tuple(decode_subscription(metadata).topics)
    except MalformedConsumerProtocolError:
        return ()


def _partitions(topics: Sequence[TopicIdPartitions]) -> tuple[TopicPartition, ...]:
    """The partitions by name; a topic that was deleted has only its id left."""
    return tuple(
        TopicPartition(topic.topic or topic.topic_id, number)
        for topic in sorted(topics, key=lambda one: one.topic)
        for number in sorted(topic.partitions)
    )
