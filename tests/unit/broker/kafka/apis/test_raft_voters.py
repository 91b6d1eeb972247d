"""AddRaftVoter, RemoveRaftVoter and UnregisterController: each field comes through, and so does each error."""

from __future__ import annotations

import pytest

from broker.kafka.schemas.quorum import (
    AddRaftVoterRequest,
    Listener,
    RemoveRaftVoterRequest,
    UnregisterControllerRequest,
)
from penstock.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    ControllerIdNotRegisteredError,
    DuplicateVoterError,
    InconsistentClusterIdError,
    InvalidRequestError,
    NetworkError,
    PolicyViolationError,
    RequestTimedOutError,
    UnsupportedVersionError,
    VoterNotFoundError,
)
from penstock.messages import voters
from penstock.types import Endpoint, ListenerEndpoint
from tests.support.voters import disk_of
from tests.unit.broker.kafka.apis.admin_node import AdminNode

ADD, REMOVE, UNREGISTER = 80, 81, 94
APIS = ("AddVoter", "RemoveVoter", "UnregisterController")
LISTENER = Listener(name="CONTROLLER", host="host-4", port=9193)


def adding(**more: object) -> AddRaftVoterRequest:
    fields = {"timeout_ms": 3_000, "voter_id": 4, "voter_directory_id": disk_of(4), "listeners": [LISTENER]}
    return AddRaftVoterRequest(**{**fields, **more})


def removing(**more: object) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(**{"voter_id": 4, "voter_directory_id": disk_of(4), **more})


def answering(error: ApiError | None = None, *, is_so_already: bool = False) -> AdminNode:
    node = AdminNode()
    answer = voters.VoterChangeResponse(error, is_so_already=is_so_already)
    node.answers = dict.fromkeys(APIS, lambda body: answer)
    return node


def failing(error: ApiError) -> AdminNode:
    """The request fails as a whole, before the leader has decided."""

    def fail(body: object) -> None:
        raise error

    node = AdminNode()
    node.answers = dict.fromkeys(APIS, fail)
    return node


@pytest.mark.parametrize("version", range(2))
def test_a_voter_is_added_with_all_that_its_request_says(version: int) -> None:
    node = answering()
    answer = node.call(ADD, adding(cluster_id="c", ack_when_committed=version < 1), version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert [ask.body for ask in node.asks] == [
        voters.AddVoterRequest(
            4,
            disk_of(4),
            (ListenerEndpoint("CONTROLLER", Endpoint("host-4", 9193)),),
            cluster_id="c",
            ack_when_appended=version >= 1,
            timeout_ms=3_000,
        )
    ]


def test_a_voter_is_removed() -> None:
    node = answering()
    assert node.call(REMOVE, removing(), 0).error_code == 0
    assert [ask.body for ask in node.asks] == [voters.RemoveVoterRequest(4, disk_of(4))]


def test_a_controller_is_forgotten() -> None:
    node = answering()
    answer = node.call(UNREGISTER, UnregisterControllerRequest(controller_id=4), 0)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert [ask.body for ask in node.asks] == [voters.UnregisterControllerRequest(4)]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DuplicateVoterError("it is one"), 126),
        (VoterNotFoundError("it is none"), 127),
        (InvalidRequestError("not so"), 42),
        (UnsupportedVersionError("static"), 35),
        (InconsistentClusterIdError("another"), 104),
        (RequestTimedOutError("ask again"), 7),
        (PolicyViolationError("it runs"), 44),
        (ControllerIdNotRegisteredError("not known"), 136),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_an_error_of_the_leader_is_passed_on_as_it_is(error: ApiError, code: int, whole: bool) -> None:
    node = failing(error) if whole else answering(error)
    for key, body in (
        (ADD, adding()),
        (REMOVE, removing()),
        (UNREGISTER, UnregisterControllerRequest(controller_id=4)),
    ):
        answer = node.call(key, body, 0)
        assert (answer.error_code, answer.error_message) == (code, error.message)


def test_a_retry_of_kafkas_client_is_told_what_kafka_tells_it() -> None:
    """The forwarder reads the answers to its own repetitions; those of a client it does not know of."""
    node = answering(DuplicateVoterError("it is one"), is_so_already=True)
    assert node.call(ADD, adding(), 1).error_code == DuplicateVoterError.code


def test_errors_that_kafkas_clients_do_not_know_have_substitutes() -> None:
    assert failing(NetworkError("gone")).call(ADD, adding(), 1).error_code == RequestTimedOutError.code
    assert failing(ClusterAuthorizationFailedError("no")).call(REMOVE, removing(), 0).error_code == 31


def test_absurd_fields_come_to_the_leader_which_refuses_them_and_absurd_counts_do_not() -> None:
    node = answering(InvalidRequestError("no"))
    for body in (
        adding(timeout_ms=-(2**31), voter_id=-(2**31), voter_directory_id="", listeners=[]),
        adding(listeners=[Listener(name="", host="", port=0)] * 10),
    ):
        assert node.call(ADD, body, 1).error_code == 42
    assert len(node.asks) == 2 and node.asks[0].body.timeout_ms == 0
    assert node.call(ADD, adding(listeners=[LISTENER] * 11), 1).error_code == 42
    assert len(node.asks) == 2, "the leader was not asked"
