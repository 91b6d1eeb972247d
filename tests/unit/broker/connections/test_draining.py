"""A client that does not read its answers at a pace is known, whatever it reads now and then."""

from __future__ import annotations

from broker.connections.draining import ANSWER_MS_MAX, BYTES_PER_MS_MIN, Draining

SIZE = 6_000_000
PACE = SIZE // ANSWER_MS_MAX
LOOK_MS = 1_000


def since_after(steps: list[int], size: int = SIZE) -> int | None:
    """The word of the last look, where so many bytes have left between two."""
    draining, left, now_ms = Draining(), 0, 5
    found = draining.look(left, size, size, now_ms)
    for step in steps:
        left, now_ms = left + step, now_ms + LOOK_MS
        found = draining.look(left, size - left, size, now_ms)
    return found


def test_a_client_that_reads_nothing_stands_since_the_first_look() -> None:
    assert since_after([0] * 40) == 5


def test_a_client_that_reads_a_byte_now_and_then_stands_like_one_that_reads_none() -> None:
    assert since_after([1] * 40) == 5
    assert since_after([PACE * LOOK_MS - 1] * 40) == 5


def test_a_client_that_reads_at_the_pace_by_which_the_answer_is_gone_in_time_does_not_stand() -> None:
    assert since_after([PACE * LOOK_MS] * 40) == 5 + 40 * LOOK_MS
    small = BYTES_PER_MS_MIN * LOOK_MS
    assert since_after([small] * 40, size=50_000) == 5 + 40 * LOOK_MS


def test_a_client_that_had_a_pause_and_catches_up_does_not_stand() -> None:
    assert since_after([0] * 10) == 5
    assert since_after([0] * 10 + [11 * PACE * LOOK_MS]) == 5 + 11 * LOOK_MS


def test_reading_fast_is_not_saved_up() -> None:
    assert since_after([20 * PACE * LOOK_MS] + [0] * 10) == 5 + LOOK_MS


def test_an_answer_that_has_left_begins_anew() -> None:
    draining = Draining()
    assert draining.look(0, 10, 10, 0) == 0
    assert draining.look(10, 0, 10, 50_000) is None
    assert draining.look(10, 10, 10, 60_000) == 60_000
