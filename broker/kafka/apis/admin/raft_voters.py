"""AddRaftVoter 0 to 1 and RemoveRaftVoter 0 (KIP-853): another controller votes in the quorum, or one does no more.
UnregisterController 0: one that is gone is forgotten.

A broker forwards each to the quorum's leader, which waits for what a moment may bring, as Kafka's does. RemoveRaftVoter
has no time of its own, so it has the one that a request has here without one. UpdateRaftVoter (82) is between nodes,
which speak gRPC with each other. A static quorum is made dynamic by `kraft.version` 1 (features.py).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from broker.kafka.api_row import alone, serves
from broker.kafka.errors import code_of, message_of
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from penstock.errors import ApiError, InvalidRequestError
from penstock.messages import voters
from penstock.messages.voter_apis import ADD_VOTER, ENDPOINTS_MAX, REMOVE_VOTER, UNREGISTER_CONTROLLER
from penstock.types import Endpoint, ListenerEndpoint

ELEMENTS_MAX: Final = 100


def add_raft_voter(asked: Asked, body: AddRaftVoterRequest) -> Plan:
    if len(body.listeners) > ENDPOINTS_MAX:
        raise InvalidRequestError(
            f"the voter has {len(body.listeners)} listeners; at most {ENDPOINTS_MAX} are possible"
        )
    request = voters.AddVoterRequest(
        body.voter_id,
        body.voter_directory_id,
        tuple(ListenerEndpoint(at.name, Endpoint(at.host, at.port)) for at in body.listeners),
        cluster_id=body.cluster_id or "",
        ack_when_appended=not body.ack_when_committed,
        timeout_ms=max(body.timeout_ms, 0),
    )
    answer: voters.VoterChangeResponse = yield Ask(ADD_VOTER.name, request)
    return add_failed(asked, body, answer.error)


def remove_raft_voter(asked: Asked, body: RemoveRaftVoterRequest) -> Plan:
    request = voters.RemoveVoterRequest(body.voter_id, body.voter_directory_id, cluster_id=body.cluster_id or "")
    answer: voters.VoterChangeResponse = yield Ask(REMOVE_VOTER.name, request)
    return remove_failed(asked, body, answer.error)


def unregister_controller(asked: Asked, body: UnregisterControllerRequest) -> Plan:
    answer: voters.VoterChangeResponse = yield Ask(
        UNREGISTER_CONTROLLER.name, voters.UnregisterControllerRequest(body.controller_id)
    )
    return unregister_failed(asked, body, answer.error)


def _failed(response: Any, api: str, asked: Asked, body: Any, error: ApiError | None) -> Any:
    return response(error_code=code_of(error, api, asked.version), error_message=message_of(error))


add_failed: Final = partial(_failed, AddRaftVoterResponse, ADD_VOTER.name)
remove_failed: Final = partial(_failed, RemoveRaftVoterResponse, REMOVE_VOTER.name)
unregister_failed: Final = partial(_failed, UnregisterControllerResponse, UNREGISTER_CONTROLLER.name)

SERVED: Final = (
    serves(
        AddRaftVoterRequest,
        AddRaftVoterResponse,
        (0, 1),
        alone(add_raft_voter),
        failed=add_failed,
        elements_max=ELEMENTS_MAX,
    ),
    serves(
        RemoveRaftVoterRequest,
        RemoveRaftVoterResponse,
        (0, 0),
        alone(remove_raft_voter),
        failed=remove_failed,
        elements_max=ELEMENTS_MAX,
    ),
    serves(
        UnregisterControllerRequest,
        UnregisterControllerResponse,
        (0, 0),
        alone(unregister_controller),
        failed=unregister_failed,
    ),
)
