"""FindCoordinator (key 10): the broker that coordinates a group or a transactional id. In this release there is none.

Clients try again for ever after COORDINATOR_NOT_AVAILABLE, and their user waits. So the answer is an error that they
report at once, with a text that says why:

    a group              UNSUPPORTED_VERSION: consumers of every kind raise it, or hand it to their user
    a transactional id   the same from version 4 on, where clients show the text (Java since 3.0). Below,
                         TRANSACTIONAL_ID_AUTHORIZATION_FAILED, because librdkafka takes no other code for final

A consumer that assigns its partitions itself, and keeps its positions itself, needs no coordinator.
"""

from __future__ import annotations

from typing import Final

from broker.kafka.errors import Code, code_of, message_of
from broker.kafka.plan import Asked, Plan, asks_nothing
from broker.kafka.schemas.groups.coordinators import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from penstock.errors import ApiError, InvalidRequestError, UnsupportedVersionError

GROUP, TRANSACTION = 0, 1
FIRST_WITH_MANY: Final = 4
NO_GROUPS: Final = (
    "consumer groups are not supported yet: assign the partitions and keep the positions in the application"
)
NO_TRANSACTIONS: Final = "transactions are not supported yet: use an idempotent producer without a transactional id"
_NOBODY: Final = -1


def find_coordinator(asked: Asked, body: FindCoordinatorRequest) -> Plan:
    return asks_nothing(_answer(asked, body, *_refusal(asked.version, body.key_type)))


def find_coordinator_failed(asked: Asked, body: FindCoordinatorRequest, error: ApiError) -> FindCoordinatorResponse:
    """The answer to a request that failed as a whole."""
    return _answer(asked, body, code_of(error, "FindCoordinator", asked.version), message_of(error))


def _answer(asked: Asked, body: FindCoordinatorRequest, code: int, why: str | None) -> FindCoordinatorResponse:
    if asked.version < FIRST_WITH_MANY:
        return FindCoordinatorResponse(error_code=code, error_message=why, node_id=_NOBODY, port=_NOBODY)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=_NOBODY, port=_NOBODY, error_code=code, error_message=why)
            for key in body.coordinator_keys
        ]
    )


def _refusal(version: int, key_type: int) -> tuple[int, str]:
    if key_type == GROUP:
        return UnsupportedVersionError.code, NO_GROUPS
    if key_type == TRANSACTION:
        shows_text = version >= FIRST_WITH_MANY
        code = UnsupportedVersionError.code if shows_text else Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return code, NO_TRANSACTIONS
    return (
        InvalidRequestError.code,
        f"key type {key_type} is neither {GROUP} (a group) nor {TRANSACTION} (a transaction)",
    )
