"""The rules of the APIs of consumer groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from broker.authorization.judge import NAME_SHOWN, Judge
from broker.authorization.remedy import COMMAND, LIST_COMMAND
from broker.authorization.rules.ruling import Ruling, group, without_refused
from penstock.errors import ApiError
from penstock.messages.groups import coordinators, listing, offsets
from penstock.messages.groups.consumer_protocol import ConsumerGroupHeartbeatRequest
from penstock.messages.security.acls import Need, Operation, ResourceType

_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP


def find_coordinator_rule(judge: Judge, body: coordinators.FindCoordinatorRequest) -> Ruling:
    is_of_groups = body.key_type is coordinators.CoordinatorType.GROUP
    resource = _GROUP if is_of_groups else ResourceType.TRANSACTIONAL_ID
    errors = [judge.refusal(Operation.DESCRIBE, resource, key) for key in body.keys]

    def refused(key: str, error: ApiError) -> coordinators.FoundCoordinator:
        return coordinators.FoundCoordinator(key, error=error)

    return without_refused(body, "keys", errors, coordinators.FindCoordinatorResponse(), "coordinators", refused)


def consumer_heartbeat_rule(judge: Judge, body: ConsumerGroupHeartbeatRequest) -> Ruling:
    """A member names its topics: one that it may not describe refuses the whole heartbeat, as in Kafka."""
    judge.require(Operation.READ, _GROUP, body.group_id)
    for name in body.subscribed_topic_names or ():
        judge.require(Operation.DESCRIBE, _TOPIC, name)
    return Ruling(body)


def reads_group(body: Any) -> Iterator[Need]:
    yield group(Operation.READ, body.group_id)


def offset_commit_rule(judge: Judge, body: offsets.OffsetCommitRequest) -> Ruling:
    judge.require(Operation.READ, _GROUP, body.group_id)
    errors = [judge.refusal(Operation.READ, _TOPIC, part.partition.topic) for part in body.partitions]
    answer = offsets.OffsetCommitResponse()
    return without_refused(body, "partitions", errors, answer, "partitions", refused_commit)


def refused_commit(part: offsets.OffsetCommitPartition, error: ApiError) -> offsets.OffsetCommitResult:
    return offsets.OffsetCommitResult(part.partition, error)


def offset_delete_rule(judge: Judge, body: offsets.OffsetDeleteRequest) -> Ruling:
    judge.require(Operation.DELETE, _GROUP, body.group_id)
    errors = [judge.refusal(Operation.READ, _TOPIC, partition.topic) for partition in body.partitions]
    answer = offsets.OffsetDeleteResponse()
    return without_refused(body, "partitions", errors, answer, "partitions", offsets.OffsetDeleteResult)


def offset_fetch_rule(judge: Judge, body: offsets.OffsetFetchRequest) -> Ruling:
    """A partition that was named is refused; of all that a group has, those are told that the caller may describe."""
    errors = [judge.refusal(Operation.DESCRIBE, _GROUP, one.group_id) for one in body.groups]
    judged = [one if error is not None else _judged(judge, one) for one, error in zip(body.groups, errors, strict=True)]
    asked = replace(body, groups=tuple(asked for asked in judged))
    ruling = without_refused(asked, "groups", errors, offsets.OffsetFetchResponse(), "groups", _refused_group)
    questions = [one for one, error in zip(body.groups, errors, strict=True) if error is None]

    def amend(response: offsets.OffsetFetchResponse) -> offsets.OffsetFetchResponse:
        groups = tuple(_visible_offsets(judge, *one) for one in zip(questions, response.groups, strict=True))
        response = replace(response, groups=groups)
        return response if ruling.amend is None else ruling.amend(response)

    return ruling._replace(amend=amend)


def _judged(judge: Judge, one: offsets.OffsetFetchGroup) -> offsets.OffsetFetchGroup:
    """The question without the partitions that are refused."""
    kept = tuple(part for part in one.partitions if judge.refusal(Operation.DESCRIBE, _TOPIC, part.topic) is None)
    return one if len(kept) == len(one.partitions) else replace(one, partitions=kept)


def _visible_offsets(
    judge: Judge, asked: offsets.OffsetFetchGroup, found: offsets.GroupOffsets
) -> offsets.GroupOffsets:
    if found.error is not None:
        return found
    if asked.all_partitions:
        seen = tuple(one for one in found.partitions if judge.may(Operation.DESCRIBE, _TOPIC, one.partition.topic))
        return replace(found, partitions=seen)
    known = {one.partition: one for one in found.partitions}
    for part in asked.partitions:
        error = judge.refusal(Operation.DESCRIBE, _TOPIC, part.topic)
        if error is not None:
            known[part] = offsets.OffsetFetchResult(part, error)
    return replace(found, partitions=tuple(known[part] for part in dict.fromkeys(asked.partitions) if part in known))


def _refused_group(one: offsets.OffsetFetchGroup, error: ApiError) -> offsets.GroupOffsets:
    return offsets.GroupOffsets(one.group_id, error)


def list_groups_rule(judge: Judge, body: listing.ListGroupsRequest) -> Ruling:
    """A caller that may describe the cluster sees every group."""
    if judge.may(Operation.DESCRIBE, ResourceType.CLUSTER):
        return Ruling(body)

    def amend(response: listing.ListGroupsResponse) -> listing.ListGroupsResponse:
        return replace(
            response,
            groups=tuple(one for one in response.groups if judge.may(Operation.DESCRIBE, _GROUP, one.group_id)),
        )

    return Ruling(body, amend)


def describe_groups_rule(judge: Judge, body: listing.DescribeGroupsRequest) -> Ruling:
    """The members of a group tell its topics: a caller that may not describe all of those is refused the group, as in
    Kafka. The refusal names no topic, because the caller has named none."""
    errors = [judge.refusal(Operation.DESCRIBE, _GROUP, name) for name in body.group_ids]
    answer = listing.DescribeGroupsResponse()
    ruling = without_refused(body, "group_ids", errors, answer, "groups", listing.DescribedGroup)

    def amend(response: listing.DescribeGroupsResponse) -> listing.DescribeGroupsResponse:
        response = replace(response, groups=tuple(_described(judge, one) for one in response.groups))
        return response if ruling.amend is None else ruling.amend(response)

    return ruling._replace(amend=amend)


def _described(judge: Judge, one: listing.DescribedGroup) -> listing.DescribedGroup:
    for name in sorted(set(_topics_of(judge, one))):
        error = judge.refusal(Operation.DESCRIBE, _TOPIC, name)
        if error is not None:
            is_denied = judge.rights.denies(Operation.DESCRIBE, _TOPIC, name)
            way = f"an ACL denies it: `{LIST_COMMAND}`" if is_denied else f"an administrator can allow it: `{COMMAND}`"
            nameless = type(error)(
                f"{judge.rights.principal} may not Describe every topic of the members of group"
                f" {one.group_id[:NAME_SHOWN]!r}; {way}"
            )
            return listing.DescribedGroup(one.group_id, nameless, one.group_type)
    return one


def _topics_of(judge: Judge, one: listing.DescribedGroup) -> Iterator[str]:
    for member in one.members:
        yield from member.subscribed_topic_names
        for part in (*member.assignment, *member.target_assignment):
            name = part.topic or judge.image.topic_name(part.topic_id)
            if name is not None:
                yield name
