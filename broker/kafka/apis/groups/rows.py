"""The rows of the APIs of consumer groups."""

from __future__ import annotations

from functools import partial
from typing import Final

from broker.kafka.api_row import BYTES_MAX, ApiRow, Failed, never_pipelined
from broker.kafka.apis.groups import (
    classic_members,
    consumer_members,
    find_coordinator,
    listing,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from broker.kafka.parts import DoorParts
from broker.kafka.plan import MakePlan
from broker.kafka.schemas.table import REQUESTS, RESPONSES
from penstock.messages.groups.group_apis import JOIN_GROUP

ITEMS_MAX: Final = 20_000
MANY: Final = 50_000
WITH_MANY: Final = ("ConsumerGroupHeartbeat",)
"""A member names its topics, and every partition that it holds."""


def group_rows(parts: DoorParts) -> list[ApiRow]:
    """The rows in the order of their keys."""
    commit, fetch = partial(offset_commit.offset_commit, parts), partial(offset_fetch.offset_fetch, parts)
    find, forget = partial(find_coordinator.find_coordinator, parts), partial(offset_delete.offset_delete, parts)
    describe = partial(listing.describe_groups, parts)
    describe_consumers = partial(listing.consumer_group_describe, parts)
    return [
        _row(8, "OffsetCommit", (2, 10), commit, offset_commit.offset_commit_failed),
        _row(9, "OffsetFetch", (1, 10), fetch, offset_fetch.offset_fetch_failed),
        _row(10, "FindCoordinator", (0, 6), find, find_coordinator.find_coordinator_failed),
        _row(11, "JoinGroup", (0, 9), classic_members.join_group, classic_members.join_group_failed),
        _row(12, "Heartbeat", (0, 4), classic_members.heartbeat),
        _row(13, "LeaveGroup", (0, 5), classic_members.leave_group),
        _row(14, "SyncGroup", (0, 5), classic_members.sync_group),
        _row(15, "DescribeGroups", (0, 6), describe, listing.describe_groups_failed),
        _row(16, "ListGroups", (0, 5), listing.list_groups),
        _row(42, "DeleteGroups", (0, 2), listing.delete_groups, listing.delete_groups_failed),
        _row(47, "OffsetDelete", (0, 0), forget),
        _row(68, "ConsumerGroupHeartbeat", (0, 1), consumer_members.consumer_group_heartbeat),
        _row(69, "ConsumerGroupDescribe", (0, 1), describe_consumers, listing.consumer_group_describe_failed),
    ]


def _row(key: int, name: str, versions: tuple[int, int], plan: MakePlan, failed: Failed | None = None) -> ApiRow:
    """A row of an API. Without `failed`, an error of the request as a whole is the answer's `error_code`."""
    elements_max = MANY if name in WITH_MANY else ITEMS_MAX
    bytes_max = JOIN_GROUP.limits.message_bytes if name == JOIN_GROUP.name else BYTES_MAX
    return ApiRow(
        key,
        name,
        REQUESTS[key],
        RESPONSES[key],
        versions,
        plan,
        failed=failed,
        elements_max=elements_max,
        bytes_max=bytes_max,
        is_pipelined=offset_commit.is_pipelined if name == "OffsetCommit" else never_pipelined,
    )
