"""Every message in every version returns as it was written, and bytes that are no message end in a typed error.

What a request can make of the node's memory is bounded by the elements that it may have, whatever its bytes say.
"""

from __future__ import annotations

import tracemalloc
from random import Random
from typing import Any

import pytest

from broker.kafka_codec.codec import decode, encode
from broker.kafka_codec.structs import facts_of
from penstock.errors import InvalidRequestError
from tests.support.kafka_messages import ALL_MESSAGES, PAIRS, drawn, versions_of

DRAWN = 3
"""Messages of each version."""
DAMAGED = 12
CUT_MAX = 400
"""Bytes of a message that are cut one by one; a longer one has its first so many."""
ELEMENTS = 300
BYTES_OF_AN_ELEMENT_MAX = 500
"""Memory; the empty element with most has four slices of the frame."""
by_message = pytest.mark.parametrize("cls", ALL_MESSAGES, ids=lambda cls: cls.__name__)


def written(cls: type, version: int, seed: object) -> tuple[Any, bytes]:
    message = drawn(cls, version, Random(f"{cls.__name__} {version} {seed}"))
    return message, b"".join(bytes(part) for part in encode(message, version))


def read_or_refused(cls: type, version: int, body: bytes) -> Any:
    """The message, or None; every other error than the typed one fails the test."""
    try:
        return decode(cls, version, memoryview(body))[0]
    except InvalidRequestError as refused:
        assert refused.message
        return None


def test_every_version_of_every_message_is_tried() -> None:
    assert len(ALL_MESSAGES) == 148
    assert len(PAIRS) == 552


@by_message
def test_a_message_returns_as_it_was_written(cls: type) -> None:
    for version in versions_of(cls):
        for seed in range(DRAWN):
            message, body = written(cls, version, seed)

            assert decode(cls, version, memoryview(b"ab" + body), at=2) == (message, 2 + len(body))


@by_message
def test_a_message_that_is_cut_anywhere_is_refused(cls: type) -> None:
    for version in versions_of(cls):
        _, body = written(cls, version, "cut")
        for end in range(min(len(body), CUT_MAX)):
            with pytest.raises(InvalidRequestError):
                decode(cls, version, memoryview(body)[:end])


@by_message
def test_bytes_after_a_message_are_left_alone_as_in_kafka(cls: type) -> None:
    for version in versions_of(cls):
        message, body = written(cls, version, "long")

        assert decode(cls, version, memoryview(body + b"\xff\x00\x01")) == (message, len(body))


@by_message
def test_a_damaged_message_is_refused_or_can_be_written_again(cls: type) -> None:
    random = Random(cls.__name__)
    for version in versions_of(cls):
        _, body = written(cls, version, "damaged")
        for _ in range(DAMAGED):
            damaged = bytearray(body or b"\0")
            for _ in range(random.choice((1, 1, 2, 5))):
                damaged[random.randrange(len(damaged))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
            message = read_or_refused(cls, version, bytes(damaged))
            if message is not None:
                again = b"".join(bytes(part) for part in encode(message, version))

                assert (
                    b"".join(bytes(part) for part in encode(decode(cls, version, memoryview(again))[0], version))
                    == again
                )


@by_message
def test_random_bytes_are_refused_or_a_message(cls: type) -> None:
    random = Random(cls.__name__)
    for version in versions_of(cls):
        for _ in range(DAMAGED):
            size = random.choice((0, 3, 40, 300))
            read_or_refused(
                cls, version, bytes(random.choices((0, 0, 0, 1, 2, 3, 0xFF, random.randrange(256)), k=size))
            )


# -- memory ------------------------------------------------------------------------------------------------------------


def peak_bytes(cls: type, version: int, body: bytes) -> int:
    """The memory that reading takes at most."""
    view = memoryview(body)
    tracemalloc.start()
    try:
        decode(cls, version, view, elements_max=ELEMENTS)
    except InvalidRequestError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def smallest_elements(cls: type, version: int, count: int) -> list[bytes]:
    """A message for each array that this version has, with so many of its smallest elements."""
    found = []
    for name, field in facts_of(cls).fields:
        if field.kind == "array" and version in field.versions:
            element = field.element() if isinstance(field.element, type) else "" if field.element == "string" else 100
            message = cls(**{name: [element] * count})
            found.append(b"".join(bytes(part) for part in encode(message, version)))
    return found


@by_message
def test_the_memory_of_a_message_is_bounded_by_its_elements_and_its_bytes(cls: type) -> None:
    for version in {*facts_of(cls).versions}:  # the first and the last one
        for body in smallest_elements(cls, version, ELEMENTS):
            decode(cls, version, memoryview(body), elements_max=ELEMENTS)
            assert peak_bytes(cls, version, body) < ELEMENTS * BYTES_OF_AN_ELEMENT_MAX + 2 * len(body)
        for body in smallest_elements(cls, version, ELEMENTS + 1):
            with pytest.raises(InvalidRequestError, match="more elements"):
                decode(cls, version, memoryview(body), elements_max=ELEMENTS)
            assert peak_bytes(cls, version, body) < 10_000


@by_message
@pytest.mark.parametrize("byte", [0x00, 0x01, 0x02, 0x7F])
def test_a_long_row_of_one_byte_costs_no_more(cls: type, byte: int) -> None:
    body = bytes([byte]) * 50_000
    for version in {*facts_of(cls).versions}:
        read_or_refused(cls, version, body)  # compiles
        assert peak_bytes(cls, version, body) < ELEMENTS * BYTES_OF_AN_ELEMENT_MAX + 4 * len(body)
