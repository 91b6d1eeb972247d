"""The states of a member of a group, as a table: the only place that says which state may follow which. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Final

from penstock.errors import (
    ApiError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    UnknownMemberIdError,
)
from penstock.lazy_dataclass import dataclass
from penstock.messages.groups.consumer_protocol import JOINS


class MembershipState(Enum):
    """The state of the member."""

    ABSENT = "has no subscription"
    JOINING = "asks to join"
    STABLE = "has what it was assigned"
    RECONCILING = "is to give up or to take partitions"
    FENCED = "was put out of the group"
    STALE = "left, because the user did not poll for max_poll_interval_ms"
    REFUSED = "the coordinator refuses it"
    LEAVING = "gives up its partitions, to leave"


S = MembershipState
NEXT: Final[dict[MembershipState, frozenset[MembershipState]]] = {
    S.ABSENT: frozenset({S.JOINING}),
    S.JOINING: frozenset({S.STABLE, S.RECONCILING, S.REFUSED, S.STALE, S.LEAVING, S.ABSENT}),
    S.STABLE: frozenset({S.RECONCILING, S.FENCED, S.JOINING, S.STALE, S.REFUSED, S.LEAVING}),
    S.RECONCILING: frozenset({S.STABLE, S.FENCED, S.JOINING, S.STALE, S.REFUSED, S.LEAVING}),
    S.FENCED: frozenset({S.JOINING, S.LEAVING, S.ABSENT}),
    S.STALE: frozenset({S.JOINING, S.LEAVING, S.ABSENT}),
    S.REFUSED: frozenset({S.JOINING, S.LEAVING, S.ABSENT}),
    S.LEAVING: frozenset({S.ABSENT}),
}
MEMBERS: Final = frozenset({S.STABLE, S.RECONCILING})
"""The coordinator counts it in."""
LOST: Final = frozenset({S.FENCED, S.STALE, S.REFUSED})
"""Its partitions are another's by now, or soon."""

FENCED_BY: Final = (UnknownMemberIdError, FencedMemberEpochError)
"""Errors that say that it is to join anew."""
REPLACED_BY: Final = (FencedInstanceIdError,)
"""Refusals that say that it is no member any more. After others its coordinator has it still, as it was."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The constants of a member. It makes its id itself (KIP-1082)."""

    group_id: str
    member_id: str
    rebalance_timeout_ms: int
    instance_id: str | None = None
    rack_id: str | None = None
    assignor: str | None = None
    client_id: str = ""


def is_put_out_by(error: ApiError, member_epoch: int) -> bool:
    """True if the answer to a heartbeat of this epoch means: join anew. To a member, GroupIdNotFoundError means that
    too: somebody has deleted the groups' topic. To a consumer that joins, it is a refusal."""
    return isinstance(error, FENCED_BY) or (isinstance(error, GroupIdNotFoundError) and member_epoch > JOINS)
