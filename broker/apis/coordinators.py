"""The coordinators of groups and of transactional ids, as the handlers of their APIs know them.

Two files of handlers need both. Not here: the coordinators (broker/coordination/), and the handlers.
"""

from __future__ import annotations

from typing import Any, Protocol

from broker.network.request_channel import Request
from penstock.errors import InvalidRequestError
from penstock.messages.groups.coordinators import FindCoordinatorRequest


class CoordinatorPort(Protocol):
    """The coordinator of the groups, or of the transactional ids, of this broker. It answers every request once; an
    ApiError that it raises is the answer, too."""

    def find(self, request: Request, body: FindCoordinatorRequest) -> None: ...

    def submit(self, request: Request, key: str, body: Any, /) -> None:
        """A request about one group or transactional id."""
        ...

    def submit_each(self, request: Request, body: Any) -> None:
        """A request about several, each of which has its own part of the answer, or about all of them."""
        ...


class GroupsCoordinator(CoordinatorPort, Protocol):
    """The coordinator of groups."""

    def removes_another(self, request: Request, group_id: str, body: Any, /) -> bool:
        """True if the request, should it succeed, removes a member of somebody else."""
        ...

    def partition_of(self, group_id: str, /) -> int:
        """The partition of the groups' topic; an ApiError for an id that no group can have, and while there is no
        topic: it is being made then."""
        ...


def check_transactional_id_given(api: str, transactional_id: str) -> None:
    if not transactional_id:
        raise InvalidRequestError(f"{api}: the transactional id is empty; leave it out for no transactions")
