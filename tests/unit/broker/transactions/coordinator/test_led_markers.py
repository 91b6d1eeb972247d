"""Promises of the marker port of one lead: the core is told, and asked, until it has answered; then never again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

from broker.replication.hosting.role_news import Lead
from broker.transactions.coordinator.led_markers import LedMarkers
from broker.transactions.marker_port import MarkersWritten, SendMarkersAgain, TransactionEnd
from penstock.backoff import Backoff
from penstock.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError
from tests.support.marker_leaders import Leaders, T
from tests.support.virtual_time import run_virtual, virtual_clock

END = TransactionEnd("app", 7, 1, True, (T[0],), 2, 99)
KEY = ("app", 7, 1, 99)


class Stage:
    """A port whose shard answers with what `answers` has in turn, then with None."""

    def __init__(self) -> None:
        self.leaders = Leaders()
        self.asked: list[Any] = []
        self.answers: list[Any] = []
        self.lead()

    def lead(self) -> None:
        """Another lead begins. It has the epoch of the one before."""
        lead = Lead(SimpleNamespace(), 5)  # type: ignore[arg-type]
        backoff = Backoff(50, 2_000, Random(0))
        self.port = LedMarkers(lead, self.leaders.sender, self._submit, virtual_clock().now_ms, backoff)

    def _submit(self, answer: Callable[[Any], None], request: Any) -> None:
        self.asked.append(request)
        answer(self.answers.pop(0) if self.answers else None)


def run(scenario: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        stage = Stage()
        await scenario(stage)
        stage.port.close()
        await stage.leaders.sender.stop()

    run_virtual(main())


def test_the_core_is_told_when_every_partition_has_its_marker_and_again_after_an_error() -> None:
    async def scenario(stage: Stage) -> None:
        stage.answers = [CoordinatorLoadInProgressError("loading"), CoordinatorNotAvailableError("isr"), None]
        stage.port.send(END)
        stage.port.send(END)
        assert not stage.asked
        await asyncio.sleep(60)
        assert stage.asked == [MarkersWritten(*KEY)] * 3 and len(stage.leaders.written) == 1

    run(scenario)


def test_an_end_that_is_sent_again_after_a_load_while_it_is_not_in_the_log_is_sent_once() -> None:
    async def scenario(stage: Stage) -> None:
        stage.answers = [CoordinatorLoadInProgressError("loading")] * 3
        stage.port.send(END)
        await asyncio.sleep(0.01)
        stage.port.send(END)
        await asyncio.sleep(60)
        assert stage.asked == [MarkersWritten(*KEY)] * 4 and len(stage.leaders.written) == 1
        stage.port.send(END)
        await asyncio.sleep(60)
        assert len(stage.leaders.written) == 2, "it is in the log: whoever sends it again means it"

    run(scenario)


def test_a_decision_of_which_nobody_knows_is_asked_for_again_until_the_core_has_answered() -> None:
    async def scenario(stage: Stage) -> None:
        stage.answers = [CoordinatorLoadInProgressError("loading")] * 2
        stage.port.ask_again(END)
        stage.port.ask_again(END)
        assert not stage.asked, "in a while"
        await asyncio.sleep(60)
        assert stage.asked == [SendMarkersAgain(*KEY)] * 3 and not stage.leaders.written
        stage.port.ask_again(END)
        await asyncio.sleep(60)
        assert len(stage.asked) == 4

    run(scenario)


def test_a_lead_that_is_over_sends_tells_and_asks_no_more() -> None:
    async def scenario(stage: Stage) -> None:
        stage.answers = [CoordinatorNotAvailableError("isr")] * 100
        stage.port.send(END)
        stage.port.ask_again(END)
        await asyncio.sleep(1)
        asked = len(stage.asked)
        stage.port.close()
        stage.port.send(END)
        stage.port.ask_again(END)
        await asyncio.sleep(60)
        assert len(stage.asked) == asked > 0 and stage.leaders.sender.open_partitions == 0

    run(scenario)


def test_a_lead_that_ends_between_the_last_marker_and_its_news_tells_nobody() -> None:
    async def scenario(stage: Stage) -> None:
        stage.port.send(TransactionEnd("app", 7, 1, True, (), 2, 99))
        stage.port.close()
        await asyncio.sleep(1)
        assert not stage.asked

    run(scenario)


def test_the_stamps_of_decisions_rise_though_the_calendar_is_set_back() -> None:
    """A leader takes a marker of version 1 that is stamped below the last one for a call that comes late."""

    async def scenario(stage: Stage) -> None:
        for decided_ms in (1_000_000, 700_000, 700_500, 2_000_000, 1_000_000):
            stage.port.send(replace(END, decided_ms=decided_ms))
            await asyncio.sleep(1)
        stage.port.close()
        stage.lead()
        stage.port.send(replace(END, decided_ms=900_000))
        await asyncio.sleep(1)
        assert [one.decided_ms for one in stage.asked] == [1_000_000, 700_000, 700_500, 2_000_000, 1_000_000, 900_000]
        stamps = [marker.decided_ms for _, request in stage.leaders.calls for marker in request.markers]
        assert stamps == [1_000_000, 1_000_001, 1_000_002, 2_000_000, 2_000_001, 2_000_002]

    run(scenario)


def test_a_marker_that_is_sent_again_has_the_stamp_of_its_decision() -> None:
    async def scenario(stage: Stage) -> None:
        stage.leaders.dead = {1}
        stage.port.send(END)
        await asyncio.sleep(1)
        stage.leaders.dead = set()
        await asyncio.sleep(5)
        stamps = {marker.decided_ms for _, request in stage.leaders.calls for marker in request.markers}
        assert stamps == {99} and len(stage.leaders.calls) > 1

    run(scenario)
