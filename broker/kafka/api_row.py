"""One row of the table of APIs (api_rows.py): the versions that are served, and the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from broker.kafka.plan import Asked, MakePlan
from penstock.errors import ApiError


@dataclass(frozen=True, slots=True)
class ApiRow:
    """One API. Versions are ranges, both ends included."""

    key: int
    name: str
    """Kafka's."""
    request: type[Any]
    response: type[Any]
    versions: tuple[int, int]
    """Versions that are served."""
    plan: MakePlan
    advertised: tuple[int, int] | None = None
    """Versions that ApiVersions tells; None: those that are served."""
    failed: Callable[[Asked, Any, ApiError], Any] | None = None
    """The answer of a request that failed as a whole, with the error in each place where its client looks for it;
    None: in the `error_code` of the response itself. An API without such a place ends the connection."""

    def serves(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]
