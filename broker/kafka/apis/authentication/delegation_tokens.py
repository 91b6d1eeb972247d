"""Delegation tokens (keys 38 to 41; KIP-48): told to clients, and refused, as by a Kafka that has no secret for them.

Clients take a cluster that does not tell of these APIs for one of a release long ago (Go's kversion for 1.0). Kafka
tells of them whether they are on or not. A client that has not proved who it is gets
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, every other one DELEGATION_TOKEN_AUTH_DISABLED. No token is made, kept or taken.
"""

from __future__ import annotations

from typing import Final

from broker.kafka.api_row import alone, serves
from broker.kafka.errors import Code
from broker.kafka.plan import Asked, Plan, asks_nothing
from broker.kafka.schemas.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from broker.network.request_channel import ANONYMOUS
from penstock.types import NO_TIMESTAMP

BYTES_MAX: Final = 64 << 10
ELEMENTS_MAX: Final = 1_000
"""Renewers or owners of one request."""


def _create(asked: Asked, body: CreateDelegationTokenRequest) -> Plan:
    kind, _, requester = str(asked.caller.principal).partition(":")
    owner = body.owner_principal_type or kind, body.owner_principal_name or requester
    answer = CreateDelegationTokenResponse(
        error_code=_code(asked),
        principal_type=owner[0],
        principal_name=owner[1],
        issue_timestamp_ms=NO_TIMESTAMP,
        expiry_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
    )
    if asked.version >= 3:
        answer.token_requester_principal_type, answer.token_requester_principal_name = kind, requester
    return asks_nothing(answer)


def _renew(asked: Asked, body: RenewDelegationTokenRequest) -> Plan:
    return asks_nothing(RenewDelegationTokenResponse(error_code=_code(asked), expiry_timestamp_ms=NO_TIMESTAMP))


def _expire(asked: Asked, body: ExpireDelegationTokenRequest) -> Plan:
    return asks_nothing(ExpireDelegationTokenResponse(error_code=_code(asked), expiry_timestamp_ms=NO_TIMESTAMP))


def _describe(asked: Asked, body: DescribeDelegationTokenRequest) -> Plan:
    return asks_nothing(DescribeDelegationTokenResponse(error_code=_code(asked)))


def _code(asked: Asked) -> Code:
    is_known = asked.caller.principal != ANONYMOUS
    return Code.DELEGATION_TOKEN_AUTH_DISABLED if is_known else Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


SERVED: Final = (
    serves(
        CreateDelegationTokenRequest,
        CreateDelegationTokenResponse,
        (1, 3),
        alone(_create),
        elements_max=ELEMENTS_MAX,
        bytes_max=BYTES_MAX,
    ),
    serves(
        RenewDelegationTokenRequest,
        RenewDelegationTokenResponse,
        (1, 2),
        alone(_renew),
        elements_max=ELEMENTS_MAX,
        bytes_max=BYTES_MAX,
    ),
    serves(
        ExpireDelegationTokenRequest,
        ExpireDelegationTokenResponse,
        (1, 2),
        alone(_expire),
        elements_max=ELEMENTS_MAX,
        bytes_max=BYTES_MAX,
    ),
    serves(
        DescribeDelegationTokenRequest,
        DescribeDelegationTokenResponse,
        (1, 3),
        alone(_describe),
        elements_max=ELEMENTS_MAX,
        bytes_max=BYTES_MAX,
    ),
)
