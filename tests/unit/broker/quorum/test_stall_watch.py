"""A controller whose event loop stood still does not take that time for the silence of its brokers."""

from __future__ import annotations

import asyncio
import random
from typing import Any, cast

from broker.quorum.controller_driver import ControllerDriver
from broker.quorum.metadata_loader import MetadataLoader
from broker.quorum.stall_watch import LOOK_MS, StallWatch
from metadata.controller.controller import Controller, ControllerStatistics
from metadata.controller.result import ControllerResult, TickResponse
from penstock.clock import ManualClock
from raft.driver.driver import RaftDriver
from tests.support.virtual_time import run_virtual

SESSION_MS = 3_000


def test_a_look_in_time_is_no_stall_and_a_late_one_is_told_once() -> None:
    clock = ManualClock()
    watch = StallWatch(clock)
    clock.advance(2 * LOOK_MS - 1)
    assert watch.look() == 0
    clock.advance(LOOK_MS + 1_500)
    assert watch.look() == 1_500
    assert watch.look() == 0


class JudgingController:
    """Notes when it is asked to judge the sessions, and what it was told to forgive before."""

    def __init__(self) -> None:
        self.forgiven_ms = 0
        self.judged: list[tuple[int, int]] = []

    def forgive_silence(self, ms: int, now_ms: int) -> None:
        self.forgiven_ms += ms

    def tick(self, now_ms: int) -> ControllerResult[TickResponse]:
        self.judged.append((now_ms, self.forgiven_ms))
        return ControllerResult((), TickResponse())

    def next_deadline_ms(self) -> None:
        return None

    def statistics(self) -> ControllerStatistics:
        return ControllerStatistics()


def test_a_stall_is_forgiven_before_the_sessions_are_judged() -> None:
    async def main() -> list[tuple[int, int]]:
        clock, controller = ManualClock(), JudgingController()
        driver = ControllerDriver(
            1,
            cast(RaftDriver, None),
            MetadataLoader(),
            lambda image, rng, now_ms: cast(Controller, controller),
            clock,
            random.Random(0),
            lambda error: None,
            lambda seconds: None,
        )
        driver.on_leader_change(1, 1)
        await asyncio.sleep(0)
        for _ in range(22):  # in time: each turn of the loop is one look later
            clock.advance(LOOK_MS)
            await asyncio.sleep(LOOK_MS / 1000)
        assert controller.forgiven_ms == 0
        await asyncio.sleep(0.05)  # at 4.45 s: what wakes next, at 4.5 s, judges the sessions
        clock.advance(SESSION_MS)  # nothing ran meanwhile
        await asyncio.sleep(1)
        driver.resign()
        await asyncio.sleep(0)  # its tasks end
        return controller.judged

    judged: Any = run_virtual(main())
    late = [forgiven_ms for now_ms, forgiven_ms in judged if now_ms >= 22 * LOOK_MS + SESSION_MS]
    assert late and min(late) >= SESSION_MS - LOOK_MS
