"""Promises of the timers of a coordinator: in order, once, moved by their name."""

from __future__ import annotations

import random

from broker.coordination.timers import Timers


def fired(timers: Timers[list[str]], now_ms: int) -> list[str]:
    said: list[str] = []
    for action in timers.take_due(now_ms):
        action(said)
    return said


def test_timers_are_due_in_the_order_of_their_times_and_then_of_their_setting() -> None:
    timers: Timers[list[str]] = Timers()
    for name, at_ms in (("late", 30), ("second", 20), ("first", 10), ("third", 20)):
        timers.set(name, at_ms, lambda said, name=name: said.append(name))
    assert timers.next_ms == 10 and fired(timers, 9) == []
    assert fired(timers, 20) == ["first", "second", "third"]
    assert len(timers) == 1 and timers.next_ms == 30
    assert fired(timers, 30) == ["late"] and timers.next_ms is None and fired(timers, 99) == []


def test_a_timer_that_is_set_again_moves_and_one_that_is_cancelled_is_gone() -> None:
    timers: Timers[list[str]] = Timers()
    for at_ms in (10, 50, 30):
        timers.set("moved", at_ms, lambda said, at_ms=at_ms: said.append(f"at {at_ms}"))
    timers.set(("a", 1), 20, lambda said: said.append("cancelled"))
    timers.cancel(("a", 1))
    timers.cancel("never set")
    assert timers.next_ms == 30 == timers.due_ms("moved") and timers.due_ms(("a", 1)) is None
    assert fired(timers, 100) == ["at 30"]


def test_an_action_may_set_and_cancel_timers_before_the_next_is_taken() -> None:
    timers: Timers[list[str]] = Timers()

    def first(said: list[str]) -> None:
        said.append("first")
        timers.cancel("second")
        timers.set("first", 10, lambda said: said.append("again, at once"))
        timers.set("later", 11, lambda said: said.append("later"))

    timers.set("first", 10, first)
    timers.set("second", 10, lambda said: said.append("second"))
    assert fired(timers, 10) == ["first", "again, at once"]
    assert fired(timers, 11) == ["later"]


def test_a_timer_that_moves_for_ever_takes_no_room_for_ever() -> None:
    timers: Timers[list[str]] = Timers()
    for heartbeat in range(100_000):
        timers.set(heartbeat % 10, heartbeat + 45_000, lambda said: said.append("dead"))
    assert len(timers) == 10 and len(timers._heap) < 200
    assert timers.next_ms == 99_990 + 45_000


def test_they_fire_as_a_plain_list_would() -> None:
    rng = random.Random(1)
    for _ in range(50):
        timers: Timers[list[str]] = Timers()
        plain: dict[int, tuple[int, int]] = {}
        for step in range(200):
            name, at_ms = rng.randrange(20), rng.randrange(1_000)
            if rng.random() < 0.2:
                timers.cancel(name)
                plain.pop(name, None)
            elif rng.random() < 0.2:
                due = sorted((at, number, name) for name, (at, number) in plain.items() if at <= at_ms)
                assert fired(timers, at_ms) == [str(name) for _, _, name in due]
                plain = {name: found for name, found in plain.items() if found[0] > at_ms}
            else:
                timers.set(name, at_ms, lambda said, name=name: said.append(str(name)))
                plain[name] = at_ms, step
            assert timers.next_ms == min((at for at, _ in plain.values()), default=None)
