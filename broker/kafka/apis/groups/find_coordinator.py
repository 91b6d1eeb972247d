"""FindCoordinator 0 to 6 (key 10): the broker of a group, as the clients of the listener reach it.

From version 4 on a request may have many keys, each with its own answer. There are no transactions yet, and clients
try again for ever after COORDINATOR_NOT_AVAILABLE while their user waits. So a transactional id gets an error that
they report at once, with a text that says why: UNSUPPORTED_VERSION from version 4 on, where clients show the text (Java
since 3.0); below, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, because librdkafka takes no other code for final.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.kafka.errors import Code, code_of, message_of
from broker.kafka.parts import DoorParts
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.groups.coordinators import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from penstock.errors import ApiError, CoordinatorNotAvailableError, InvalidRequestError, UnsupportedVersionError
from penstock.messages.client_apis import NAMES_MAX
from penstock.messages.group_apis import FIND_COORDINATOR
from penstock.messages.groups import coordinators as messages

GROUP, TRANSACTION = 0, 1
FIRST_WITH_MANY: Final = 4
NO_TRANSACTIONS: Final = "transactions are not supported yet: use an idempotent producer without a transactional id"
_NOBODY: Final = -1


def find_coordinator(parts: DoorParts, asked: Asked, body: FindCoordinatorRequest) -> Plan:
    keys = _keys(asked, body)
    if body.key_type != GROUP:
        code, why = _refusal(asked.version, body.key_type)
        return _answer(asked, [_without_node(key, code, why) for key in keys])
    found: list[Coordinator] = []
    for at in range(0, len(keys), NAMES_MAX):
        some = tuple(keys[at : at + NAMES_MAX])
        told: messages.FindCoordinatorResponse = yield Ask(FIND_COORDINATOR.name, messages.FindCoordinatorRequest(some))
        found += [_coordinator(parts, asked, one) for one in told.coordinators]
    return _answer(asked, found)


def find_coordinator_failed(asked: Asked, body: FindCoordinatorRequest, error: ApiError) -> FindCoordinatorResponse:
    """The answer to a request that failed as a whole."""
    code, why = code_of(error, FIND_COORDINATOR.name, asked.version), message_of(error)
    return _answer(asked, [_without_node(key, code, why) for key in _keys(asked, body)])


def _keys(asked: Asked, body: FindCoordinatorRequest) -> list[str]:
    return body.coordinator_keys if asked.version >= FIRST_WITH_MANY else [body.key]


def _coordinator(parts: DoorParts, asked: Asked, found: messages.FoundCoordinator) -> Coordinator:
    """With the address at the client's own listener. A broker without that listener cannot be its coordinator."""
    error = found.error
    broker = None if error is not None else parts.image().find_broker(found.node_id)
    endpoint = None if broker is None else broker.endpoint_at(asked.caller.listener)
    if endpoint is None:
        error = error or CoordinatorNotAvailableError(
            f"broker {found.node_id} coordinates it, and has no listener {asked.caller.listener}"
        )
        return _without_node(found.key, code_of(error, FIND_COORDINATOR.name, asked.version), message_of(error))
    return Coordinator(key=found.key, node_id=found.node_id, host=endpoint.host, port=endpoint.port)


def _without_node(key: str, code: int, why: str | None) -> Coordinator:
    return Coordinator(key=key, node_id=_NOBODY, port=_NOBODY, error_code=code, error_message=why)


def _answer(asked: Asked, coordinators: Iterable[Coordinator]) -> FindCoordinatorResponse:
    if asked.version >= FIRST_WITH_MANY:
        return FindCoordinatorResponse(coordinators=list(coordinators))
    (one,) = coordinators
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=one.error_message, node_id=one.node_id, host=one.host, port=one.port
    )


def _refusal(version: int, key_type: int) -> tuple[int, str]:
    if key_type == TRANSACTION:
        shows_text = version >= FIRST_WITH_MANY
        code = UnsupportedVersionError.code if shows_text else Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return code, NO_TRANSACTIONS
    return (
        InvalidRequestError.code,
        f"key type {key_type} is neither {GROUP} (a group) nor {TRANSACTION} (a transaction)",
    )
