"""The groups of a fake cluster: what its nodes answer as coordinators, to administrators.

`at` is the coordinator of each group. `refusals` queues errors for the next requests of an API (each is used once; an
error that does not say "nothing was written" comes after the work). Not here: members that join.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace
from typing import Any

from penstock.errors import (
    ApiError,
    GroupIdNotFoundError,
    NonEmptyGroupError,
    NotCoordinatorError,
    UnknownMemberIdError,
)
from penstock.messages.api import Api
from penstock.messages.groups import coordinators, group_apis, listing, offsets
from penstock.types import TopicPartition
from penstock.wire.message_codec import request_codec, response_codec


def _rows() -> dict[str, Api[Any, Any]]:
    return {row.name: row for row in vars(group_apis).values() if isinstance(row, Api)}


GROUP_APIS = _rows()


def _method_of(row: Api[Any, Any]) -> str:
    """`_list_groups` answers ListGroups."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in row.name)


class FakeGroups:
    """See the module."""

    def __init__(self) -> None:
        self.at: dict[str, int] = {}
        self.groups: dict[str, listing.DescribedGroup] = {}
        self.offsets: dict[str, dict[TopicPartition, offsets.OffsetFetchResult]] = defaultdict(dict)
        self.refusals: dict[str, deque[ApiError]] = defaultdict(deque)
        self.asked: list[tuple[int, str, Any]] = []
        """Node, API and request, in order."""

    def make(self, group_id: str, node_id: int, *members: listing.GroupMember, **more: Any) -> None:
        """A group with these members, or an empty one."""
        state = "Stable" if members else "Empty"
        group = listing.DescribedGroup(group_id, state=state, protocol_type="consumer", members=members)
        self.at[group_id], self.groups[group_id] = node_id, replace(group, **more)

    def commit(self, group_id: str, partition: TopicPartition, offset: int, metadata: str = "") -> None:
        self.offsets[group_id][partition] = offsets.OffsetFetchResult(partition, None, offset, 3, metadata, 1_000)

    def answer(self, node_id: int, api: str, raw: bytes) -> bytes:
        row = GROUP_APIS[api]
        request = request_codec(row).decode(raw)
        self.asked.append((node_id, api, request))
        refusal = self.refusals[api].popleft() if self.refusals[api] else None
        if refusal is not None and refusal.nothing_written:
            raise refusal
        answer = getattr(self, _method_of(row))(node_id, request)
        if refusal is not None:
            raise refusal
        return response_codec(row).encode(answer)

    def _must_coordinate(self, node_id: int, group_id: str) -> None:
        if self.at.get(group_id, node_id) != node_id:
            raise NotCoordinatorError(f"node {node_id} does not coordinate {group_id}")

    def _error(self, node_id: int, group_id: str) -> ApiError | None:
        try:
            self._must_coordinate(node_id, group_id)
        except ApiError as error:
            return error
        return None if group_id in self.groups else GroupIdNotFoundError(f"there is no group {group_id}")

    def _find_coordinator(self, node_id: int, request: coordinators.FindCoordinatorRequest) -> Any:
        return coordinators.FindCoordinatorResponse(
            tuple(coordinators.FoundCoordinator(key, self.at.get(key, 1)) for key in request.keys)
        )

    def _list_groups(self, node_id: int, request: listing.ListGroupsRequest) -> Any:
        return listing.ListGroupsResponse(
            tuple(
                listing.ListedGroup(group.group_id, group.protocol_type, group.state, group.group_type)
                for group in self.groups.values()
                if self.at[group.group_id] == node_id
                and group.state in (request.states or (group.state,))
                and group.group_type in (request.types or (group.group_type,))
            )
        )

    def _describe_groups(self, node_id: int, request: listing.DescribeGroupsRequest) -> Any:
        answers = []
        for group_id in request.group_ids:
            error = self._error(node_id, group_id)
            answers.append(listing.DescribedGroup(group_id, error) if error else self.groups[group_id])
        return listing.DescribeGroupsResponse(tuple(answers))

    def _delete_groups(self, node_id: int, request: listing.DeleteGroupsRequest) -> Any:
        answers = []
        for group_id in request.group_ids:
            error = self._error(node_id, group_id)
            if error is None and self.groups[group_id].members:
                error = NonEmptyGroupError("it has members")
            if error is None:
                del self.groups[group_id]
                self.offsets.pop(group_id, None)
            answers.append(listing.DeletedGroup(group_id, error))
        return listing.DeleteGroupsResponse(tuple(answers))

    def _offset_fetch(self, node_id: int, request: offsets.OffsetFetchRequest) -> Any:
        answers = []
        for asked in request.groups:
            error = self._error(node_id, asked.group_id)
            error = None if isinstance(error, GroupIdNotFoundError) else error
            found = () if error else tuple(self.offsets[asked.group_id].values())
            answers.append(offsets.GroupOffsets(asked.group_id, error, found))
        return offsets.OffsetFetchResponse(tuple(answers))

    def _offset_commit(self, node_id: int, request: offsets.OffsetCommitRequest) -> Any:
        self._must_coordinate(node_id, request.group_id)
        group = self.groups.get(request.group_id)
        if group is not None and group.members and not request.member_id:
            raise UnknownMemberIdError("a stranger")
        if group is None:
            self.make(request.group_id, node_id)
        for part in request.partitions:
            self.commit(request.group_id, part.partition, part.offset, part.metadata)
        results = tuple(offsets.OffsetCommitResult(part.partition) for part in request.partitions)
        return offsets.OffsetCommitResponse(results)

    def _offset_delete(self, node_id: int, request: offsets.OffsetDeleteRequest) -> Any:
        self._must_coordinate(node_id, request.group_id)
        for partition in request.partitions:
            self.offsets[request.group_id].pop(partition, None)
        return offsets.OffsetDeleteResponse(tuple(offsets.OffsetDeleteResult(tp) for tp in request.partitions))
