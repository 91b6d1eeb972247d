"""A queue has one call under way, asks its core again at once while there is progress, and backs off while there is
none, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from random import Random

from broker.call_queue import CallQueue
from penstock.backoff import Backoff
from penstock.errors import ApiError, RequestTimedOutError
from tests.support.virtual_time import run_virtual, virtual_clock

FULL_MS, FULL_MS_MAX = 100, 800


class Stage:
    """A core that asks for the numbers in `to_ask`, up to two in a request, and a destination that answers after
    `takes_ms` with those that are even."""

    def __init__(self) -> None:
        self.to_ask: list[int] = []
        self.asked: list[tuple[int, list[int]]] = []
        self.attempts: list[int] = []
        self.takes_ms = 10
        self.errors: list[BaseException] = []
        self.fatal: list[BaseException] = []
        self.is_busy = False
        self.clock = virtual_clock()
        self.began_ms = self.clock.now_ms()
        backoff = Backoff(FULL_MS, FULL_MS_MAX, Random(0))
        self.queue = CallQueue("numbers", self, self._call, backoff, self.fatal.append)

    def ask(self, *numbers: int) -> None:
        self.to_ask += numbers
        self.queue.wake()

    async def _call(self, request: list[int]) -> list[int]:
        assert not self.is_busy, "two calls at a time"
        self.asked.append((self.clock.now_ms() - self.began_ms, request))
        self.is_busy = True
        try:
            await asyncio.sleep(self.takes_ms / 1000)
        finally:
            self.is_busy = False
        if self.errors:
            raise self.errors.pop(0)
        return [number for number in request if number % 2 == 0]

    def next_request(self) -> list[int] | None:
        return self.to_ask[:2] or None

    def answered(self, answer: list[int], attempt: int) -> bool:
        self.attempts.append(attempt)
        self.to_ask = [number for number in self.to_ask if number not in answer]
        return bool(answer)

    def failed(self, _error: ApiError, attempt: int) -> None:
        self.attempts.append(-attempt)


def on_stage(story: Callable[[Stage], Awaitable[None]]) -> Stage:
    async def run() -> Stage:
        stage = Stage()
        stage.queue.start()
        try:
            await story(stage)
        finally:
            await stage.queue.stop()
        return stage

    return run_virtual(run())


def test_it_calls_only_when_it_is_woken_and_goes_on_at_once_while_there_is_progress() -> None:
    async def story(stage: Stage) -> None:
        stage.to_ask = [2, 4, 6]
        await asyncio.sleep(1)
        assert stage.asked == []
        stage.queue.wake()
        await asyncio.sleep(1)

    assert on_stage(story).asked == [(1000, [2, 4]), (1010, [6])]


def test_what_comes_while_a_call_is_under_way_is_asked_after_it() -> None:
    async def story(stage: Stage) -> None:
        stage.ask(2)
        await asyncio.sleep(0.005)
        stage.ask(4)
        await asyncio.sleep(1)

    assert on_stage(story).asked == [(0, [2]), (10, [4])]


def test_a_failed_call_and_an_answer_without_progress_back_off_longer_each_time_until_there_is_progress() -> None:
    async def story(stage: Stage) -> None:
        stage.errors = [RequestTimedOutError("no answer"), RequestTimedOutError("no answer")]
        stage.ask(1)
        await asyncio.sleep(0.5)
        stage.to_ask = [2]
        await asyncio.sleep(1)
        stage.errors = [RequestTimedOutError("no answer")]
        stage.ask(4)
        await asyncio.sleep(1)

    stage = on_stage(story)
    assert stage.attempts == [-1, -2, 3, 4, -1, 2]
    waits = [later - earlier - stage.takes_ms for (earlier, _), (later, _) in pairwise(stage.asked)]
    del waits[3]  # until somebody asked again
    assert all(0.8 * full <= wait <= full for wait, full in zip(waits, (100, 200, 400, 100), strict=True)), waits


def test_a_bug_in_the_call_ends_the_node_and_not_only_the_queue() -> None:
    async def story(stage: Stage) -> None:
        stage.errors = [ZeroDivisionError("a bug")]
        stage.ask(2)
        await asyncio.sleep(1)

    assert [type(error) for error in on_stage(story).fatal] == [ZeroDivisionError]


def test_a_stop_leaves_a_call_under_way_and_tells_its_core_nothing_more() -> None:
    async def story(stage: Stage) -> None:
        stage.ask(2)
        await asyncio.sleep(0.005)
        await stage.queue.stop()
        await asyncio.sleep(1)
        assert not stage.is_busy

    stage = on_stage(story)
    assert stage.attempts == [] and stage.fatal == []
