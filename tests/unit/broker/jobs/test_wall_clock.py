"""Promises about clocks that jump: nothing ages by it, and a suspended machine is no jump."""

from __future__ import annotations

import pytest

from broker.jobs.wall_clock import JUMP_MS_MAX, UNCOMPARED_MS, WallClockGuard
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


def judge(guard: WallClockGuard, verdict: Verdict, off_ms: int = 0) -> None:
    """A heartbeat tells the calendar, and its answer has the verdict."""
    guard.calendar_ms()
    guard.judged(verdict, off_ms)


@pytest.mark.parametrize("verdict", [Verdict.AGREES, Verdict.ALONE, Verdict.UNSPECIFIED])
def test_nothing_is_believed_before_the_first_verdict(verdict: Verdict) -> None:
    guard, clock = compared()
    assert guard.believed_wall_ms() is None and not guard.fault
    judge(guard, Verdict.UNSETTLED, 0)
    assert guard.believed_wall_ms() is None
    judge(guard, verdict, 0)
    assert believed(guard, clock)


@pytest.mark.parametrize(("off_ms", "said"), [(TO_2106_MS, "s ahead of"), (TO_1970_MS, "s behind")])
def test_a_calendar_apart_from_those_of_most_brokers_is_not_believed_until_it_agrees(off_ms: int, said: str) -> None:
    guard, clock = compared()
    clock.jump_wall(off_ms)
    guard = WallClockGuard(clock, is_compared=True)
    judge(guard, Verdict.APART, off_ms)
    assert guard.believed_wall_ms() is None and said in guard.fault and not guard.is_believed
    judge(guard, Verdict.UNSETTLED, off_ms)
    assert guard.believed_wall_ms() is None
    clock.jump_wall(-off_ms)
    assert guard.believed_wall_ms() is None
    judge(guard, Verdict.AGREES, 0)
    assert believed(guard, clock) and guard.is_believed and not guard.fault


def test_a_clock_that_has_jumped_is_right_once_other_brokers_agree_and_only_then() -> None:
    guard, clock = compared()
    judge(guard, Verdict.AGREES, 0)
    assert believed(guard, clock)
    clock.jump_wall(TO_2106_MS)
    assert guard.believed_wall_ms() is None
    for verdict in (Verdict.ALONE, Verdict.UNSETTLED):
        judge(guard, verdict, 0)
        assert guard.believed_wall_ms() is None and guard.fault
    judge(guard, Verdict.AGREES, 0)
    assert believed(guard, clock) and guard.jumps == 1


def test_a_verdict_over_the_calendar_before_a_jump_does_not_make_the_jump_right() -> None:
    guard, clock = compared()
    judge(guard, Verdict.AGREES)
    guard.calendar_ms()
    clock.jump_wall(TO_2106_MS)
    guard.judged(Verdict.AGREES, 0)
    assert guard.believed_wall_ms() is None
    right_ms = clock.wall_ms() - TO_2106_MS
    clock.jump_wall(TO_1970_MS - TO_2106_MS)
    assert guard.stamps.wall_ms() == right_ms


def stamped_off(guard: WallClockGuard, clock: ManualClock, wrong_ms: int) -> int:
    """By so much the stamps are ahead of the right time, where the calendar is ahead by `wrong_ms`."""
    return guard.stamps.wall_ms() - (clock.wall_ms() - wrong_ms)


@pytest.mark.parametrize("behind_ms", [TO_1970_MS, -8 * 24 * HOUR_MS, -JUMP_MS_MAX - 1])
def test_a_calendar_that_falls_behind_stamps_as_it_agreed_before_also_before_the_next_verdict(behind_ms: int) -> None:
    guard, clock = compared()
    judge(guard, Verdict.AGREES)
    clock.advance(HOUR_MS)
    clock.jump_wall(behind_ms)
    assert stamped_off(guard, clock, behind_ms) == 0
    judge(guard, Verdict.APART, behind_ms)
    clock.suspend(HOUR_MS)
    clock.advance(HOUR_MS)
    for verdict in (Verdict.UNSETTLED, Verdict.APART):
        judge(guard, verdict, behind_ms)
        assert stamped_off(guard, clock, behind_ms) == 0


def test_a_calendar_that_was_behind_from_the_start_stamps_by_those_of_most_brokers_after_one_verdict() -> None:
    guard, clock = compared()
    assert guard.stamps.wall_ms() == clock.wall_ms()
    judge(guard, Verdict.APART, TO_1970_MS)
    assert stamped_off(guard, clock, TO_1970_MS) == 0
    clock.jump_wall(-TO_1970_MS + 5)  # set right
    assert guard.stamps.wall_ms() == clock.wall_ms()


def test_the_middle_of_calendars_that_are_all_apart_is_not_followed_below_what_was_agreed_before() -> None:
    guard, clock = compared()
    judge(guard, Verdict.AGREES)
    clock.jump_wall(-30 * 24 * HOUR_MS)
    judge(guard, Verdict.APART, -22 * 24 * HOUR_MS)  # the middle one is eight days behind
    assert stamped_off(guard, clock, -30 * 24 * HOUR_MS) == 0
    judge(guard, Verdict.APART, -38 * 24 * HOUR_MS)  # and now it is ahead: that loses nothing
    assert stamped_off(guard, clock, -30 * 24 * HOUR_MS) == 8 * 24 * HOUR_MS


@pytest.mark.parametrize("verdict", [Verdict.AGREES, Verdict.APART])
def test_a_calendar_that_is_ahead_stamps_by_itself(verdict: Verdict) -> None:
    guard, clock = compared()
    judge(guard, verdict, TO_2106_MS)
    clock.jump_wall(TO_2106_MS)
    assert guard.stamps.wall_ms() == clock.wall_ms()


def test_most_brokers_that_are_set_back_are_followed() -> None:
    guard, clock = compared()
    judge(guard, Verdict.AGREES)
    clock.jump_wall(TO_1970_MS)
    judge(guard, Verdict.AGREES)
    assert guard.stamps.wall_ms() == clock.wall_ms()


def test_the_first_broker_of_a_cluster_waits_again_until_the_others_have_told_their_calendars() -> None:
    guard, clock = compared()
    judge(guard, Verdict.ALONE, 0)
    assert believed(guard, clock)
    judge(guard, Verdict.UNSETTLED, 0)
    assert guard.believed_wall_ms() is None
    judge(guard, Verdict.AGREES, 0)
    judge(guard, Verdict.UNSETTLED, 0)
    assert believed(guard, clock)


@pytest.mark.parametrize("verdict", [Verdict.ALONE, Verdict.UNSPECIFIED])
def test_a_broker_without_others_to_compare_with_stamps_by_its_own_calendar(verdict: Verdict) -> None:
    guard, clock = compared()
    judge(guard, verdict)
    clock.jump_wall(TO_1970_MS)
    assert guard.stamps.wall_ms() == clock.wall_ms()


def test_a_broker_that_is_left_alone_goes_on_with_the_calendar_that_it_learned() -> None:
    guard, clock = compared()
    judge(guard, Verdict.AGREES)
    right_ms = clock.wall_ms()
    clock.jump_wall(TO_1970_MS)
    judge(guard, Verdict.APART, TO_1970_MS)
    assert guard.stamps.wall_ms() == right_ms
    judge(guard, Verdict.ALONE)
    assert guard.stamps.wall_ms() == right_ms and guard.believed_wall_ms() is None and "s behind" in guard.fault


def test_a_calendar_that_nobody_compares_for_minutes_is_told_as_a_fault_because_nothing_is_deleted_by_age() -> None:
    """As of the last of two brokers that was started again, while the other one is away."""
    guard, clock = compared()
    for _ in range(9):
        judge(guard, Verdict.UNSETTLED)
        clock.advance(60_000)
        assert guard.believed_wall_ms() is None and not guard.fault
    clock.advance(60_000)
    assert guard.believed_wall_ms() is None and "unregister those that are gone" in guard.fault
    judge(guard, Verdict.ALONE)
    assert believed(guard, clock) and not guard.fault
    clock.advance(HOUR_MS)
    judge(guard, Verdict.UNSETTLED)
    assert guard.believed_wall_ms() is None and not guard.fault
    clock.advance(UNCOMPARED_MS)
    assert guard.fault


@pytest.mark.parametrize("verdict", [Verdict.ALONE, Verdict.UNSPECIFIED])
def test_a_broker_whose_newcomer_is_gone_before_it_has_told_its_calendar_believes_its_own_again(
    verdict: Verdict,
) -> None:
    guard, clock = compared()
    judge(guard, Verdict.AGREES)
    judge(guard, Verdict.ALONE)
    judge(guard, Verdict.UNSETTLED)
    assert guard.believed_wall_ms() is None and guard.awaits_verdict
    judge(guard, verdict)
    assert believed(guard, clock) and not guard.awaits_verdict


def test_a_broker_that_is_left_alone_ahead_deletes_nothing_by_age_until_its_calendar_is_set_right() -> None:
    guard, clock = compared()
    clock.jump_wall(TO_2106_MS)
    guard = WallClockGuard(clock, is_compared=True)
    judge(guard, Verdict.APART, TO_2106_MS)
    judge(guard, Verdict.ALONE)
    assert guard.believed_wall_ms() is None and "s ahead of" in guard.fault
    clock.jump_wall(-TO_2106_MS)
    assert guard.believed_wall_ms() is None
    judge(guard, Verdict.ALONE)
    assert believed(guard, clock) and not guard.fault


@pytest.mark.parametrize("off_ms", [TO_2106_MS, TO_1970_MS])
def test_a_controller_of_an_older_release_does_not_make_a_wrong_calendar_right(off_ms: int) -> None:
    guard, clock = compared()
    judge(guard, Verdict.AGREES)
    right_ms = clock.wall_ms()
    clock.jump_wall(off_ms)
    judge(guard, Verdict.APART, off_ms)
    judge(guard, Verdict.UNSPECIFIED)
    assert guard.believed_wall_ms() is None and not guard.is_believed
    assert guard.stamps.wall_ms() >= right_ms, "no record is stamped as old"


def test_a_correction_within_an_hour_is_stamped() -> None:
    guard, clock = compared()
    judge(guard, Verdict.AGREES)
    clock.jump_wall(-JUMP_MS_MAX)
    assert guard.stamps.wall_ms() == clock.wall_ms()
