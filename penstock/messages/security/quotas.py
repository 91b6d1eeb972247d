"""Quotas of clients: their entities and keys in Kafka's words (KIP-546), AlterClientQuotas and DescribeClientQuotas.

A quota is a number for a key, of an entity: of a user, a client id, or both, or of an address. A broker forwards
changes to the active controller; every node answers questions by its own metadata. Not here: what follows from a quota
(`broker/quotas/`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_OFFSET

DEFAULT_NAME: Final = ""
"""The name that stands for every user, or every client, without a quota of its own."""

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
ADDRESS_KEYS: Final = {CONNECTION_CREATION_RATE: "new connections a second of an address"}
"""The keys that addresses have."""
QUOTA_KEYS: Final = {
    PRODUCER_BYTE_RATE: "bytes a second of produce requests",
    CONSUMER_BYTE_RATE: "bytes a second of answers to fetches",
    REQUEST_PERCENTAGE: "percent of a broker's time for its requests; a broker has 100",
    CONTROLLER_MUTATION_RATE: "partitions a second that it makes and deletes",
}
"""The keys that users and clients have, and what each limits; it is of each broker."""


class QuotaEntity(NamedTuple):
    """The owner of a quota. None: the entity has no such part. DEFAULT_NAME: everybody without a quota of its own."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """The type and the name of each part, by Kafka's words."""
        named = zip(ENTITY_TYPES, self, strict=True)
        return tuple((kind, name) for kind, name in named if name is not None)

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name!r}" if name else f"every {kind}" for kind, name in self.parts)


ENTITY_TYPES: Final = ("user", "client-id", "ip")
"""Kafka's entity types, in the order of an entity's fields."""


class QuotaChange(NamedTuple):
    """A key has this value from then on, or none."""

    key: str
    value: float | None = None


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """Changes of one entity: all are made, or none."""

    entity: QuotaEntity
    changes: tuple[QuotaChange, ...]


@dataclass(frozen=True, slots=True)
class AlterClientQuotasRequest:
    alterations: tuple[QuotaAlteration, ...] = ()
    validate_only: bool = False
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class AlteredQuota:
    entity: QuotaEntity
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class AlterClientQuotasResponse:
    """One result for each alteration, in their order."""

    results: tuple[AlteredQuota, ...] = ()
    metadata_offset: int = NO_OFFSET


class QuotaMatch(StrEnum):
    """The way a filter looks at one part of entities."""

    __hash__ = str.__hash__

    UNKNOWN = "unknown"
    """A way of matching that only a newer peer knows."""
    EXACT = "exact"
    DEFAULT = "default"
    """The part is that of everybody."""
    ANY = "any"
    """The entity has such a part."""


class QuotaFilterPart(NamedTuple):
    """`name` counts for an exact match alone."""

    entity_type: str
    match: QuotaMatch
    name: str = ""

    def finds(self, entity: QuotaEntity) -> bool:
        has = entity[ENTITY_TYPES.index(self.entity_type)]
        if self.match is QuotaMatch.ANY:
            return has is not None
        return has == (self.name if self.match is QuotaMatch.EXACT else DEFAULT_NAME)


@dataclass(frozen=True, slots=True)
class DescribeClientQuotasRequest:
    """The entities that every part finds; no part finds all. `strict`: those that have no other parts."""

    parts: tuple[QuotaFilterPart, ...] = ()
    strict: bool = False


class QuotaValue(NamedTuple):
    key: str
    value: float


@dataclass(frozen=True, slots=True)
class ClientQuota:
    """The quotas of one entity."""

    entity: QuotaEntity
    values: tuple[QuotaValue, ...]


@dataclass(frozen=True, slots=True)
class DescribeClientQuotasResponse:
    """The quotas, by the names of their entities."""

    quotas: tuple[ClientQuota, ...] = ()
    metadata_offset: int = NO_OFFSET
