"""The changes of a consumer's assignment, which the user's thread makes inside polls, and the user's callbacks.

Nothing changes between two polls: what an earlier poll gave may still be in work. Pure. Not here: which change is next
(membership.py), and how a face makes it (faces of the consumer).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from penstock.lazy_dataclass import dataclass
from penstock.types import NO_EPOCH, CommittedOffset, TopicPartition

Callback = Callable[[list[TopicPartition]], Any]


class StepKind(Enum):
    """The word of a change."""

    ASSIGN = "on_assigned"
    REVOKE = "on_revoked"
    LOSE = "on_lost"


class CommittedPlace(NamedTuple):
    """The offset that a group has committed, and the leader epoch of the record before it."""

    offset: int
    leader_epoch: int = NO_EPOCH


CommittedPlaces = Mapping[TopicPartition, CommittedPlace | None]
Committed = dict[TopicPartition, CommittedOffset]
OnCommitted = Callable[[Committed, BaseException | None], Any]
"""The user's callback of a commit without waiting: the offsets, and the error if there is one."""


@dataclass(slots=True, eq=False)
class RebalanceStep:
    """One change. `called` is set by the user's thread BEFORE it calls back: no callback is called twice."""

    kind: StepKind
    partitions: tuple[TopicPartition, ...]
    called: bool = False


@dataclass(frozen=True, slots=True)
class RebalanceListener:
    """The callbacks of one `subscribe`."""

    on_assigned: Callback | None = None
    on_revoked: Callback | None = None
    on_lost: Callback | None = None

    def __post_init__(self) -> None:
        for kind in StepKind:
            given = getattr(self, kind.value)
            if given is not None and not callable(given):
                raise TypeError(
                    f"{kind.value}={given!r} must be a function that takes a list of TopicPartition, or left out"
                )

    def of(self, kind: StepKind) -> Callback | None:
        """The callback for this kind of change. As in Kafka, lost partitions go to `on_revoked` where there is no
        `on_lost`."""
        found: Callback | None = getattr(self, kind.value)
        return self.on_revoked if found is None and kind is StepKind.LOSE else found
