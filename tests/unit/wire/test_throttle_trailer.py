"""A time in a trailer is the one that was written, and nonsense there is none."""

from __future__ import annotations

import pytest

from penstock.wire.throttle_trailer import CALLS_KEY, CHANGES_KEY, Throttled, throttle_in, throttle_trailer


@pytest.mark.parametrize("throttled", [Throttled(), Throttled(1), Throttled(0, 7), Throttled(3, 2**31 - 1)])
def test_what_is_written_is_read(throttled: Throttled) -> None:
    trailer = throttle_trailer(throttled)
    assert throttle_in((("x", "y"), *trailer, ("z", b"\x00"))) == throttled
    assert len(trailer) == sum(time_ms > 0 for time_ms in throttled), "who need not wait is told nothing"


@pytest.mark.parametrize("value", ["", "-1", "1.5", "ten", " 1", "12345678901", "١", b"10"])
def test_an_entry_that_is_no_time_says_nothing(value: str | bytes) -> None:
    assert throttle_in(((CALLS_KEY, value), (CHANGES_KEY, "5"))) == Throttled(0, 5)


def test_a_time_has_31_bits_and_none_is_told_without_a_trailer() -> None:
    assert throttle_in(throttle_trailer(Throttled(2**40))) == Throttled(2**31 - 1)
    assert throttle_in(((CALLS_KEY, "9999999999"),)) == Throttled(2**31 - 1)
    assert throttle_in(None) == Throttled()
