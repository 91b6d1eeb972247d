"""The states of a classic group, and which may follow which.

    Empty                 no members; it may hold committed offsets
    PreparingRebalance    members are told to join, and the joins wait
    CompletingRebalance   a generation has begun; its leader is to assign
    Stable                every member of the generation has, or may fetch, its assignment
    Dead                  deleted

PreparingRebalance and CompletingRebalance are never in the log: a coordinator that loads a group goes on with its last
generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class GroupState(StrEnum):
    """Kafka's words."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


BEFORE: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE},
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.STABLE}),
    GroupState.DEAD: frozenset(GroupState),
}
"""The states that each one may follow. A Stable group stays it when a static member is replaced."""
