"""The APIs of consumer groups: each request goes to the coordinator, which answers it now or later.

A request that waits (a join for the other members, a sync for the leader, everything for its commit) holds no handler.
Not here: the coordinator (broker/groups/).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from broker.apis.router import Handle
from broker.network.request_channel import Request
from penstock.messages.groups import group_apis as rows
from penstock.messages.groups.coordinators import FindCoordinatorRequest

OF_ONE_GROUP = (
    rows.CONSUMER_GROUP_HEARTBEAT,
    rows.JOIN_GROUP,
    rows.SYNC_GROUP,
    rows.HEARTBEAT,
    rows.LEAVE_GROUP,
    rows.OFFSET_COMMIT,
    rows.OFFSET_DELETE,
)
MAY_REMOVE = (rows.CONSUMER_GROUP_HEARTBEAT, rows.JOIN_GROUP, rows.LEAVE_GROUP)
"""APIs that may take a member out of a group, or its place in it."""
OF_MANY_GROUPS = (rows.OFFSET_FETCH, rows.LIST_GROUPS, rows.DESCRIBE_GROUPS, rows.DELETE_GROUPS)


class Coordinator(Protocol):
    """The coordinator of the groups, or of the transactional ids, of this broker. It answers every request once; an
    ApiError that it raises is the answer, too."""

    def find(self, request: Request, body: FindCoordinatorRequest) -> None: ...

    def submit(self, request: Request, key: str, body: Any, /) -> None:
        """A request about one group or transactional id."""
        ...

    def submit_each(self, request: Request, body: Any) -> None:
        """A request about several, each of which has its own part of the answer, or about all of them."""
        ...


class GroupsCoordinator(Coordinator, Protocol):
    """The coordinator of groups."""

    def removes_another(self, request: Request, group_id: str, body: Any, /) -> bool:
        """True if the request, should it succeed, removes a member of somebody else."""
        ...


def group_handlers(coordinator: GroupsCoordinator, audit: Callable[[Request], None]) -> dict[str, Handle]:
    """The handlers of all APIs of groups, by name. `audit` is shown the requests that the groups make acts."""

    def of_one_group(request: Request, body: Any) -> None:
        coordinator.submit(request, body.group_id, body)

    def of_members(request: Request, body: Any) -> None:
        if coordinator.removes_another(request, body.group_id, body):
            audit(request)
        of_one_group(request, body)

    return {
        rows.FIND_COORDINATOR.name: coordinator.find,
        **dict.fromkeys((api.name for api in OF_ONE_GROUP), of_one_group),
        **dict.fromkeys((api.name for api in MAY_REMOVE), of_members),
        **dict.fromkeys((api.name for api in OF_MANY_GROUPS), coordinator.submit_each),
    }
