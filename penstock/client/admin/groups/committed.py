"""The committed offsets of a group: reads, sets and deletes them, and deletes whole groups.

An administrator commits as nobody: without a member id, which a coordinator takes only for a group without members. A
refusal because of members names them. Not here: which offsets (reset.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.client.admin.groups.describing import describe_groups
from penstock.client.admin.groups.group_types import named_members
from penstock.client.cluster.coordinators import Coordinators
from penstock.client.cluster.error_meaning import outcome_unknown
from penstock.client.wire.connection import Connection
from penstock.errors import ApiError, GroupIdNotFoundError, NonEmptyGroupError, UnknownMemberIdError, UnknownServerError
from penstock.messages.groups.group_apis import DELETE_GROUPS, OFFSET_COMMIT, OFFSET_DELETE, OFFSET_FETCH
from penstock.messages.groups.listing import DeleteGroupsRequest
from penstock.messages.groups.offsets import (
    GroupOffsets,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
)
from penstock.types import CommittedOffset, TopicPartition

PARTITIONS_PER_CALL_MAX = 1_000
"""Limit for one request; a commit of more is written in several steps."""


async def committed_offsets(
    coordinators: Coordinators, group_ids: Sequence[str], deadline_ms: int
) -> dict[str, dict[TopicPartition, CommittedOffset] | ApiError]:
    """Everything that each group has committed."""

    async def ask(connection: Connection, named: Sequence[str], left_ms: int) -> Mapping[str, GroupOffsets | ApiError]:
        groups = tuple(OffsetFetchGroup(group_id, all_partitions=True) for group_id in named)
        answer = await connection.call(OFFSET_FETCH, OffsetFetchRequest(groups), left_ms)
        return {group.group_id: group.error or group for group in answer.groups}

    answers = await coordinators.ask_each(group_ids, ask, deadline_ms)
    return {
        group_id: answer if isinstance(answer, ApiError) else _offsets(answer) for group_id, answer in answers.items()
    }


async def offsets_of(
    coordinators: Coordinators, group_id: str, deadline_ms: int
) -> dict[TopicPartition, CommittedOffset]:
    """Everything that one group has committed; its coordinator's error."""
    found = (await committed_offsets(coordinators, (group_id,), deadline_ms))[group_id]
    if isinstance(found, ApiError):
        raise found
    return found


def _offsets(group: GroupOffsets) -> dict[TopicPartition, CommittedOffset]:
    return {
        one.partition: CommittedOffset(one.offset, one.leader_epoch, one.metadata, one.commit_timestamp_ms)
        for one in sorted(group.partitions, key=lambda one: one.partition)
        if one.error is None and one.offset >= 0
    }


async def commit_offsets(
    coordinators: Coordinators, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset], deadline_ms: int
) -> dict[TopicPartition, ApiError | None]:
    """The error of each partition. NonEmptyGroupError names the members that read the partitions now."""
    wanted = [
        OffsetCommitPartition(tp, committed.offset, committed.leader_epoch, committed.metadata)
        for tp, committed in offsets.items()
    ]
    answers: dict[TopicPartition, ApiError | None] = {}
    for at in range(0, len(wanted), PARTITIONS_PER_CALL_MAX):
        request = OffsetCommitRequest(group_id, tuple(wanted[at : at + PARTITIONS_PER_CALL_MAX]))
        try:
            answer = await coordinators.ask(OFFSET_COMMIT, request, deadline_ms)
            answers |= {result.partition: result.error for result in answer.partitions}
        except UnknownMemberIdError as error:
            raise await _not_empty(coordinators, group_id, deadline_ms) from error
        if any(isinstance(error, UnknownMemberIdError) for error in answers.values()):
            raise await _not_empty(coordinators, group_id, deadline_ms)
    return _of_each(offsets, answers)


async def delete_offsets(
    coordinators: Coordinators, group_id: str, partitions: Sequence[TopicPartition], deadline_ms: int
) -> dict[TopicPartition, ApiError | None]:
    """The error of each partition: GroupSubscribedToTopicError where a member reads its topic."""
    answers: dict[TopicPartition, ApiError | None] = {}
    for at in range(0, len(partitions), PARTITIONS_PER_CALL_MAX):
        request = OffsetDeleteRequest(group_id, tuple(partitions[at : at + PARTITIONS_PER_CALL_MAX]))
        answer = await coordinators.ask(OFFSET_DELETE, request, deadline_ms)
        answers |= {result.partition: result.error for result in answer.partitions}
    return _of_each(partitions, answers)


async def delete_groups(
    coordinators: Coordinators, group_ids: Sequence[str], deadline_ms: int
) -> dict[str, ApiError | None]:
    """The error of each group; NonEmptyGroupError names its members. A group that is gone when it is asked again after
    a lost answer was deleted."""
    maybe_deleted: set[str] = set()

    async def ask(connection: Connection, named: Sequence[str], left_ms: int) -> Mapping[str, bool | ApiError]:
        try:
            answer = await connection.call(DELETE_GROUPS, DeleteGroupsRequest(tuple(named)), left_ms)
        except ApiError as error:
            if outcome_unknown(error):
                maybe_deleted.update(named)
            raise
        found: dict[str, bool | ApiError] = {}
        for group in answer.groups:
            is_gone = isinstance(group.error, GroupIdNotFoundError) and group.group_id in maybe_deleted
            found[group.group_id] = True if group.error is None or is_gone else group.error
            if group.error is not None and group.error.retriable and outcome_unknown(group.error):
                maybe_deleted.add(group.group_id)
        return found

    answers = await coordinators.ask_each(group_ids, ask, deadline_ms)
    errors = {group_id: answer if isinstance(answer, ApiError) else None for group_id, answer in answers.items()}
    for group_id, error in errors.items():
        if isinstance(error, NonEmptyGroupError):
            errors[group_id] = await _not_empty(coordinators, group_id, deadline_ms)
    return errors


async def _not_empty(coordinators: Coordinators, group_id: str, deadline_ms: int) -> NonEmptyGroupError:
    """The refusal of a group that has members, with their names."""
    group = (await describe_groups(coordinators, (group_id,), deadline_ms))[group_id]
    return non_empty(group_id, named_members(group.members), len(group.members))


def non_empty(group_id: str, named: str, count: int) -> NonEmptyGroupError:
    """The error that names a group's members."""
    why = f"it has {count} member{'s' * (count != 1)}: {named}" if count else "its members have just changed"
    return NonEmptyGroupError(f"group {group_id!r} is not empty: {why}; stop its consumers first")


def must_be_empty(group_id: str, error: ApiError | None, members: Sequence[object], named: str) -> None:
    """Raises the error of a group that cannot be changed now. A group that does not exist has no members."""
    if error is not None and not isinstance(error, GroupIdNotFoundError):
        raise error
    if members:
        raise non_empty(group_id, named, len(members))


def _of_each(
    partitions: Sequence[TopicPartition] | Mapping[TopicPartition, object],
    answers: Mapping[TopicPartition, ApiError | None],
) -> dict[TopicPartition, ApiError | None]:
    unsaid = UnknownServerError("the coordinator says nothing of it")
    return {tp: answers.get(tp, unsaid) for tp in partitions}
