"""Decides on AlterClientQuotas: the changes of one entity are made together, or none is (KIP-546)."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Collection, Iterator
from typing import Final

from metadata.controller.context import DecisionContext
from metadata.controller.result import ControllerResult
from metadata.quotas import record_of_quota
from metadata.records import Record
from penstock.addresses import check_address
from penstock.config_keys import did_you_mean
from penstock.errors import ApiError, InvalidRequestError, PolicyViolationError
from penstock.messages.security.quotas import (
    ADDRESS_KEYS,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    DEFAULT_NAME,
    PRODUCER_BYTE_RATE,
    QUOTA_KEYS,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuota,
    QuotaAlteration,
    QuotaEntity,
)

ENTITIES_MAX: Final = 10_000
"""The limit of the cluster: every node has all of them in memory, and a description has them in one answer."""
NAME_MAX: Final = 1_024
"""Characters of a name: those of certificates are long."""
_SHOWN: Final = 64
_COUNTS: Final = {
    PRODUCER_BYTE_RATE: "bytes",
    CONSUMER_BYTE_RATE: "bytes",
    CONNECTION_CREATION_RATE: "connections",
}


def alter_client_quotas(
    context: DecisionContext, request: AlterClientQuotasRequest
) -> ControllerResult[AlterClientQuotasResponse]:
    """Results stand in the order of the request. A change to what is so already makes no record."""
    context.check_item_count(sum(len(one.changes) for one in request.alterations), "quotas")
    records: list[Record] = []
    results, seen, made = [], set[QuotaEntity](), 0
    for asked in request.alterations:
        try:
            if asked.entity in seen:
                raise InvalidRequestError(f"the quotas of {_shown(asked.entity)} are changed twice in the request")
            _check_entity(asked.entity)
            own = list(_records(context, asked))
            is_new = asked.entity not in context.state.quotas.by_entity and bool(own)
            if is_new and len(context.state.quotas.by_entity) + made >= ENTITIES_MAX:
                raise PolicyViolationError(
                    f"{ENTITIES_MAX} users, clients and addresses have quotas, and no more are kept; let one of every "
                    "user stand for many"
                )
            made += is_new
            records += own
            results.append(AlteredQuota(asked.entity))
        except ApiError as error:
            results.append(AlteredQuota(asked.entity, error))
        seen.add(asked.entity)
    if request.validate_only:
        records = []
    return ControllerResult(tuple(records), AlterClientQuotasResponse(tuple(results)))


def _records(context: DecisionContext, asked: QuotaAlteration) -> Iterator[Record]:
    has, named = context.state.quotas.of(asked.entity), set[str]()
    keys = QUOTA_KEYS if asked.entity.ip is None else ADDRESS_KEYS
    for key, value in asked.changes:
        if key in named:
            raise InvalidRequestError(f"{key[:_SHOWN]} is named twice for {_shown(asked.entity)}")
        named.add(key)
        if value is None:
            if key not in keys and key not in has:
                raise _unknown(key, keys)
            if key in has:
                yield record_of_quota(asked.entity, key, None)
        else:
            if key not in keys:
                raise _unknown(key, keys)
            _check_value(key, value)
            if has.get(key) != value:
                yield record_of_quota(asked.entity, key, float(value))


def _check_value(key: str, value: float) -> None:
    if not math.isfinite(value) or value <= 0:
        kept_out = "a firewall keeps an address out" if key == CONNECTION_CREATION_RATE else "an ACL keeps a client out"
        raise InvalidRequestError(f"{key} = {value}; a quota is above 0: {kept_out}")
    counts = _COUNTS.get(key)
    if counts is not None and value != math.floor(value):
        raise InvalidRequestError(f"{key} = {value}; it counts {counts}, so it has no fraction")


def _unknown(key: str, keys: Collection[str]) -> InvalidRequestError:
    shown = key[:_SHOWN]
    if shown in QUOTA_KEYS:
        return InvalidRequestError(f"an ip has no {shown}, which is of users and clients; it has {', '.join(keys)}")
    if shown in ADDRESS_KEYS:
        return InvalidRequestError(f"{shown} is of an ip; users and clients have {', '.join(keys)}")
    return InvalidRequestError(f"there is no quota {shown!r}{did_you_mean(shown, keys)}; there are {', '.join(keys)}")


def _check_entity(entity: QuotaEntity) -> None:
    if not entity.parts:
        raise InvalidRequestError("a quota names a user, a client-id, or both, or an ip")
    if entity.ip is not None:
        if len(entity.parts) > 1:
            raise InvalidRequestError("a quota of an ip is of nobody else; a user's, or a client-id's, is another one")
        if entity.ip != DEFAULT_NAME:
            check_address(entity.ip, "a quota is of one IP address, or of each that has none of its own")
    for kind, name in entity.parts:
        if len(name) > NAME_MAX:
            raise InvalidRequestError(f"a {kind} has at most {NAME_MAX} characters, not {len(name)}")
        if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
            raise InvalidRequestError(f"a {kind} must not have control characters: {name[:_SHOWN]!r}")


def _shown(entity: QuotaEntity) -> str:
    return ", ".join(f"{kind} {name[:_SHOWN]!r}" for kind, name in entity.parts) or "no entity"
