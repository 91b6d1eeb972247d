"""ListGroups 0 to 5, DeleteGroups 0 to 2, DescribeGroups 0 to 6 and ConsumerGroupDescribe 0 and 1 (keys 16, 42, 15
and 69): the groups as administrators see them.

The two descriptions are one API here. Each has groups of its own protocol, and GROUP_ID_NOT_FOUND for the others; below
version 6 of DescribeGroups such a group is Dead, without an error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final

from broker.kafka.api_row import alone, over, serves
from broker.kafka.apis.authorized_operations import NOT_ASKED, group_operations
from broker.kafka.errors import code_of, message_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, Ask, Asked, Plan, is_pause_due
from broker.kafka.schemas.groups import classic, consumer
from penstock.errors import ApiError, GroupIdNotFoundError
from penstock.messages.api import Api
from penstock.messages.client_apis import NAMES_MAX
from penstock.messages.groups import listing as messages
from penstock.messages.groups.consumer_protocol import TopicIdPartitions
from penstock.messages.groups.group_apis import DELETE_GROUPS, DESCRIBE_GROUPS, DESCRIBED_MAX, LIST_GROUPS
from penstock.messages.groups.listing import GroupType

DEAD: Final = "Dead"
FIRST_WITH_NOT_FOUND: Final = 6
MEMBER_TYPES: Final = {GroupType.CLASSIC: 0, GroupType.CONSUMER: 1}


def list_groups(asked: Asked, body: classic.ListGroupsRequest) -> Plan:
    request = messages.ListGroupsRequest(tuple(body.states_filter), tuple(body.types_filter))
    listed: messages.ListGroupsResponse = yield Ask(LIST_GROUPS.name, request)
    response = classic.ListGroupsResponse()
    for number, one in enumerate(listed.groups):
        if is_pause_due(number):
            yield PAUSE
        response.groups.append(
            classic.ListedGroup(
                group_id=one.group_id,
                protocol_type=one.protocol_type,
                group_state=one.state,
                group_type=one.group_type.value,
            )
        )
    return response


def delete_groups(asked: Asked, body: classic.DeleteGroupsRequest) -> Plan:
    names = list(dict.fromkeys(body.groups_names))
    found = yield from _in_portions(DELETE_GROUPS, messages.DeleteGroupsRequest, names, NAMES_MAX)
    return classic.DeleteGroupsResponse(
        results=[_deleted(one.group_id, code_of(one.error, DELETE_GROUPS.name, asked.version)) for one in found]
    )


def delete_groups_failed(
    asked: Asked, body: classic.DeleteGroupsRequest, error: ApiError
) -> classic.DeleteGroupsResponse:
    """The answer to a request that failed as a whole: the error for each group."""
    code = code_of(error, DELETE_GROUPS.name, asked.version)
    return classic.DeleteGroupsResponse(results=[_deleted(name, code) for name in dict.fromkeys(body.groups_names)])


def _deleted(group_id: str, code: int) -> classic.DeletableGroupResult:
    return classic.DeletableGroupResult(group_id=group_id, error_code=code)


def _in_portions(
    api: Api[Any, Any], make: Callable[[tuple[str, ...]], Any], names: Sequence[str], portion: int
) -> Generator[Ask, Any, list[Any]]:
    """All results, of several of the node's own requests if they are many."""
    found: list[Any] = []
    for at in range(0, len(names), portion):
        response = yield Ask(api.name, make(tuple(names[at : at + portion])))
        found += response.groups
    return found


# -- the classic protocol ----------------------------------------------------------------------------------------------


def describe_groups(parts: PlanParts, asked: Asked, body: classic.DescribeGroupsRequest) -> Plan:
    names = list(dict.fromkeys(body.groups))
    found = yield from _in_portions(DESCRIBE_GROUPS, messages.DescribeGroupsRequest, names, DESCRIBED_MAX)
    wants_operations = body.include_authorized_operations
    return classic.DescribeGroupsResponse(
        groups=[
            _classic(asked, one, group_operations(parts, asked, one.group_id) if wants_operations else NOT_ASKED)
            for one in found
        ]
    )


def describe_groups_failed(
    asked: Asked, body: classic.DescribeGroupsRequest, error: ApiError
) -> classic.DescribeGroupsResponse:
    """The answer to a request that failed as a whole: the error for each group."""
    return classic.DescribeGroupsResponse(
        groups=[_not_described(asked, name, error) for name in dict.fromkeys(body.groups)]
    )


def _classic(
    asked: Asked, group: messages.DescribedGroup, operations: int
) -> classic.DescribeGroupsResponseDescribedGroup:
    error = group.error
    if error is None and group.group_type is not GroupType.CLASSIC:
        error = GroupIdNotFoundError(f"{group.group_id} speaks the consumer protocol: ConsumerGroupDescribe has it")
    if error is not None:
        return _not_described(asked, group.group_id, error)
    return classic.DescribeGroupsResponseDescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=[
            classic.DescribedGroupMember(
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                member_metadata=one.metadata,
                member_assignment=one.assignment_bytes,
            )
            for one in group.members
        ],
        authorized_operations=operations,
    )


def _not_described(asked: Asked, group_id: str, error: ApiError) -> classic.DescribeGroupsResponseDescribedGroup:
    group = classic.DescribeGroupsResponseDescribedGroup(group_id=group_id)
    if isinstance(error, GroupIdNotFoundError):
        group.group_state = DEAD
        if asked.version < FIRST_WITH_NOT_FOUND:
            return group
    group.error_code = code_of(error, DESCRIBE_GROUPS.name, asked.version)
    if asked.version >= FIRST_WITH_NOT_FOUND:
        group.error_message = message_of(error)
    return group


# -- the consumer protocol ---------------------------------------------------------------------------------------------


def consumer_group_describe(parts: PlanParts, asked: Asked, body: consumer.ConsumerGroupDescribeRequest) -> Plan:
    names = list(dict.fromkeys(body.group_ids))
    found = yield from _in_portions(DESCRIBE_GROUPS, messages.DescribeGroupsRequest, names, DESCRIBED_MAX)
    wants_operations = body.include_authorized_operations
    return consumer.ConsumerGroupDescribeResponse(
        groups=[
            _consumer(asked, one, group_operations(parts, asked, one.group_id) if wants_operations else NOT_ASKED)
            for one in found
        ]
    )


def consumer_group_describe_failed(
    asked: Asked, body: consumer.ConsumerGroupDescribeRequest, error: ApiError
) -> consumer.ConsumerGroupDescribeResponse:
    """The answer to a request that failed as a whole: the error for each group."""
    return consumer.ConsumerGroupDescribeResponse(
        groups=[_no_consumer_group(asked, name, error) for name in dict.fromkeys(body.group_ids)]
    )


def _no_consumer_group(
    asked: Asked, group_id: str, error: ApiError
) -> consumer.ConsumerGroupDescribeResponseDescribedGroup:
    return consumer.ConsumerGroupDescribeResponseDescribedGroup(
        group_id=group_id,
        error_code=code_of(error, DESCRIBE_GROUPS.name, asked.version),
        error_message=message_of(error),
    )


def _consumer(
    asked: Asked, group: messages.DescribedGroup, operations: int
) -> consumer.ConsumerGroupDescribeResponseDescribedGroup:
    error = group.error
    if error is None and group.group_type is not GroupType.CONSUMER:
        error = GroupIdNotFoundError(f"{group.group_id} speaks the classic protocol: DescribeGroups has it")
    if error is not None:
        return _no_consumer_group(asked, group.group_id, error)
    return consumer.ConsumerGroupDescribeResponseDescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.protocol_name,
        members=[_member(one) for one in group.members],
        authorized_operations=operations,
    )


def _member(one: messages.GroupMember) -> consumer.ConsumerGroupDescribeResponseMember:
    """Kafka tells a member without a pattern with an empty one."""
    return consumer.ConsumerGroupDescribeResponseMember(
        member_id=one.member_id,
        instance_id=one.group_instance_id,
        rack_id=one.rack_id,
        member_epoch=one.member_epoch,
        client_id=one.client_id,
        client_host=one.client_host,
        subscribed_topic_names=list(one.subscribed_topic_names),
        subscribed_topic_regex=one.subscribed_topic_regex or "",
        assignment=_assignment(one.assignment),
        target_assignment=_assignment(one.target_assignment),
        member_type=MEMBER_TYPES[one.member_type],
    )


def _assignment(topics: Iterable[TopicIdPartitions]) -> consumer.ConsumerGroupDescribeResponseAssignment:
    return consumer.ConsumerGroupDescribeResponseAssignment(
        topic_partitions=[
            consumer.ConsumerGroupDescribeResponseTopicPartitions(
                topic_id=one.topic_id, topic_name=one.topic, partitions=list(one.partitions)
            )
            for one in topics
        ]
    )


SERVED: Final = (
    serves(
        classic.DescribeGroupsRequest,
        classic.DescribeGroupsResponse,
        (0, 6),
        over(describe_groups),
        failed=describe_groups_failed,
    ),
    serves(classic.ListGroupsRequest, classic.ListGroupsResponse, (0, 5), alone(list_groups)),
    serves(
        classic.DeleteGroupsRequest,
        classic.DeleteGroupsResponse,
        (0, 2),
        alone(delete_groups),
        failed=delete_groups_failed,
    ),
    serves(
        consumer.ConsumerGroupDescribeRequest,
        consumer.ConsumerGroupDescribeResponse,
        (0, 1),
        over(consumer_group_describe),
        failed=consumer_group_describe_failed,
    ),
)
