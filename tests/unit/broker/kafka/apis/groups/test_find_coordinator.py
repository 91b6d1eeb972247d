"""Promises of FindCoordinator in Kafka's protocol: the broker of a key, as the client reaches it."""

from __future__ import annotations

from functools import partial

import pytest

from broker.kafka.apis.groups.find_coordinator import find_coordinator, find_coordinator_failed
from broker.kafka.plan import Asked
from broker.kafka.schemas.groups.coordinators import FindCoordinatorRequest
from broker.network.request_channel import Caller
from penstock.errors import CoordinatorNotAvailableError, InvalidRequestError, RequestTimedOutError
from penstock.messages.client_apis import NAMES_MAX
from penstock.messages.groups.coordinators import CoordinatorType, FindCoordinatorResponse, FoundCoordinator
from penstock.types import Endpoint
from tests.support.kafka_plans import ME, OTHER, asked, ended, first_ask, parts_of, read_by_client

NO_COORDINATOR, INVALID_REQUEST = 15, 42
find = partial(find_coordinator, parts_of())


def request(version: int, *keys: str, key_type: int = 0) -> FindCoordinatorRequest:
    if version >= 4:
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
    return FindCoordinatorRequest(key=keys[0], key_type=key_type)


@pytest.mark.parametrize("version", range(4))
def test_a_client_is_told_of_the_broker_at_its_own_listener(version: int) -> None:
    plan = find(asked(version), request(version, "g"))
    assert first_ask(plan, "FindCoordinator").keys == ("g",)
    read = read_by_client(ended(plan, FindCoordinatorResponse((FoundCoordinator("g", OTHER),))), version)
    assert (read.error_code, read.node_id, read.host, read.port) == (0, OTHER, "kafka2", 9092)


@pytest.mark.parametrize("version", range(4, 7))
def test_each_key_of_a_request_has_its_answer(version: int) -> None:
    plan = find(asked(version), request(version, "g", "h", "i"))
    assert first_ask(plan, "FindCoordinator").keys == ("g", "h", "i")
    found = (
        FoundCoordinator("g", ME),
        FoundCoordinator("h", error=CoordinatorNotAvailableError("not yet")),
        FoundCoordinator("i", 99),
    )
    read = read_by_client(ended(plan, FindCoordinatorResponse(found)), version).coordinators
    assert [(one.key, one.node_id, one.host, one.port, one.error_code) for one in read] == [
        ("g", ME, "kafka1", 9092, 0),
        ("h", -1, "", -1, NO_COORDINATOR),
        ("i", -1, "", -1, NO_COORDINATOR),
    ]
    assert read[1].error_message == "not yet"


def test_a_broker_without_the_listener_of_the_client_is_no_coordinator_for_it() -> None:
    elsewhere = Asked(6, Caller(Endpoint("10.0.0.1", 4711), "OUTSIDE"))
    plan = find(elsewhere, request(6, "g"))
    next(plan)
    (read,) = read_by_client(ended(plan, FindCoordinatorResponse((FoundCoordinator("g", ME),))), 6).coordinators
    assert (read.error_code, read.node_id) == (NO_COORDINATOR, -1)


def test_many_keys_are_asked_for_in_turns() -> None:
    keys = [f"g{n}" for n in range(NAMES_MAX + 1)]
    plan = find(asked(6), request(6, *keys))
    first = first_ask(plan, "FindCoordinator")
    second = plan.send(FindCoordinatorResponse(tuple(FoundCoordinator(key, ME) for key in first.keys)))
    assert (len(first.keys), second.body.keys) == (NAMES_MAX, (keys[-1],))
    read = ended(plan, FindCoordinatorResponse((FoundCoordinator(keys[-1], ME),)))
    assert [one.key for one in read.coordinators] == keys


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_while_there_is_no_coordinator_the_client_asks_again(version: int) -> None:
    body = request(version, "g")
    read = read_by_client(find_coordinator_failed(asked(version), body, RequestTimedOutError("slow")), version)
    found = read if version < 4 else read.coordinators[0]
    assert (found.error_code, found.node_id, found.error_message) == (
        NO_COORDINATOR,
        -1,
        "slow" if version else None,
    )


@pytest.mark.parametrize("version", range(1, 7))
def test_a_transactional_id_has_a_coordinator_too(version: int) -> None:
    plan = find(asked(version), request(version, "mine", key_type=1))
    ask = first_ask(plan, "FindCoordinator")
    assert (ask.keys, ask.key_type) == (("mine",), CoordinatorType.TRANSACTION)
    read = read_by_client(ended(plan, FindCoordinatorResponse((FoundCoordinator("mine", ME),))), version)
    found = read if version < 4 else read.coordinators[0]
    assert (found.error_code, found.node_id, found.host) == (0, ME, "kafka1")


@pytest.mark.parametrize("version", range(1, 7))
def test_a_key_of_another_kind_is_an_invalid_request(version: int) -> None:
    body = request(version, "a", key_type=2)
    with pytest.raises(InvalidRequestError, match="key type 2") as error:
        next(find(asked(version), body))
    read = read_by_client(find_coordinator_failed(asked(version), body, error.value), version)
    found = read if version < 4 else read.coordinators[0]
    assert (found.error_code, found.node_id, found.host, found.port) == (INVALID_REQUEST, -1, "", -1)
