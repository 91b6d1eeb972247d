"""The throttle: a rate that holds over time, for all threads together."""

from __future__ import annotations

import threading

import pytest

from penstock.clock import ManualClock
from penstock.errors import CleaningAbortedError
from storage.cleaner.cleaner_throttle import CleanerThrottle, Pace
from storage.cleaner.cleaner_types import NO_LIMIT
from tests.support.compaction import NoWait
from tests.support.machine import THREADS


def test_every_byte_takes_its_share_of_a_second() -> None:
    clock = ManualClock(now_ms=1000)
    throttle = CleanerThrottle(100, clock.now_ms, THREADS.lock())

    assert throttle.wait_ms(50) == 500
    assert throttle.wait_ms(50) == 1000, "another thread's bytes come after those of the first"
    clock.advance(1000)
    assert throttle.wait_ms(10) == 100


def test_idle_time_is_not_saved_up() -> None:
    clock = ManualClock()
    throttle = CleanerThrottle(100, clock.now_ms, THREADS.lock())
    clock.advance(60_000)

    assert throttle.wait_ms(100) == 1000


def test_without_a_limit_nobody_waits() -> None:
    throttle = CleanerThrottle(NO_LIMIT, ManualClock().now_ms, THREADS.lock())

    assert throttle.wait_ms(1 << 40) == 0
    assert throttle.throttled_ms == 0


def test_a_stop_ends_the_wait() -> None:
    stop = NoWait()
    pace = Pace(CleanerThrottle(1000, ManualClock().now_ms, THREADS.lock()), stop)
    pace(500)
    assert stop.waits_s == [0.5]
    stop.set()
    with pytest.raises(CleaningAbortedError):
        pace(1)


def test_an_event_of_the_machine_is_a_stop_signal() -> None:
    stop = threading.Event()
    pace = Pace(CleanerThrottle(1, ManualClock().now_ms, THREADS.lock()), stop)
    stop.set()
    with pytest.raises(CleaningAbortedError):
        pace(1 << 30)


def test_another_limit_counts_at_once_and_ends_a_wait_for_the_old_one() -> None:
    throttle = CleanerThrottle(1, ManualClock().now_ms, THREADS.lock())

    class ChangedInTheWait(NoWait):
        def wait(self, timeout: float) -> bool:
            if len(self.waits_s) == 2:
                throttle.change(1_000)
            return super().wait(timeout)

    stop = ChangedInTheWait()
    Pace(throttle, stop)(1 << 30)
    assert stop.waits_s == [1.0, 1.0, 1.0], "and not for 34 years"
    assert throttle.wait_ms(500) == 500, "nothing is owed any more"
    throttle.change(1_000)
    assert throttle.wait_ms(500) == 1_000, "the same limit forgives nothing"
    throttle.change(NO_LIMIT)
    assert throttle.wait_ms(500) == 0
