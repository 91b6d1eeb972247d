"""Producers are stamped by a calendar that follows no jump, and none expires before this process has watched it."""

from __future__ import annotations

import pytest

from penstock.clock import ManualClock
from storage.append.producer_ids import ProducerIdConfig, ProducerIds
from storage.append.steady_calendar import SteadyCalendar
from tests.support.machine import THREADS

DAY_MS = 86_400_000


@pytest.mark.parametrize("jump_ms", [30 * DAY_MS, -30 * DAY_MS])
def test_a_jump_is_not_followed_and_a_correction_is(jump_ms: int) -> None:
    clock = ManualClock()
    calendar = SteadyCalendar(clock)
    clock.jump_wall(jump_ms)
    clock.advance(5_000)
    assert calendar.wall_ms() == clock.wall_ms() - jump_ms
    clock.jump_wall(-jump_ms + 60_000)
    assert calendar.wall_ms() == clock.wall_ms()
    clock.suspend(3 * DAY_MS)
    assert calendar.wall_ms() == clock.wall_ms() and calendar.watched_ms == 5_000


def test_silence_is_sure_only_after_the_process_has_watched_for_so_long() -> None:
    clock = ManualClock(now_ms=77)
    ids = ProducerIds(ProducerIdConfig(expiration_ms=DAY_MS), clock, THREADS)
    clock.jump_wall(30 * DAY_MS)
    clock.advance(DAY_MS - 1)
    assert ids.expiry_ms() is None
    clock.advance(1)
    assert ids.expiry_ms() == clock.wall_ms() - 30 * DAY_MS
