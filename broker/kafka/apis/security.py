"""Access control lists (keys 29 to 31) and SCRAM credentials (key 50) of a cluster that has neither.

They are answered as Kafka does without an authorizer: SECURITY_DISABLED, and no user has credentials. Requests that
would have to change something for it to be true (AlterUserScramCredentials, delegation tokens) are not advertised, so
that their clients say that this cluster does not support them.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from broker.kafka.errors import MESSAGE_CHARS_MAX, Code
from broker.kafka.plan import Asked, Plan, asks_nothing
from broker.kafka.schemas.security import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

NO_AUTHORIZER: Final = "No Authorizer is configured"
"""Kafka's words, for which scripts may look. It has two endings for them."""


def describe_acls(asked: Asked, body: DescribeAclsRequest) -> Plan:
    why = f"{NO_AUTHORIZER} on the broker"
    return asks_nothing(DescribeAclsResponse(error_code=Code.SECURITY_DISABLED, error_message=why))


def create_acls(asked: Asked, body: CreateAclsRequest) -> Plan:
    result = AclCreationResult(error_code=Code.SECURITY_DISABLED, error_message=f"{NO_AUTHORIZER}.")
    return asks_nothing(CreateAclsResponse(results=[result] * len(body.creations)))


def delete_acls(asked: Asked, body: DeleteAclsRequest) -> Plan:
    result = DeleteAclsFilterResult(error_code=Code.SECURITY_DISABLED, error_message=f"{NO_AUTHORIZER}.")
    return asks_nothing(DeleteAclsResponse(filter_results=[result] * len(body.filters)))


def describe_user_scram_credentials(asked: Asked, body: DescribeUserScramCredentialsRequest) -> Plan:
    """No user means all who have credentials: nobody."""
    named = Counter(user.name for user in body.users or ())
    results = [_no_credentials(name, count) for name, count in named.items()]
    return asks_nothing(DescribeUserScramCredentialsResponse(results=results))


def _no_credentials(name: str, times: int) -> DescribeUserScramCredentialsResult:
    code, why = Code.RESOURCE_NOT_FOUND, "Attempt to describe a user credential that does not exist"
    if times > 1:
        code, why = (
            Code.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request",
        )
    why = f"{why}: {name[:MESSAGE_CHARS_MAX]}"
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=why)
