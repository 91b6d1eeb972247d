"""Promises of the throttle of moves: the rate holds over time, whatever the sizes, and no limit costs nothing."""

from __future__ import annotations

from random import Random

import pytest

from broker.replication.move_throttle import BURST_MS, CHUNK_BYTES, HOLD_MS_MAX, NO_LIMIT, MoveThrottle


def test_without_a_limit_everything_may_go_and_is_counted() -> None:
    throttle = MoveThrottle()
    assert throttle.room(0) == NO_LIMIT
    throttle.spend(10**12, 0)
    assert (throttle.room(0), throttle.bytes_total, throttle.holds) == (NO_LIMIT, 10**12, 0)


@pytest.mark.parametrize("rate", [1_000, CHUNK_BYTES, 3_000_000, 10**10])
@pytest.mark.parametrize("seed", range(3))
def test_the_rate_holds_over_time(rate: int, seed: int) -> None:
    """Also where every copy is larger than the room: whole batches are."""
    random, throttle, now_ms = Random(seed), MoveThrottle(rate), 0
    largest = max(2 * CHUNK_BYTES, rate // 2)
    end_ms = 100 * max(BURST_MS, 1000 * largest // rate)
    while now_ms < end_ms:
        if throttle.room(now_ms):
            throttle.spend(random.randint(1, largest), now_ms)
        else:
            now_ms += max(throttle.hold_ms(now_ms), largest * 20 // rate)
    assert throttle.bytes_total == pytest.approx(rate * now_ms / 1000, rel=0.05)


def test_what_is_saved_up_is_bounded() -> None:
    throttle = MoveThrottle(1_000_000)
    throttle.room(0)
    assert throttle.room(3_600_000) == 1_000_000 * BURST_MS // 1000


def test_a_new_rate_holds_at_once_and_forgives_nothing() -> None:
    throttle = MoveThrottle(1_000_000)
    throttle.room(0)
    throttle.spend(2_000_000, 0)
    throttle.set_rate(4_000_000)
    assert not throttle.room(499)
    assert throttle.room(600)
    throttle.set_rate(NO_LIMIT)
    assert throttle.room(600) == NO_LIMIT
    throttle.set_rate(1_000_000)
    assert not throttle.room(600), "what an unlimited time saved up is no burst"


def test_a_copy_that_is_held_looks_again_soon() -> None:
    throttle = MoveThrottle(1)
    throttle.room(0)
    throttle.spend(10**9, 0)
    assert throttle.hold_ms(0) == HOLD_MS_MAX
    fast = MoveThrottle(CHUNK_BYTES * 1000)
    fast.room(0)
    assert fast.hold_ms(0) == 2 and fast.room(2)


def test_a_clock_that_goes_back_gives_nothing() -> None:
    throttle = MoveThrottle(4 * CHUNK_BYTES)
    throttle.room(5_000)
    throttle.room(1_000)
    assert throttle.room(1_225) == 0 and throttle.room(1_250) == CHUNK_BYTES
