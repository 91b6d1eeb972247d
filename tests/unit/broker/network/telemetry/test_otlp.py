"""The metrics of a push are read as protobuf's library reads them, and hostile bytes cost little."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.network.telemetry.otlp import FIELDS_MAX, PAUSED_EVERY, Point, points
from penstock.errors import ApiError, InvalidRecordError, TelemetryTooLargeError
from tests.support.otlp import CUMULATIVE, DELTA, Number, push_of

NAMES = st.text(min_size=1, max_size=20)
VALUES = st.one_of(st.integers(-(2**50), 2**50), st.floats(allow_nan=False, allow_infinity=False))
ATTRIBUTES = st.dictionaries(
    NAMES, st.one_of(st.text(max_size=9), st.integers(-(2**63), 2**63 - 1), st.booleans()), max_size=4
)
NUMBERS = st.builds(Number, NAMES, VALUES, st.sampled_from([None, CUMULATIVE, DELTA]), st.booleans(), ATTRIBUTES)


def text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def point_of(number: Number) -> Point:
    is_sum = number.temporality is not None and number.is_monotonic
    attributes = {key: text(value) for key, value in number.attributes.items()}
    return Point(number.name, float(number.value), is_sum, number.temporality == DELTA, attributes)


def read(data: bytes) -> list[Point]:
    return [point for point in points(data) if point is not None]


@given(st.lists(NUMBERS, max_size=5))
def test_every_number_is_read_as_protobufs_library_wrote_it(numbers: list[Number]) -> None:
    assert read(push_of(*numbers)) == [point_of(one) for one in numbers]


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    try:
        read(data)
    except ApiError as error:
        assert error.code in (InvalidRecordError.code, TelemetryTooLargeError.code)


def test_a_push_that_is_cut_short_is_refused_or_has_no_other_numbers() -> None:
    whole = push_of(Number("a", 1.5), Number("b", 2, CUMULATIVE))
    refused = 0
    for end in range(1, len(whole)):
        try:
            assert read(whole[:end]) == []
        except InvalidRecordError:
            refused += 1
    assert refused == len(whole) - 1


@pytest.mark.parametrize("data", [b"\x0b", b"\x08" + b"\xff" * 11, b"\x0a\x7f", b"\x00\x00", b"\x09\x01"])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecordError, match="the metrics of the push are broken"):
        read(data)


def test_a_push_of_very_many_fields_is_refused_when_the_budget_is_used_up() -> None:
    with pytest.raises(TelemetryTooLargeError, match="more than 100000 fields"):
        read(b"\x10\x00" * (FIELDS_MAX + 1))


def test_the_reader_comes_up_for_air() -> None:
    found = list(points(push_of(*(Number(f"m{n}", n, CUMULATIVE) for n in range(PAUSED_EVERY)))))
    assert found.count(None) > 5 and len(found) - found.count(None) == PAUSED_EVERY
