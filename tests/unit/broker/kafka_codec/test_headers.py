"""The headers in front of requests and responses."""

from __future__ import annotations

import pytest

from broker.kafka_codec.headers import (
    HeaderStart,
    read_header_rest,
    read_header_start,
    read_response_header,
    request_header,
    response_header,
)
from penstock.errors import InvalidRequestError

START = HeaderStart(api_key=3, api_version=9, correlation_id=258)


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "ä" * 90])
@pytest.mark.parametrize("flexible", [False, True])
def test_a_request_header_returns_as_it_was_written(client_id: str | None, flexible: bool) -> None:
    header = request_header(START, client_id, flexible)

    assert read_header_start(memoryview(header + b"body")) == START
    assert read_header_rest(memoryview(header + b"body"), flexible) == (client_id, len(header))


def test_a_request_header_has_the_bytes_of_kafkas_clients() -> None:
    assert request_header(START, "ab", flexible=False) == bytes.fromhex("0003 0009 00000102 0002 6162")
    assert request_header(START, "ab", flexible=True) == bytes.fromhex("0003 0009 00000102 0002 6162 00")


def test_tagged_fields_of_a_request_header_are_skipped() -> None:
    header = bytes.fromhex("0003 0009 00000102 ffff 02 00 01 aa 05 00")

    assert read_header_rest(memoryview(header + b"body"), flexible=True) == (None, len(header))


@pytest.mark.parametrize(
    ("rest", "sentence"),
    [
        ("", "ends inside"),
        ("00", "ends inside"),
        ("fffe", "the client id has the length -2"),
        ("0003 6162", "the client id has the length 3, and 2 bytes are left"),
        ("0002 c328 00", "the client id is not UTF-8"),
        ("ffff", "ends inside"),
        ("ffff 01 00 05 aa", "the tagged field 0 has 5 bytes"),
    ],
)
def test_a_header_that_is_none_is_refused(rest: str, sentence: str) -> None:
    with pytest.raises(InvalidRequestError, match=sentence):
        read_header_rest(memoryview(bytes.fromhex("0003 0009 00000102" + rest)), flexible=True)


def test_a_request_shorter_than_its_header_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="7 bytes: too few"):
        read_header_start(memoryview(bytes(7)))


@pytest.mark.parametrize(("api_key", "flexible", "size"), [(3, False, 4), (3, True, 5), (18, True, 4)])
def test_a_response_header_returns_as_it_was_written(api_key: int, flexible: bool, size: int) -> None:
    header = response_header(api_key, 9, flexible)

    assert read_response_header(memoryview(header + b"body"), api_key, flexible) == (9, size)
    with pytest.raises(InvalidRequestError, match="ends inside"):
        read_response_header(memoryview(header)[:-1], api_key, flexible)
