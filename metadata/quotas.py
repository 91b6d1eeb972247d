"""Quotas of clients as the metadata has them: their table and their records.

Not here: which quotas may be set (controller/quotas.py), and what follows from them (`broker/quotas/`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from metadata.records import ClientQuotaRecord
from penstock.messages.security.quotas import QuotaEntity

Quotas = Mapping[QuotaEntity, Mapping[str, float]]
"""The values of each entity by their keys. Shared between images, and never written to."""
_NONE: Final[Mapping[str, float]] = MappingProxyType({})


class QuotaTable:
    """The quotas of an image, and changes on top of it: they are copied with the first one."""

    def __init__(self, of_image: Quotas) -> None:
        self._of_image = of_image
        self.by_entity = of_image
        """The quotas by entity. No other part writes to this."""
        self._own: dict[QuotaEntity, Mapping[str, float]] | None = None

    @property
    def has_changed(self) -> bool:
        return self.by_entity is not self._of_image

    def of(self, entity: QuotaEntity) -> Mapping[str, float]:
        return self.by_entity.get(entity, _NONE)

    def put(self, entity: QuotaEntity, key: str, value: float | None) -> None:
        """Sets one quota of an entity; None removes it. An entity without any quota is gone."""
        if self._own is None:
            self.by_entity = self._own = dict(self.by_entity)
        left = {name: one for name, one in self.of(entity).items() if name != key}
        if value is not None:
            left[key] = value
        if left:
            self._own[entity] = left
        else:
            self._own.pop(entity, None)

    def replace(self, by_entity: Quotas) -> None:
        """Replaces all quotas by these."""
        if by_entity != self.by_entity:
            self.by_entity, self._own = by_entity, None

    def __repr__(self) -> str:
        return f"QuotaTable({len(self.by_entity)} entities)"


def entity_of(record: ClientQuotaRecord) -> QuotaEntity:
    return QuotaEntity(record.user, record.client_id, record.ip)


def record_of_quota(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    return ClientQuotaRecord(key, entity.user, entity.client_id, entity.ip, value)


def quota_records(quotas: Quotas) -> Iterator[ClientQuotaRecord]:
    """The records that make them, in an order that depends on nothing but their content."""
    for entity in in_order(quotas):
        for key in sorted(quotas[entity]):
            yield record_of_quota(entity, key, quotas[entity][key])


def in_order(entities: Quotas) -> list[QuotaEntity]:
    """The entities in the order of their parts."""
    return sorted(entities, key=lambda entity: entity.parts)
