"""Requests for several groups: parted among the shards that hold them, and the answers joined in the order asked.

One row for each such API. Not here: which shard holds a group (group_coordinator.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.errors import ApiError
from penstock.messages.groups.listing import (
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from penstock.messages.groups.offsets import GroupOffsets, OffsetFetchRequest, OffsetFetchResponse


@dataclass(frozen=True, slots=True)
class ManyGroups:
    """How a request is parted by group, and its answer joined."""

    group_ids: Callable[[Any], Sequence[str]]
    narrowed: Callable[[Any, Sequence[int]], Any]
    """The request for these groups alone, by their places in it."""
    parts: Callable[[Any], Sequence[Any]]
    """The parts of a shard's answer, one for each group of its request."""
    failed: Callable[[str, ApiError], Any]
    """The part of a group whose shard has no answer."""
    joined: Callable[[tuple[Any, ...]], Any]


def _narrowed_ids(request: Any, places: Sequence[int]) -> Any:
    return replace(request, group_ids=tuple(request.group_ids[place] for place in places))


MANY_GROUPS: Final[dict[type, ManyGroups]] = {
    DescribeGroupsRequest: ManyGroups(
        lambda request: request.group_ids,
        _narrowed_ids,
        lambda answer: answer.groups,
        lambda group_id, error: DescribedGroup(group_id, error),
        DescribeGroupsResponse,
    ),
    DeleteGroupsRequest: ManyGroups(
        lambda request: request.group_ids,
        _narrowed_ids,
        lambda answer: answer.groups,
        lambda group_id, error: DeletedGroup(group_id, error),
        DeleteGroupsResponse,
    ),
    OffsetFetchRequest: ManyGroups(
        lambda request: [group.group_id for group in request.groups],
        lambda request, places: replace(request, groups=tuple(request.groups[place] for place in places)),
        lambda answer: answer.groups,
        lambda group_id, error: GroupOffsets(group_id, error),
        OffsetFetchResponse,
    ),
}
"""By the type of the request."""


class JoinedAnswer:
    """Collects the parts of one request; `done` is called once, when the last one is there."""

    def __init__(self, of: ManyGroups, group_ids: Sequence[str], done: Callable[[Any], None]) -> None:
        self._of, self._group_ids, self._done = of, group_ids, done
        self._parts: list[Any] = [None] * len(group_ids)
        self._open = len(group_ids)
        self._finish_if_whole()

    def fail(self, places: Sequence[int], error: ApiError) -> None:
        self._take(places, [self._of.failed(self._group_ids[place], error) for place in places])

    def ticket(self, places: Sequence[int]) -> Callable[[Any], None]:
        """Takes the answer, or the error, of the shard that was asked for the groups at these places."""

        def answered(answer: Any) -> None:
            if isinstance(answer, ApiError):
                self.fail(places, answer)
            else:
                self._take(places, self._of.parts(answer))

        return answered

    def _take(self, places: Sequence[int], parts: Sequence[Any]) -> None:
        for place, part in zip(places, parts, strict=True):
            self._parts[place] = part
        self._open -= len(places)
        self._finish_if_whole()

    def _finish_if_whole(self) -> None:
        if self._open == 0:
            self._done(self._of.joined(tuple(self._parts)))


class JoinedList:
    """Collects the groups of all shards; the first error stands for the whole list, which would not be complete."""

    def __init__(self, shards: int, done: Callable[[ListGroupsResponse | ApiError], None]) -> None:
        self._open, self._done = shards, done
        self._groups: list[Any] = []
        self._error: ApiError | None = None
        self._finish_if_whole()

    def __call__(self, answer: Any) -> None:
        self._open -= 1
        if isinstance(answer, ApiError):
            self._error = self._error or answer
        else:
            self._groups += answer.groups
        self._finish_if_whole()

    def _finish_if_whole(self) -> None:
        if self._open == 0:
            self._done(self._error or ListGroupsResponse(tuple(self._groups)))


LISTS: Final = ListGroupsRequest
"""The request that all shards answer."""
