"""The APIs of consumer groups, at a broker's listeners: their coordinators, members, committed offsets, and the groups
as administrators see them. The coordinator of a group answers, so all of them may wait for its log.

Not here: what a row has (api.py), and what limits are for (client_apis.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.messages.api import KIB, MIB, SMALL, Api, ApiKind, ApiLimits, Operation, Outcome
from penstock.messages.client_apis import ASKED_MAX, ENTRIES_MAX, NAMES_MAX, PARTITIONS_MAX
from penstock.messages.groups import classic_protocol, consumer_protocol, coordinators, listing, offsets

OWNED_MAX: Final = 20_000
"""Partitions of one member: those of two of the largest topics."""
MEMBERS_MAX: Final = 10_000
"""Members that one request names. The record of a group, with all of its members, is bounded before that."""
PROTOCOLS_MAX: Final = 100
"""Assignors of one member; clients know four."""
DESCRIBED_MAX: Final = 100
"""Groups of one description, which has every member of each."""


def _fetched(answer: offsets.OffsetFetchResponse) -> Iterator[Outcome]:
    for group in answer.groups:
        yield group
        yield from group.partitions


FIND_COORDINATOR: Final = Api(
    "FindCoordinator",
    coordinators.FindCoordinatorRequest,
    coordinators.FindCoordinatorResponse,
    ApiKind.LOCAL,
    ApiLimits(MIB, {"keys": NAMES_MAX}),
    Operation.DESCRIBE,
    lambda answer: answer.coordinators,
    may_wait=True,
)
CONSUMER_GROUP_HEARTBEAT: Final = Api(
    "ConsumerGroupHeartbeat",
    consumer_protocol.ConsumerGroupHeartbeatRequest,
    consumer_protocol.ConsumerGroupHeartbeatResponse,
    ApiKind.LOCAL,
    ApiLimits(
        4 * MIB,
        {
            "subscribed_topic_names": ENTRIES_MAX,
            "owned_partitions": ENTRIES_MAX,
            "owned_partitions.partitions": OWNED_MAX,
        },
        "a pattern subscribes to more",
    ),
    Operation.READ,
    may_wait=True,
)
JOIN_GROUP: Final = Api(
    "JoinGroup",
    classic_protocol.JoinGroupRequest,
    classic_protocol.JoinGroupResponse,
    ApiKind.LOCAL,
    ApiLimits(MIB, {"protocols": PROTOCOLS_MAX}, "the members of a group are one record of its coordinator"),
    Operation.READ,
    lambda answer: (answer,),
    may_wait=True,
)
SYNC_GROUP: Final = Api(
    "SyncGroup",
    classic_protocol.SyncGroupRequest,
    classic_protocol.SyncGroupResponse,
    ApiKind.LOCAL,
    ApiLimits(4 * MIB, {"assignments": MEMBERS_MAX}, "the leader's has the assignments of all members"),
    Operation.READ,
    may_wait=True,
)
HEARTBEAT: Final = Api(
    "Heartbeat",
    classic_protocol.HeartbeatRequest,
    classic_protocol.HeartbeatResponse,
    ApiKind.LOCAL,
    SMALL,
    Operation.READ,
    may_wait=True,
)
LEAVE_GROUP: Final = Api(
    "LeaveGroup",
    classic_protocol.LeaveGroupRequest,
    classic_protocol.LeaveGroupResponse,
    ApiKind.LOCAL,
    ApiLimits(MIB, {"members": NAMES_MAX}),
    Operation.READ,
    lambda answer: answer.members,
    may_wait=True,
    of_administrators=lambda request: any(not member.member_id for member in request.members),
)
OFFSET_COMMIT: Final = Api(
    "OffsetCommit",
    offsets.OffsetCommitRequest,
    offsets.OffsetCommitResponse,
    ApiKind.LOCAL,
    ApiLimits(4 * MIB, {"partitions": PARTITIONS_MAX}, "the others in the next one"),
    Operation.READ,
    lambda answer: answer.partitions,
    may_wait=True,
    of_administrators=lambda request: not request.member_id,
)
OFFSET_FETCH: Final = Api(
    "OffsetFetch",
    offsets.OffsetFetchRequest,
    offsets.OffsetFetchResponse,
    ApiKind.LOCAL,
    ApiLimits(4 * MIB, {"groups": NAMES_MAX, "groups.partitions": ASKED_MAX}, "`all_partitions` names none"),
    Operation.DESCRIBE,
    _fetched,
    may_wait=True,
)
OFFSET_DELETE: Final = Api(
    "OffsetDelete",
    offsets.OffsetDeleteRequest,
    offsets.OffsetDeleteResponse,
    ApiKind.LOCAL,
    ApiLimits(MIB, {"partitions": PARTITIONS_MAX}),
    Operation.DELETE,
    lambda answer: answer.partitions,
    may_wait=True,
)
LIST_GROUPS: Final = Api(
    "ListGroups",
    listing.ListGroupsRequest,
    listing.ListGroupsResponse,
    ApiKind.LOCAL,
    ApiLimits(4 * KIB, {"states": 32, "types": 32}),
    Operation.DESCRIBE,
    may_wait=True,
)
DESCRIBE_GROUPS: Final = Api(
    "DescribeGroups",
    listing.DescribeGroupsRequest,
    listing.DescribeGroupsResponse,
    ApiKind.LOCAL,
    ApiLimits(MIB, {"group_ids": DESCRIBED_MAX}, "the answer has every member of each"),
    Operation.DESCRIBE,
    lambda answer: answer.groups,
    may_wait=True,
)
DELETE_GROUPS: Final = Api(
    "DeleteGroups",
    listing.DeleteGroupsRequest,
    listing.DeleteGroupsResponse,
    ApiKind.LOCAL,
    ApiLimits(MIB, {"group_ids": NAMES_MAX}),
    Operation.DELETE,
    lambda answer: answer.groups,
    may_wait=True,
)
