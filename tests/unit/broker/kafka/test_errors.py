"""The map of errors is whole: each code of ours is Kafka's or has a substitute, and no substitute misleads a client."""

from __future__ import annotations

import pytest

from broker.kafka.errors import (
    EVERYWHERE,
    IN_API,
    MESSAGE_CHARS_MAX,
    Code,
    code_of,
    leader_of,
    message_of,
)
from penstock import errors
from penstock.errors import ERRORS, ApiError
from penstock.messages.apis import APIS
from penstock.types import Endpoint, LeaderHint, ListenerEndpoint

LAST_CODE = 136
RETRIABLE = {
    *(2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 89),
    *(100, 103, 106, 122, 123, 133),
}
"""Kafka's error codes, as of Kafka 4.4 (Kafka protocol guide, "Error codes")."""
ELECTIONS = {80, 83, 84}
"""Kafka's clients send an election again after these; ours tell the user, who decides."""
OF_FETCHES = {errors.InconsistentTopicIdError, errors.FetchSessionTopicIdError}
AT_NODES = {101}
"""Only brokers get it: ours try to register again until the other one's session is over."""


@pytest.mark.parametrize("error", ERRORS.values(), ids=lambda error: error.kafka_name)
def test_an_error_is_tried_again_by_kafkas_clients_if_it_is_by_ours(error: type[ApiError]) -> None:
    assert -1 <= error.code <= LAST_CODE or error in EVERYWHERE
    if error.code not in ELECTIONS | AT_NODES:
        assert (error.code in RETRIABLE) == error.retriable


@pytest.mark.parametrize("code", Code)
def test_a_code_without_a_class_is_none_of_ours(code: Code) -> None:
    assert code not in ERRORS, "use the class"
    assert 0 <= code <= LAST_CODE


def substitutes() -> list[tuple[str, type[ApiError], int]]:
    """Every (API, error, version) for which something else is sent."""
    found = [("", error, 0) for error in EVERYWHERE]
    found += [(api, error, first - 1) for error, row in EVERYWHERE.items() for api, first in row.known.items()]
    return found + [(api, error, row.below - 1) for api, rows in IN_API.items() for error, row in rows.items()]


@pytest.mark.parametrize(("api", "error", "version"), substitutes())
def test_a_substitute_is_tried_again_exactly_if_the_error_is(api: str, error: type[ApiError], version: int) -> None:
    code = code_of(error(), api, version)
    assert code != error.code
    assert (code in RETRIABLE) == error.retriable


@pytest.mark.parametrize(("api", "error", "version"), [one for one in substitutes() if one[0] in {"Produce", ""}])
def test_no_substitute_says_that_nothing_was_written_if_that_is_not_known(
    api: str, error: type[ApiError], version: int
) -> None:
    assert error in OF_FETCHES or error.nothing_written or not ERRORS[code_of(error(), api, version)].nothing_written


def test_every_api_of_the_tables_exists() -> None:
    assert IN_API.keys() | {api for row in EVERYWHERE.values() for api in row.known} <= APIS.keys()


def test_no_row_hides_another() -> None:
    for api, rows in IN_API.items():
        assert not [error for error in rows if api in EVERYWHERE.get(error, EVERYWHERE[errors.NetworkError]).known]


@pytest.mark.parametrize(
    ("error", "api", "version", "code"),
    [
        (None, "Produce", 3, 0),
        (errors.UnknownTopicIdError(), "Produce", 12, 3),
        (errors.UnknownTopicIdError(), "Produce", 13, 100),
        (errors.UnknownTopicIdError(), "DeleteRecords", 2, 3),
        (errors.InconsistentTopicIdError(), "Fetch", 13, 103),
        (errors.KafkaStorageError(), "Produce", 3, 7),
        (errors.KafkaStorageError(), "Produce", 4, 56),
        (errors.KafkaStorageError(), "Fetch", 5, 6),
        (errors.OffsetNotAvailableError(), "ListOffsets", 4, 5),
        (errors.ResourceExhaustedError(), "Produce", 13, 7),
        (errors.ResourceExhaustedError(), "CreateTopics", 5, 7),
        (errors.ResourceExhaustedError(), "CreateTopics", 6, 89),
        (errors.ResourceExhaustedError(), "Fetch", 18, 6),
        (errors.ResourceExhaustedError(), "InitProducerId", 5, 14),
        (errors.NetworkError(), "", 0, 7),
        (errors.MessageTooLargeError(), "Produce", 13, 10),
    ],
)
def test_a_client_gets_the_code_that_its_version_knows(
    error: ApiError | None, api: str, version: int, code: int
) -> None:
    assert code_of(error, api, version) == code


def test_the_text_fits_into_a_string_of_the_protocol() -> None:
    assert message_of(None) is None
    assert message_of(errors.InvalidRequestError("no such thing")) == "no such thing"
    longest = message_of(errors.InvalidRequestError("\U0001f600" * 100_000))
    assert longest is not None and len(longest) == MESSAGE_CHARS_MAX and len(longest.encode()) < 2**15


def test_the_leader_is_told_as_the_clients_of_the_listener_reach_it() -> None:
    hint = LeaderHint(2, 7, Endpoint("a", 1), "id", (ListenerEndpoint("KAFKA", Endpoint("b", 9092)),))
    leader = leader_of(errors.NotLeaderOrFollowerError(leader=hint), "KAFKA")
    assert leader is not None and (leader.leader_id, leader.leader_epoch, leader.endpoint) == (
        2,
        7,
        Endpoint("b", 9092),
    )
    elsewhere = leader_of(errors.FencedLeaderEpochError(leader=hint), "OUTSIDE")
    assert elsewhere is not None and elsewhere.endpoint is None


@pytest.mark.parametrize(
    "error",
    [
        None,
        errors.NotLeaderOrFollowerError(),
        errors.NotControllerError(leader=LeaderHint(1, 1, Endpoint("a", 1))),
        errors.NotEnoughReplicasAfterAppendError(leader=LeaderHint(1, 1, Endpoint("a", 1))),
    ],
)
def test_no_other_error_tells_a_leader(error: ApiError | None) -> None:
    assert leader_of(error, "KAFKA") is None
