"""A trailer may come from a newer node, or through a proxy: whatever stands in it, the caller gets a typed error."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest

from broker.grpc.errors import from_rpc_error
from penstock.client.wire.channel import api_error
from penstock.errors import ERRORS, ApiError, NetworkError, NotControllerError, UnknownServerError
from penstock.types import Endpoint, LeaderHint
from penstock.wire.error_trailer import ERROR_CODE_KEY, LEADER_KEY, error_in_trailer, trailer_of

GARBLED = ["", "abc", "42, 42", " 42", "4_2", "\u0664\u0662", "4.2", "--1", "0", "-", "1" * 5_000, b"42"]


def both_edges(*trailer: tuple[str, str | bytes]) -> tuple[ApiError, ApiError]:
    """The errors that a client and another node make of a call that ended so."""
    status, metadata = grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(*trailer)
    error = grpc.aio.AioRpcError(status, grpc.aio.Metadata(), metadata, "try later")
    return api_error(error, Endpoint("host", 1)), from_rpc_error(error, "host:1")


@pytest.mark.parametrize("code", ERRORS)
def test_every_error_comes_back_as_what_it_was(code: int) -> None:
    for found in both_edges(("grpc-encoding", "identity"), *trailer_of(ERRORS[code]())):
        assert type(found) is ERRORS[code] and str(found) == "try later"


def test_a_code_of_a_newer_node_is_an_unknown_error_that_names_it() -> None:
    for found in both_edges((ERROR_CODE_KEY, "31999")):
        assert type(found) is UnknownServerError and not found.retriable and not found.nothing_written
        assert "error code 31999" in str(found) and "try later" in str(found)


@pytest.mark.parametrize("value", GARBLED)
def test_a_code_that_is_none_leaves_what_the_status_says(value: str | bytes) -> None:
    assert error_in_trailer([(ERROR_CODE_KEY, value)], "try later") is None
    for found in both_edges((ERROR_CODE_KEY, value)):
        assert type(found) is NetworkError and found.retriable and "try later" in str(found)


def test_a_good_code_behind_a_garbled_one_counts() -> None:
    (known,) = trailer_of(ERRORS[42]())
    assert [type(found) for found in both_edges((ERROR_CODE_KEY, "x"), known)] == [ERRORS[42]] * 2
    assert error_in_trailer(None, "") is None


def test_the_leader_of_the_quorum_comes_back_with_the_error_and_in_any_order() -> None:
    trailer = trailer_of(NotControllerError("node 1 is not the active controller", leader=LeaderHint(2, 9)))
    assert dict(trailer) == {ERROR_CODE_KEY: "41", LEADER_KEY: "2 9"}
    for found in (*both_edges(*trailer), *both_edges(*reversed(trailer))):
        assert type(found) is NotControllerError and found.leader == LeaderHint(2, 9)


@pytest.mark.parametrize("hint", [None, LeaderHint(-1, 9), LeaderHint(2, 9, topic_id="A" * 22)])
def test_a_leader_that_is_not_known_or_not_of_the_quorum_is_left_out(hint: LeaderHint | None) -> None:
    assert trailer_of(NotControllerError("no", leader=hint)) == ((ERROR_CODE_KEY, "41"),)


@pytest.mark.parametrize("value", ["", "2", "2 9 1", "-1 9", "2  9", "x y", "\u0662 9", "1" * 20 + " 9", b"2 9"])
def test_a_leader_that_is_none_leaves_the_error_as_it_is(value: str | bytes) -> None:
    for found in both_edges((ERROR_CODE_KEY, "41"), (LEADER_KEY, value)):
        assert type(found) is NotControllerError and found.leader is None
