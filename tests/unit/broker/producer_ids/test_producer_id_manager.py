"""The manager asks the controller for blocks, one call at a time, and answers each request once, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from broker.producer_ids.id_blocks import WAIT_MS
from broker.producer_ids.producer_id_manager import ProducerIdManager
from penstock.errors import ApiError, RequestTimedOutError, StaleBrokerEpochError
from penstock.messages.produce import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tests.support.virtual_time import run_virtual, virtual_clock


class Stage:
    """A manager, its controller, and what was answered when (ms)."""

    def __init__(self) -> None:
        self.epoch = 7
        self.requests: list[AllocateProducerIdsRequest] = []
        self.under_way = 0
        self.answers_ms = 1
        self.errors: list[Exception] = []
        self.next_id = 0
        self.count = 10
        self.fatal: list[BaseException] = []
        self.found: list[tuple[int | ApiError, int]] = []
        self.clock = virtual_clock()
        self.manager = ProducerIdManager(1, lambda: self.epoch, self._call, self.clock, self.fatal.append, Random(0))

    async def _call(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        assert not self.under_way, "two calls at a time"
        self.requests.append(request)
        self.under_way = 1
        await asyncio.sleep(self.answers_ms / 1000)
        self.under_way = 0
        if self.errors:
            raise self.errors.pop(0)
        self.next_id += self.count
        return AllocateProducerIdsResponse(self.next_id - self.count, self.count)

    def ask(self, times: int = 1) -> None:
        for _ in range(times):
            self.manager.request(lambda found: self.found.append((found, self.clock.now_ms())))

    @property
    def ids(self) -> list[int | ApiError]:
        return [found for found, _ in self.found]


def on_stage(story: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        stage = Stage()
        stage.manager.start()
        try:
            await story(stage)
        finally:
            await stage.manager.stop()

    run_virtual(run())


def test_the_first_request_brings_a_block_and_the_others_of_it_wait_for_nothing() -> None:
    async def story(stage: Stage) -> None:
        await asyncio.sleep(1)
        assert stage.requests == [], "nobody has asked"
        stage.ask(2)
        await asyncio.sleep(0.1)
        stage.ask(3)
        assert stage.ids == [0, 1, 2, 3, 4]
        assert stage.requests == [AllocateProducerIdsRequest(1, 7)]

    on_stage(story)


def test_the_next_block_comes_before_the_last_id_is_given() -> None:
    async def story(stage: Stage) -> None:
        stage.ask()
        await asyncio.sleep(0.1)
        stage.ask(7)
        await asyncio.sleep(0.1)
        assert len(stage.requests) == 1
        stage.ask()
        await asyncio.sleep(0.1)
        assert len(stage.requests) == 2
        stage.ask(11)
        assert stage.ids == list(range(20))

    on_stage(story)


def test_more_requests_than_a_block_has_ids_get_several_blocks_one_after_the_other() -> None:
    async def story(stage: Stage) -> None:
        stage.ask(25)
        await asyncio.sleep(0.1)
        assert stage.ids == list(range(25)) and len(stage.requests) == 3

    on_stage(story)


def test_a_failed_call_is_made_again_under_the_broker_epoch_of_then() -> None:
    async def story(stage: Stage) -> None:
        stage.errors = [StaleBrokerEpochError("7 is old"), RequestTimedOutError("no controller")]
        stage.ask()
        await asyncio.sleep(0.01)
        stage.epoch = 8
        await asyncio.sleep(1)
        assert stage.ids == [0]
        assert [request.broker_epoch for request in stage.requests] == [7, 8, 8]

    on_stage(story)


def test_a_request_without_an_id_in_time_gets_an_error_and_the_call_goes_on_for_the_next_ones() -> None:
    async def story(stage: Stage) -> None:
        began_ms, stage.answers_ms = stage.clock.now_ms(), 2 * WAIT_MS
        stage.ask()
        await asyncio.sleep(1)
        stage.ask()
        await asyncio.sleep(8)
        assert [type(error) for error in stage.ids] == [RequestTimedOutError] * 2
        assert [at - began_ms for _, at in stage.found] == [WAIT_MS, WAIT_MS + 1_000]
        stage.ask()
        await asyncio.sleep(2)
        assert stage.ids[2] == 0 and len(stage.requests) == 1

    on_stage(story)


def test_a_controller_that_gives_blocks_again_is_asked_until_one_is_new() -> None:
    async def story(stage: Stage) -> None:
        stage.ask(25)
        await asyncio.sleep(0.1)
        stage.next_id = 0
        stage.ask(10)
        await asyncio.sleep(2)
        assert stage.ids == list(range(35)) and len(stage.requests) == 7 and not stage.fatal

    on_stage(story)


@pytest.mark.parametrize("answered", [False, True])
def test_a_stop_leaves_no_task_and_no_timer(answered: bool) -> None:
    async def story(stage: Stage) -> None:
        stage.ask()
        await asyncio.sleep(0.1 if answered else 0)
        await stage.manager.stop()
        await asyncio.sleep(2 * WAIT_MS / 1000)
        assert len(stage.found) == answered

    on_stage(story)
