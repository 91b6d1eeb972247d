"""The calls of Admin about quotas, as its faces have them. Not here: what follows from a quota."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.client.admin.admin_core import AdminCore
from penstock.client.admin.changes import ask, change
from penstock.client.admin.configs import wait_heard
from penstock.errors import ApiError
from penstock.messages.client_apis import NAMES_MAX
from penstock.messages.security.quota_apis import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from penstock.messages.security.quotas import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    QuotaAlteration,
    QuotaChange,
    QuotaEntity,
)

_OF_WHOM: Final = "QuotaEntity(user=…), QuotaEntity(client_id=…), or both, or QuotaEntity(ip=…)"


class QuotaCalls:
    """The calls about quotas, over the connections of one admin client."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    async def alter_client_quotas(
        self, quotas: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> dict[QuotaEntity, ApiError | None]:
        """Sets quotas of users, clients and addresses by their keys; None takes one away (KIP-546).

        The result for each entity: None, or why nothing of it was changed. Returns when every broker in service has
        heard of it, and holds its clients to it. A quota is that of each broker. With `validate_only` nothing is
        changed.
        """
        wanted = _checked(quotas)
        deadline_ms = await self._core.begin()
        found: dict[QuotaEntity, ApiError | None] = {}
        offset = -1
        for at in range(0, len(wanted), NAMES_MAX):
            request = AlterClientQuotasRequest(wanted[at : at + NAMES_MAX], validate_only)
            answer = await change(self._core.cluster, ALTER_CLIENT_QUOTAS, request, deadline_ms)
            found |= {one.entity: one.error for one in answer.results}
            offset = max(offset, answer.metadata_offset)
        if not validate_only and None in found.values():
            await wait_heard(self._core.cluster, offset, deadline_ms)
        return found

    async def describe_client_quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        """All quotas by their entities, as one broker has them."""
        deadline_ms = await self._core.begin()
        answer = await ask(self._core.cluster, DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest(), deadline_ms)
        return {one.entity: dict(one.values) for one in answer.quotas}


def _checked(quotas: Mapping[QuotaEntity, Mapping[str, float | None]]) -> tuple[QuotaAlteration, ...]:
    """The changes that a user gave; TypeError or ValueError if they are not valid, or name no quota."""
    if not isinstance(quotas, Mapping):
        raise TypeError(f"quotas must be a dict by {_OF_WHOM}, not {type(quotas).__name__}")
    if not quotas:
        raise ValueError("quotas is empty: name a quota")
    made = []
    for entity, values in quotas.items():
        if not isinstance(entity, QuotaEntity) or not all(name is None or isinstance(name, str) for name in entity):
            raise TypeError(f"a quota is of {_OF_WHOM}, not of {entity!r}")
        if not isinstance(values, Mapping) or not values:
            raise TypeError(f"the quotas of {entity} must be a dict of values by their keys, not {values!r}")
        made.append(QuotaAlteration(entity, tuple(_change(*one) for one in values.items())))
    return tuple(made)


def _change(key: str, value: float | None) -> QuotaChange:
    if not isinstance(key, str):
        raise TypeError(f"a quota's key must be a str, not {type(key).__name__}")
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise TypeError(f"{key} must be a number, or None, not {type(value).__name__}")
    return QuotaChange(key, None if value is None else float(value))
