"""Requests about several groups: one row for each such API, and the list of all groups.

Not here: who parts and joins (coordination/joined_answers.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from broker.coordination.coordinator import CoordinatedIds
from broker.coordination.joined_answers import ManyIds
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


def _narrowed_ids(request: Any, places: Sequence[int]) -> Any:
    return replace(request, group_ids=tuple(request.group_ids[place] for place in places))


_SEVERAL: Final[dict[type, ManyIds]] = {
    DescribeGroupsRequest: ManyIds(
        lambda request: request.group_ids,
        _narrowed_ids,
        lambda answer: answer.groups,
        lambda request, place, error: DescribedGroup(request.group_ids[place], error),
        DescribeGroupsResponse,
    ),
    DeleteGroupsRequest: ManyIds(
        lambda request: request.group_ids,
        _narrowed_ids,
        lambda answer: answer.groups,
        lambda request, place, error: DeletedGroup(request.group_ids[place], error),
        DeleteGroupsResponse,
    ),
    OffsetFetchRequest: ManyIds(
        lambda request: [group.group_id for group in request.groups],
        lambda request, places: replace(request, groups=tuple(request.groups[place] for place in places)),
        lambda answer: answer.groups,
        lambda request, place, error: GroupOffsets(request.groups[place].group_id, error),
        OffsetFetchResponse,
    ),
}


def _joined(answers: Sequence[ListGroupsResponse]) -> ListGroupsResponse:
    """The groups of all shards."""
    return ListGroupsResponse(tuple(group for answer in answers for group in answer.groups))


GROUP_IDS: Final = CoordinatedIds(word="group", several=_SEVERAL, listing=ListGroupsRequest, joined=_joined)
