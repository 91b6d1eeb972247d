"""FindCoordinator: the broker that coordinates a group, or a transactional id."""

from __future__ import annotations

from enum import StrEnum

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass


class CoordinatorType(StrEnum):
    """The kind of key that FindCoordinator is asked for."""

    GROUP = "group"
    TRANSACTION = "transaction"


@dataclass(frozen=True, slots=True)
class FindCoordinatorRequest:
    """Keys are group ids, or transactional ids."""

    keys: tuple[str, ...]
    key_type: CoordinatorType = CoordinatorType.GROUP


@dataclass(frozen=True, slots=True)
class FoundCoordinator:
    """The broker that coordinates one key; -1 with an error."""

    key: str
    node_id: int = -1
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class FindCoordinatorResponse:
    """The coordinators, in the order of the request."""

    coordinators: tuple[FoundCoordinator, ...] = ()
