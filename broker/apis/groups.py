"""The APIs of consumer groups: each request goes to the coordinator, which answers it now or later.

FindCoordinator is of both kinds, for groups and for transactional ids. A request that waits (a join for the other
members, a sync for the leader, everything for its commit) holds no handler. Not here: the coordinator (broker/groups/).
"""

from __future__ import annotations

from typing import Any, Final

from broker.apis.api_parts import ApiParts
from broker.apis.router import Handle
from broker.apis.served import Served
from broker.authorization.rules import groups as rules
from broker.authorization.rules.ruling import group, in_parts, whole, whole_until_answered
from broker.network.request_channel import Request
from penstock.messages.groups import group_apis as rows
from penstock.messages.groups import listing
from penstock.messages.groups.coordinators import CoordinatorType, FindCoordinatorRequest
from penstock.messages.security.acls import Operation


def _find(parts: ApiParts) -> Handle:
    groups, transactions = parts.groups, parts.transactions

    def handle(request: Request, body: FindCoordinatorRequest) -> None:
        (transactions if body.key_type is CoordinatorType.TRANSACTION else groups).find(request, body)

    return handle


def _of_one_group(parts: ApiParts) -> Handle:
    groups = parts.groups

    def handle(request: Request, body: Any) -> None:
        groups.submit(request, body.group_id, body)

    return handle


def _of_one_group_audited(parts: ApiParts) -> Handle:
    """A request that may take a member out of its group, or its place in it: an act where the member is another's."""
    groups, audit_request = parts.groups, parts.audit_request

    def handle(request: Request, body: Any) -> None:
        if groups.removes_another(request, body.group_id, body):
            audit_request(request)
        groups.submit(request, body.group_id, body)

    return handle


def _of_many_groups(parts: ApiParts) -> Handle:
    return parts.groups.submit_each


_READS: Final = whole(rules.reads_group)
_READS_UNTIL_ANSWERED: Final = whole_until_answered(rules.reads_group)

SERVED: Final = (
    Served(api=rows.FIND_COORDINATOR, rule=rules.find_coordinator_rule, make=_find),
    Served(
        api=rows.CONSUMER_GROUP_HEARTBEAT,
        rule=rules.consumer_heartbeat_rule,
        make=_of_one_group_audited,
        judged_in_parts=True,
    ),
    Served(api=rows.JOIN_GROUP, rule=_READS_UNTIL_ANSWERED, make=_of_one_group_audited, judged_in_parts=True),
    Served(api=rows.SYNC_GROUP, rule=_READS_UNTIL_ANSWERED, make=_of_one_group, judged_in_parts=True),
    Served(api=rows.HEARTBEAT, rule=_READS, make=_of_one_group),
    Served(api=rows.LEAVE_GROUP, rule=_READS, make=_of_one_group_audited, audited_often=True),
    Served(api=rows.OFFSET_COMMIT, rule=rules.offset_commit_rule, make=_of_one_group, audited_often=True),
    Served(api=rows.OFFSET_DELETE, rule=rules.offset_delete_rule, make=_of_one_group),
    Served(api=rows.OFFSET_FETCH, rule=rules.offset_fetch_rule, make=_of_many_groups),
    Served(api=rows.LIST_GROUPS, rule=rules.list_groups_rule, make=_of_many_groups),
    Served(api=rows.DESCRIBE_GROUPS, rule=rules.describe_groups_rule, make=_of_many_groups),
    Served(
        api=rows.DELETE_GROUPS,
        rule=in_parts(
            "group_ids",
            listing.DeleteGroupsResponse(),
            lambda name: group(Operation.DELETE, name),
            listing.DeletedGroup,
            "groups",
        ),
        make=_of_many_groups,
    ),
)
