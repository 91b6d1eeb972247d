"""Promises about clocks that jump: nothing ages by it, and a suspended machine is no jump."""

from __future__ import annotations

import pytest

from broker.jobs.wall_clock import JUMP_MS_MAX, WallClockGuard
from penstock.clock import ManualClock
from penstock.messages.nodes.brokers import CalendarVerdict as Verdict

HOUR_MS = 3_600_000
TO_1970_MS = -1_700_000_000_000
TO_2106_MS = 2_594_000_000_000


def believed(guard: WallClockGuard, clock: ManualClock) -> bool:
    return guard.believed_wall_ms() == clock.wall_ms()


def started() -> tuple[WallClockGuard, ManualClock]:
    clock = ManualClock(now_ms=5_000)
    return WallClockGuard(clock), clock


@pytest.mark.parametrize("jump_ms", [TO_1970_MS, TO_2106_MS, -JUMP_MS_MAX - 1, JUMP_MS_MAX + 1])
def test_after_a_jump_the_clock_is_not_believed_until_it_is_back(jump_ms: int) -> None:
    guard, clock = started()
    clock.advance(HOUR_MS)
    assert believed(guard, clock)
    clock.jump_wall(jump_ms)
    for _ in range(3):
        clock.advance(5 * HOUR_MS)
        assert guard.believed_wall_ms() is None
    assert (guard.jumps, guard.is_believed) == (1, False)
    clock.jump_wall(-jump_ms + 1000)
    assert believed(guard, clock) and guard.is_believed


def test_a_suspended_machine_is_no_jump() -> None:
    guard, clock = started()
    clock.suspend(100 * HOUR_MS)
    assert believed(guard, clock)


def test_a_correction_within_an_hour_is_followed() -> None:
    guard, clock = started()
    for _ in range(5):
        clock.advance(1000)
        clock.jump_wall(JUMP_MS_MAX - 1)
        assert believed(guard, clock)
    assert guard.jumps == 0


def test_a_node_that_starts_believes_the_clock_that_it_finds() -> None:
    guard, clock = started()
    clock.jump_wall(TO_2106_MS)
    assert guard.believed_wall_ms() is None
    assert believed(WallClockGuard(clock), clock)


def compared() -> tuple[WallClockGuard, ManualClock]:
    clock = ManualClock(now_ms=5_000)
    return WallClockGuard(clock, is_compared=True), clock


@pytest.mark.parametrize("verdict", [Verdict.AGREES, Verdict.ALONE, Verdict.UNSPECIFIED])
def test_nothing_is_believed_before_the_first_verdict(verdict: Verdict) -> None:
    guard, clock = compared()
    assert guard.believed_wall_ms() is None and not guard.fault
    guard.judged(Verdict.UNSETTLED, 0)
    assert guard.believed_wall_ms() is None
    guard.judged(verdict, 0)
    assert believed(guard, clock)


@pytest.mark.parametrize(("off_ms", "said"), [(TO_2106_MS, "s ahead of"), (TO_1970_MS, "s behind")])
def test_a_calendar_apart_from_those_of_most_brokers_is_not_believed_until_it_agrees(off_ms: int, said: str) -> None:
    guard, clock = compared()
    clock.jump_wall(off_ms)
    guard = WallClockGuard(clock, is_compared=True)
    guard.judged(Verdict.APART, off_ms)
    assert guard.believed_wall_ms() is None and said in guard.fault and not guard.is_believed
    guard.judged(Verdict.UNSETTLED, off_ms)
    assert guard.believed_wall_ms() is None
    clock.jump_wall(-off_ms)
    assert guard.believed_wall_ms() is None
    guard.judged(Verdict.AGREES, 0)
    assert believed(guard, clock) and guard.is_believed and not guard.fault


def test_a_clock_that_has_jumped_is_right_once_other_brokers_agree_and_only_then() -> None:
    guard, clock = compared()
    guard.judged(Verdict.AGREES, 0)
    assert believed(guard, clock)
    clock.jump_wall(TO_2106_MS)
    assert guard.believed_wall_ms() is None
    for verdict in (Verdict.ALONE, Verdict.UNSETTLED):
        guard.judged(verdict, 0)
        assert guard.believed_wall_ms() is None and guard.fault
    guard.judged(Verdict.AGREES, 0)
    assert believed(guard, clock) and guard.jumps == 1
