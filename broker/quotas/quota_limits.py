"""Finds the quota that counts for a client, and with whom it shares it: Kafka's order (KIP-55, KIP-546).

The nearest entity that has a value for the key counts: user and client, user and every client, user; every user and
client, every user and every client, every user; client, every client. The quota of a user and a client is shared by the
connections of both; that of a user by all its clients; that of a client by all users of that client's name. A quota of
every user, or of every client, is each one's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.addresses import as_connected
from penstock.messages.security.quotas import CONNECTION_CREATION_RATE, DEFAULT_NAME, QuotaEntity

CLIENT_ID_KEPT: Final = 256
"""Characters by which the owners of quotas are told apart. A client chooses its id, and gRPC takes one of megabytes.
Ids that begin with the same characters share what a quota gives each of them."""


class QuotaOwner(NamedTuple):
    """The clients that share a quota. None: all of them."""

    user: str | None
    client_id: str | None


class Limit(NamedTuple):
    per_second: float
    owner: QuotaOwner


class QuotaLimits:
    """The quotas of one key."""

    __slots__ = ("_by_entity", "_has_users")

    def __init__(self, by_entity: Mapping[QuotaOwner, float]) -> None:
        self._by_entity = by_entity
        self._has_users = any(entity.user is not None for entity in by_entity)

    def find(self, user: str, client_id: str) -> Limit | None:
        """The limit of a client; None: it may take what it likes."""
        found = self._by_entity
        if self._has_users:
            for named in (user, DEFAULT_NAME):
                for client in (client_id, DEFAULT_NAME):
                    value = found.get(QuotaOwner(named, client))
                    if value is not None:
                        return Limit(value, QuotaOwner(user, client_id[:CLIENT_ID_KEPT]))
                value = found.get(QuotaOwner(named, None))
                if value is not None:
                    return Limit(value, QuotaOwner(user, None))
        for client in (client_id, DEFAULT_NAME):
            value = found.get(QuotaOwner(None, client))
            if value is not None:
                return Limit(value, QuotaOwner(None, client_id[:CLIENT_ID_KEPT]))
        return None

    def __repr__(self) -> str:
        return f"QuotaLimits({len(self._by_entity)})"


def address_limits_of(quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> dict[str, float]:
    """The new connections a second of addresses; that of DEFAULT_NAME is each other's own."""
    by_address = ((entity.ip, values.get(CONNECTION_CREATION_RATE)) for entity, values in quotas.items())
    limits = {ip: value for ip, value in by_address if ip is not None and value is not None}
    for ip in tuple(limits):  # one that a controller of an older release has taken may be written otherwise
        limits.setdefault(as_connected(ip), limits[ip])
    return limits


def limits_of(quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> dict[str, QuotaLimits]:
    """The limits by key; a key that nobody has is not there."""
    by_key: dict[str, dict[QuotaOwner, float]] = {}
    for entity, values in quotas.items():
        if entity.ip is None:
            for key, value in values.items():
                by_key.setdefault(key, {})[QuotaOwner(entity.user, entity.client_id)] = value
    return {key: QuotaLimits(by_entity) for key, by_entity in by_key.items()}
