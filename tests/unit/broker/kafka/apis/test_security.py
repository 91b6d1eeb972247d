"""Promises of the APIs of security: they answer as a Kafka without an authorizer does."""

from __future__ import annotations

from typing import Any

import pytest

from broker.kafka.apis import security
from broker.kafka.schemas.security import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.support.kafka_plans import asked, read_by_client

SECURITY_DISABLED, RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE = 54, 91, 92


def answered(make: Any, version: int, body: Any) -> Any:
    with pytest.raises(StopIteration) as end:
        next(make(asked(version), body))
    return read_by_client(end.value.value, version)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_lists_of_who_may_do_what_are_off(version: int) -> None:
    listed = answered(security.describe_acls, version, DescribeAclsRequest())
    assert (listed.error_code, listed.error_message, listed.resources) == (
        SECURITY_DISABLED,
        "No Authorizer is configured on the broker",
        [],
    )
    made = answered(security.create_acls, version, CreateAclsRequest(creations=[AclCreation(), AclCreation()]))
    assert [(one.error_code, one.error_message) for one in made.results] == [
        (SECURITY_DISABLED, "No Authorizer is configured.")
    ] * 2
    gone = answered(security.delete_acls, version, DeleteAclsRequest(filters=[DeleteAclsFilter()]))
    assert [(one.error_code, one.matching_acls) for one in gone.filter_results] == [(SECURITY_DISABLED, [])]


def credentials(*names: str) -> list[tuple[str, int]]:
    body = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names])
    read = answered(security.describe_user_scram_credentials, 0, body)
    assert read.error_code == 0 and all(one.error_message and not one.credential_infos for one in read.results)
    return [(one.user, one.error_code) for one in read.results]


def test_nobody_has_credentials() -> None:
    assert (
        answered(security.describe_user_scram_credentials, 0, DescribeUserScramCredentialsRequest(users=None)).results
        == []
    )
    assert credentials() == []
    assert credentials("ada", "bob", "ada") == [("ada", DUPLICATE_RESOURCE), ("bob", RESOURCE_NOT_FOUND)]
    longest = "x" * 32_767
    assert credentials(longest) == [(longest, RESOURCE_NOT_FOUND)]
