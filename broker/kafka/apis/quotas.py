"""DescribeClientQuotas 0 to 1 (key 48) and AlterClientQuotas 0 to 1 (key 49; KIP-546)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from broker.kafka.api_row import RECORD_ELEMENTS_MAX, alone, serves
from broker.kafka.errors import code_of, message_of
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.configs import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntryData,
    EntityData,
    ValueData,
)
from penstock.errors import ApiError, InvalidRequestError
from penstock.messages.security import quotas as ours
from penstock.messages.security.quota_apis import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from penstock.messages.security.quotas import DEFAULT_NAME, ENTITY_TYPES, QuotaEntity, QuotaMatch

_MATCHES: Final = (QuotaMatch.EXACT, QuotaMatch.DEFAULT, QuotaMatch.ANY)
"""Kafka's numbers are the places in these."""
TIMEOUT_MS: Final = 30_000
"""Kafka's request has none."""


def describe_client_quotas(asked: Asked, body: DescribeClientQuotasRequest) -> Plan:
    request = ours.DescribeClientQuotasRequest(tuple(map(_part, body.components)), body.strict)
    answer: ours.DescribeClientQuotasResponse = yield Ask(DESCRIBE_CLIENT_QUOTAS.name, request)
    return DescribeClientQuotasResponse(
        entries=[
            DescribeClientQuotasResponseEntryData(
                entity=[EntityData(entity_type=kind, entity_name=name or None) for kind, name in one.entity.parts],
                values=[ValueData(key=key, value=value) for key, value in one.values],
            )
            for one in answer.quotas
        ]
    )


def describe_client_quotas_failed(
    asked: Asked, body: DescribeClientQuotasRequest, error: ApiError
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code_of(error), error_message=message_of(error), entries=None)


def _part(component: ComponentData) -> ours.QuotaFilterPart:
    known = 0 <= component.match_type < len(_MATCHES)
    match = _MATCHES[component.match_type] if known else QuotaMatch.UNKNOWN
    return ours.QuotaFilterPart(component.entity_type, match, component.match or "")


def alter_client_quotas(asked: Asked, body: AlterClientQuotasRequest) -> Plan:
    """One decision of the controller about all entries that name an entity."""
    errors: list[ApiError | None] = []
    wanted: list[ours.QuotaAlteration] = []
    for entry in body.entries:
        try:
            changes = tuple(ours.QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops)
            wanted.append(ours.QuotaAlteration(_entity(entry.entity), changes))
            errors.append(None)
        except InvalidRequestError as error:
            errors.append(error)
    results: list[ApiError | None] = []
    if wanted:
        request = ours.AlterClientQuotasRequest(tuple(wanted), body.validate_only, TIMEOUT_MS)
        answer: ours.AlterClientQuotasResponse = yield Ask(ALTER_CLIENT_QUOTAS.name, request)
        results = [one.error for one in answer.results]
    answered = iter(results)
    entries = [
        _altered(entry, next(answered) if error is None else error)
        for entry, error in zip(body.entries, errors, strict=True)
    ]
    return AlterClientQuotasResponse(entries=entries)


def alter_client_quotas_failed(
    asked: Asked, body: AlterClientQuotasRequest, error: ApiError
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=[_altered(entry, error) for entry in body.entries])


def _altered(entry: AlterClientQuotasRequestEntryData, error: ApiError | None) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=code_of(error), error_message=message_of(error), entity=entry.entity
    )


def _entity(parts: Sequence[EntityData]) -> QuotaEntity:
    """The entity of a request. Raises InvalidRequestError if the parts name no entity."""
    times = Counter(part.entity_type for part in parts)
    for kind, count in times.items():
        if kind not in ENTITY_TYPES:
            raise InvalidRequestError(f"there are no quotas of {kind[:64]!r}; there are {', '.join(ENTITY_TYPES)}")
        if count > 1:
            raise InvalidRequestError(f"the entity names {kind} twice")
    if any(part.entity_name == "" for part in parts):
        raise InvalidRequestError("a name is empty; everybody has none at all")
    names = {part.entity_type: DEFAULT_NAME if part.entity_name is None else part.entity_name for part in parts}
    return QuotaEntity(*(names.get(kind) for kind in ENTITY_TYPES))


SERVED: Final = (
    serves(
        DescribeClientQuotasRequest,
        DescribeClientQuotasResponse,
        (0, 1),
        alone(describe_client_quotas),
        failed=describe_client_quotas_failed,
        elements_max=RECORD_ELEMENTS_MAX,
    ),
    serves(
        AlterClientQuotasRequest,
        AlterClientQuotasResponse,
        (0, 1),
        alone(alter_client_quotas),
        failed=alter_client_quotas_failed,
        elements_max=RECORD_ELEMENTS_MAX,
    ),
)
