"""Every clock keeps the promises of `penstock.clock.Clock`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.clock import Clock, ManualClock, SystemClock
from tests.support.virtual_time import VirtualTimeLoop


def on_a_virtual_loop() -> Clock:
    loop = VirtualTimeLoop()
    loop.close()
    return loop


@pytest.mark.parametrize("make", [SystemClock, ManualClock, on_a_virtual_loop])
class TestEveryClock:
    def test_monotonic_time_never_goes_back(self, make: Callable[[], Clock]) -> None:
        clock = make()
        read = [clock.now_ns() for _ in range(100)]
        assert read == sorted(read)

    def test_milliseconds_and_nanoseconds_are_one_time(self, make: Callable[[], Clock]) -> None:
        clock = make()
        before_ms, now_ns, after_ms = clock.now_ms(), clock.now_ns(), clock.now_ms()
        assert before_ms <= now_ns // 1_000_000 <= after_ms

    def test_the_boot_clock_never_goes_back(self, make: Callable[[], Clock]) -> None:
        clock = make()
        read = [clock.boot_ms() for _ in range(100)]
        assert read == sorted(read)

    def test_the_calendar_is_later_than_2020(self, make: Callable[[], Clock]) -> None:
        assert make().wall_ms() > 1_577_836_800_000


def test_a_manual_clock_moves_only_when_it_is_told() -> None:
    clock = ManualClock(now_ms=5)
    assert (clock.now_ms(), clock.now_ns()) == (5, 5_000_000)
    clock.advance(10)
    assert (clock.now_ms(), clock.now_ns(), clock.boot_ms()) == (15, 15_000_000, 15)
