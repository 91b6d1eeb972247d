"""Promises of the way to the controller: whatever goes wrong there is a typed error here."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.apis.delete_topics import deleted_by_an_earlier_attempt
from broker.quorum.controller_channel import ControllerChannel
from metadata.requests import DeleteTopicsRequest, DeleteTopicsResponse
from penstock.clock import SystemClock
from penstock.errors import NetworkError, RequestTimedOutError, UnknownTopicIdError
from tests.support.virtual_time import run_virtual, virtual_clock
from tests.unit.metadata.harness import Cluster

HERE = 1


def test_a_controller_in_this_process_that_does_not_answer_in_time_is_a_typed_error() -> None:
    async def never(_request: Any) -> Any:
        await asyncio.Event().wait()

    async def elsewhere(_node_id: int, _request: Any, _timeout_ms: int) -> Any:
        raise AssertionError("the leader is here")

    async def scenario() -> None:
        channel = ControllerChannel(HERE, SimpleNamespace(leader_id=HERE), SystemClock(), elsewhere, never)
        with pytest.raises(RequestTimedOutError, match="did not answer"):
            await channel.call("a heartbeat", timeout_ms=10)

    asyncio.run(scenario())


def test_a_call_to_a_hung_controller_is_made_anew_as_soon_as_another_node_leads() -> None:
    async def scenario() -> None:
        quorum = SimpleNamespace(leader_id=2)
        asked: list[int] = []

        async def remote(node_id: int, _request: Any, _timeout_ms: int) -> Any:
            asked.append(node_id)
            if node_id == 2:
                await asyncio.Event().wait()
            return "done"

        clock = virtual_clock()
        channel = ControllerChannel(HERE, quorum, clock, remote, None)
        began_ms = clock.now_ms()
        call = asyncio.create_task(channel.call("a heartbeat"))
        await asyncio.sleep(1)
        channel.leader_changed(-1)  # no other is known yet, and this one may only be slow
        await asyncio.sleep(1)
        assert asked == [2]
        quorum.leader_id = 3
        channel.leader_changed(3)
        assert await call == "done"
        assert asked == [2, 3]
        assert clock.now_ms() - began_ms < 2_200

    run_virtual(scenario())


def test_a_deletion_repeated_after_a_lost_answer_deletes_nothing_that_was_made_in_between() -> None:
    async def scenario() -> None:
        cluster = Cluster(3)
        first = cluster.create("t").topic_id
        asked: list[tuple[str, ...]] = []

        async def remote(_node_id: int, request: DeleteTopicsRequest, _timeout_ms: int) -> DeleteTopicsResponse:
            asked.append(request.topic_ids)
            answer = cluster.commit(cluster.controller.delete_topics(request, cluster.now_ms))
            if len(asked) == 1:
                cluster.create("t")
                raise NetworkError("the connection broke before an answer came")
            return answer

        channel = ControllerChannel(HERE, SimpleNamespace(leader_id=2), virtual_clock(), remote, None)
        request = DeleteTopicsRequest((first, "never was"))
        answer = await channel.call(request, of_repetition=deleted_by_an_earlier_attempt)
        assert asked == [request.topic_ids] * 2
        assert [result.error for result in answer.topics] == [None, None]
        assert cluster.image.topics_by_name["t"].topic_id != first
        last = await channel.call(DeleteTopicsRequest((first,)), of_repetition=deleted_by_an_earlier_attempt)
        assert isinstance(last.topics[0].error, UnknownTopicIdError), "the only attempt means what it says"

    run_virtual(scenario())
