"""Promises of the APIs of delegation tokens: clients are told of them, and each request is refused in Kafka's words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from broker.kafka.schemas import delegation_tokens as schemas
from tests.support.kafka_plans import KAFKA_CALLER, asked, parts_of, read_by_client
from tests.support.kafka_rows import AUTHENTICATION, rows_over

ROWS = {row.key: row for row in rows_over(parts_of(), *AUTHENTICATION)}
REQUESTS: dict[int, Any] = {
    38: schemas.CreateDelegationTokenRequest(
        renewers=[schemas.CreatableRenewers(principal_type="User", principal_name="ben")], max_lifetime_ms=1
    ),
    39: schemas.RenewDelegationTokenRequest(hmac=b"h", renew_period_ms=1),
    40: schemas.ExpireDelegationTokenRequest(hmac=b"h", expiry_time_period_ms=-1),
    41: schemas.DescribeDelegationTokenRequest(owners=None),
}
VERSIONS = [(key, version) for key, last in {38: 3, 39: 2, 40: 2, 41: 3}.items() for version in range(1, last + 1)]


def answered(key: int, version: int, principal: str) -> Any:
    circumstances = replace(asked(version), caller=KAFKA_CALLER._replace(principal=principal))
    with pytest.raises(StopIteration) as end:
        next(ROWS[key].plan(circumstances, read_by_client(REQUESTS[key], version)))
    return read_by_client(end.value.value, version)


@pytest.mark.parametrize(("key", "version"), VERSIONS)
@pytest.mark.parametrize(("principal", "code"), [("User:ANONYMOUS", 64), ("User:anna", 61)])
def test_every_request_is_refused(key: int, version: int, principal: str, code: int) -> None:
    assert ROWS[key].serves(version)
    assert answered(key, version, principal).error_code == code


def test_the_versions_are_kafkas() -> None:
    assert {key: ROWS[key].versions for key in REQUESTS} == {38: (1, 3), 39: (1, 2), 40: (1, 2), 41: (1, 3)}


def test_no_token_is_told() -> None:
    made = answered(38, 3, "User:anna")
    assert (made.token_id, bytes(made.hmac), made.expiry_timestamp_ms) == ("", b"", -1)
    assert (made.principal_type, made.principal_name, made.token_requester_principal_name) == ("User", "anna", "anna")
    assert answered(41, 3, "User:anna").tokens == []
