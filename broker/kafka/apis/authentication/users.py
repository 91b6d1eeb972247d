"""DescribeUserScramCredentials (key 50) and AlterUserScramCredentials (key 51; KIP-554).

Kafka's clients send a password salted, and the keys that are kept are made of it here: the controller never sees it.
"""

from __future__ import annotations

from typing import Final

from broker.kafka.api_row import alone, serves
from broker.kafka.errors import code_of, message_of
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.security import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from penstock.errors import ApiError
from penstock.messages.security import users as messages
from penstock.messages.security.user_apis import ALTER_USER_SCRAM_CREDENTIALS, DESCRIBE_USER_SCRAM_CREDENTIALS
from penstock.sasl.credentials import ScramCredential, ScramMechanism

TIMEOUT_MS: Final = 30_000
"""Kafka's request has none."""
_LIMITS: Final = ALTER_USER_SCRAM_CREDENTIALS.limits.elements


def describe_user_scram_credentials(asked: Asked, body: DescribeUserScramCredentialsRequest) -> Plan:
    """No user means all who have credentials."""
    results: list[DescribeUserScramCredentialsResult] = []
    names, after, has_more = tuple(user.name for user in body.users or ()), "", True
    while has_more:
        request = messages.DescribeUserScramCredentialsRequest(names, after)
        answer = yield Ask(DESCRIBE_USER_SCRAM_CREDENTIALS.name, request)
        results += map(_described, answer.users)
        has_more = answer.has_more
        after = answer.users[-1].user if has_more else ""
    return DescribeUserScramCredentialsResponse(results=results)


def _described(user: messages.DescribedUser) -> DescribeUserScramCredentialsResult:
    infos = [CredentialInfo(mechanism=one.mechanism, iterations=one.iterations) for one in user.credentials]
    return DescribeUserScramCredentialsResult(
        user=user.user, error_code=code_of(user.error), error_message=message_of(user.error), credential_infos=infos
    )


def alter_user_scram_credentials(asked: Asked, body: AlterUserScramCredentialsRequest) -> Plan:
    """The controller judges all that is asked for; a credential that cannot be made is sent without keys."""
    if not body.deletions and not body.upsertions:
        return AlterUserScramCredentialsResponse()
    request = messages.AlterUserScramCredentialsRequest(
        tuple(messages.ScramDeletion(one.name, one.mechanism) for one in body.deletions),
        tuple(_upsertion(one) for one in body.upsertions),
        TIMEOUT_MS,
    )
    answer = yield Ask(ALTER_USER_SCRAM_CREDENTIALS.name, request)
    return AlterUserScramCredentialsResponse(results=[_altered(one.user, one.error) for one in answer.users])


def _upsertion(asked: ScramCredentialUpsertion) -> messages.ScramUpsertion:
    salt, salted = bytes(asked.salt), bytes(asked.salted_password)
    known = {one.value: one for one in ScramMechanism}
    mechanism = known.get(asked.mechanism)
    if mechanism is None or len(salted) != mechanism.key_bytes:
        return messages.ScramUpsertion(asked.name, asked.mechanism, asked.iterations, salt, b"", b"")
    return messages.ScramUpsertion.of(asked.name, ScramCredential.of_salted(mechanism, salted, salt, asked.iterations))


def _altered(user: str, error: ApiError | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=user, error_code=code_of(error), error_message=message_of(error))


def _alteration_failed(
    asked: Asked, body: AlterUserScramCredentialsRequest, error: ApiError
) -> AlterUserScramCredentialsResponse:
    names = [one.name for one in body.deletions] + [one.name for one in body.upsertions]
    return AlterUserScramCredentialsResponse(results=[_altered(user, error) for user in dict.fromkeys(names)])


SERVED: Final = (
    serves(
        DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse,
        (0, 0),
        alone(describe_user_scram_credentials),
        elements_max=DESCRIBE_USER_SCRAM_CREDENTIALS.limits.elements["users"],
    ),
    serves(
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
        (0, 0),
        alone(alter_user_scram_credentials),
        failed=_alteration_failed,
        elements_max=min(_LIMITS.values()),
    ),
)
