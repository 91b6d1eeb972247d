"""Requests that wait for the core's answer: the limit, a caller that is gone, the end of the driver."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import NetworkError, ResourceExhaustedError
from raft.driver.waiting_requests import WAITING_MAX, WaitingRequests
from raft.messages import VoteResponse

ANSWER = VoteResponse(leader_epoch=3, vote_granted=True)


def test_an_answer_reaches_its_request_and_no_other() -> None:
    async def scenario() -> None:
        waiting = WaitingRequests()
        first, first_answer = waiting.add()
        second, second_answer = waiting.add()
        waiting.resolve(second, ANSWER)
        assert await second_answer == ANSWER
        assert not first_answer.done()
        assert first in waiting and second not in waiting and len(waiting) == 1

    asyncio.run(scenario())


def test_an_answer_for_a_caller_that_is_gone_goes_nowhere() -> None:
    async def scenario() -> None:
        waiting = WaitingRequests()
        request_id, answer = waiting.add()
        answer.cancel()
        assert waiting.abandon(request_id)
        assert not waiting.abandon(request_id)
        waiting.resolve(request_id, ANSWER)
        cancelled_id, cancelled = waiting.add()
        cancelled.cancel()
        waiting.resolve(cancelled_id, ANSWER)
        assert cancelled.cancelled() and len(waiting) == 0

    asyncio.run(scenario())


def test_more_than_the_limit_are_refused_and_an_answer_makes_room() -> None:
    async def scenario() -> None:
        waiting = WaitingRequests()
        ids = [waiting.add()[0] for _ in range(WAITING_MAX)]
        with pytest.raises(ResourceExhaustedError, match=f"{WAITING_MAX} quorum requests wait already"):
            waiting.add()
        waiting.resolve(ids[0], ANSWER)
        waiting.add()

    asyncio.run(scenario())


def test_the_end_fails_every_request_once() -> None:
    async def scenario() -> None:
        waiting = WaitingRequests()
        answers = [waiting.add()[1] for _ in range(3)]
        waiting.fail_all(NetworkError("node 1 left the quorum: it was stopped"))
        results = await asyncio.gather(*answers, return_exceptions=True)
        assert [str(result) for result in results] == ["node 1 left the quorum: it was stopped"] * 3
        assert len(waiting) == 0

    asyncio.run(scenario())
