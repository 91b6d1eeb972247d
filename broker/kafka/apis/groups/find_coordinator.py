"""FindCoordinator 0 to 6 (key 10): the broker of a group or of a transactional id, as clients of the listener reach it.

From version 1 on a key may be a transactional id, from version 4 on a request may have many keys, each with its own
answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from broker.kafka.api_row import over, serves
from broker.kafka.errors import code_of, message_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.groups.coordinators import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from penstock.errors import ApiError, CoordinatorNotAvailableError, InvalidRequestError
from penstock.messages.client_apis import NAMES_MAX
from penstock.messages.groups import coordinators as messages
from penstock.messages.groups.group_apis import FIND_COORDINATOR

KINDS: Final[Mapping[int, messages.CoordinatorType]] = {
    0: messages.CoordinatorType.GROUP,
    1: messages.CoordinatorType.TRANSACTION,
}
"""The kind of coordinator, by the key type of the protocol."""
FIRST_WITH_MANY: Final = 4
_NOBODY: Final = -1


def find_coordinator(parts: PlanParts, asked: Asked, body: FindCoordinatorRequest) -> Plan:
    keys, kind = _keys(asked, body), KINDS.get(body.key_type)
    if kind is None:
        raise InvalidRequestError(f"key type {body.key_type} is neither 0 (a group) nor 1 (a transactional id)")
    found: list[Coordinator] = []
    for at in range(0, len(keys), NAMES_MAX):
        some = tuple(keys[at : at + NAMES_MAX])
        request = messages.FindCoordinatorRequest(some, kind)
        response: messages.FindCoordinatorResponse = yield Ask(FIND_COORDINATOR.name, request)
        found += [_coordinator(parts, asked, one) for one in response.coordinators]
    return _answer(asked, found)


def find_coordinator_failed(asked: Asked, body: FindCoordinatorRequest, error: ApiError) -> FindCoordinatorResponse:
    """The answer to a request that failed as a whole."""
    code, why = code_of(error, FIND_COORDINATOR.name, asked.version), message_of(error)
    return _answer(asked, [_without_node(key, code, why) for key in _keys(asked, body)])


def _keys(asked: Asked, body: FindCoordinatorRequest) -> list[str]:
    return body.coordinator_keys if asked.version >= FIRST_WITH_MANY else [body.key]


def _coordinator(parts: PlanParts, asked: Asked, found: messages.FoundCoordinator) -> Coordinator:
    """The coordinator, with the address at the client's own listener. A broker without that listener cannot be its
    coordinator."""
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


SERVED: Final = (
    serves(
        FindCoordinatorRequest, FindCoordinatorResponse, (0, 6), over(find_coordinator), failed=find_coordinator_failed
    ),
)
