"""The table of the APIs that this node serves in Kafka's protocol: one row each.

A row is advertised as it stands here (ApiVersions, and the page for users), so it stands here when it works. A range
may be advertised from a lower version than is served: some clients turn features on only by an old version in the
range (KAFKA-18659), and a request of such a version gets UNSUPPORTED_VERSION where its answer has a place for it.
Not here: the plans (apis/), the messages (schemas/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.kafka.parts import DoorParts
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


def api_rows(parts: DoorParts) -> Mapping[int, ApiRow]:
    """By key. A new API gets its row here."""
    rows: list[ApiRow] = []
    return {row.key: row for row in rows}
