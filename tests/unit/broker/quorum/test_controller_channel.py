"""Promises of the way to the controller: whatever goes wrong there is a typed error here."""

from __future__ import annotations

import asyncio
import re
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from broker.quorum.controller_channel import ControllerChannel
from penstock.clock import SystemClock
from penstock.errors import (
    BrokerIdNotRegisteredError,
    InvalidPartitionsError,
    NetworkError,
    NotControllerError,
    RequestTimedOutError,
    TopicExistsError,
    UnknownTopicIdError,
)
from penstock.messages.nodes.brokers import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewPartitions,
    NewTopic,
    TopicResult,
)
from penstock.types import NO_LEADER
from tests.support.virtual_time import run_virtual, virtual_clock
from tests.unit.metadata.harness import Cluster

HERE = 1


def test_a_controller_in_this_process_that_does_not_answer_in_time_is_a_typed_error() -> None:
    async def never(_request: Any) -> Any:
        await asyncio.Event().wait()

    async def elsewhere(_node_id: int, _request: Any, _timeout_ms: int) -> Any:
        raise AssertionError("the leader is here")

    async def scenario() -> None:
        channel = ControllerChannel(HERE, SimpleNamespace(leader_id=HERE), SystemClock(), elsewhere, never, Random(0))
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
        channel = ControllerChannel(HERE, quorum, clock, remote, None, Random(0))
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


def test_the_news_of_a_leader_ends_the_wait_for_one() -> None:
    async def scenario() -> None:
        quorum = SimpleNamespace(leader_id=NO_LEADER)

        async def remote(node_id: int, _request: Any, _timeout_ms: int) -> Any:
            return node_id

        clock = virtual_clock()
        channel = ControllerChannel(HERE, quorum, clock, remote, None, Random(0))
        calls = [asyncio.create_task(channel.call("a heartbeat")) for _ in range(10)]
        await asyncio.sleep(1.001)
        quorum.leader_id = 3
        channel.leader_changed(3)
        began_ms = clock.now_ms()
        assert await asyncio.gather(*calls) == [3] * 10
        assert clock.now_ms() == began_ms

    run_virtual(scenario())


def test_a_controller_that_is_not_ready_is_asked_less_and_less_often_and_a_new_one_soon_again() -> None:
    async def scenario() -> None:
        clock, asked_ms = virtual_clock(), list[int]()

        async def remote(_node_id: int, _request: Any, _timeout_ms: int) -> Any:
            asked_ms.append(clock.now_ms())
            raise NotControllerError("not yet")

        channel = ControllerChannel(HERE, SimpleNamespace(leader_id=2), clock, remote, None, Random(0))
        call = asyncio.create_task(channel.call("a heartbeat", timeout_ms=1_000))
        await asyncio.sleep(0.6)
        waits = [later - earlier for earlier, later in pairwise(asked_ms)]
        assert all(full * 4 // 5 <= wait <= full + 1 for wait, full in zip(waits, (50, 100, 200, 200), strict=True))
        channel.leader_changed(2)
        began_ms, before = clock.now_ms(), len(asked_ms)
        await asyncio.sleep(0.051)
        assert asked_ms[before] == began_ms and len(asked_ms) == before + 2
        with pytest.raises(RequestTimedOutError, match="not yet"):
            await call

    run_virtual(scenario())


def test_a_request_that_waited_for_a_leader_is_no_repetition() -> None:
    """Nobody has carried it out before: a broker id that was mistyped is not one that was just forgotten."""

    async def scenario() -> None:
        cluster = Cluster(3)
        quorum = SimpleNamespace(leader_id=NO_LEADER)

        async def remote(_node_id: int, request: UnregisterBrokerRequest, _timeout_ms: int) -> UnregisterBrokerResponse:
            return cluster.commit(cluster.controller.unregister_broker(request, cluster.now_ms))

        channel = ControllerChannel(HERE, quorum, virtual_clock(), remote, None, Random(0))
        call = asyncio.create_task(channel.call(UnregisterBrokerRequest(99)))
        await asyncio.sleep(1)
        quorum.leader_id = 2
        channel.leader_changed(2)
        assert isinstance((await call).error, BrokerIdNotRegisteredError)

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

        channel = ControllerChannel(HERE, SimpleNamespace(leader_id=2), virtual_clock(), remote, None, Random(0))
        request = DeleteTopicsRequest((first, "never was"))
        answer = await channel.call(request)
        assert asked == [request.topic_ids] * 2
        assert [result.error for result in answer.topics] == [None, None]
        assert cluster.image.topics_by_name["t"].topic_id != first
        last = await channel.call(DeleteTopicsRequest((first,)))
        assert isinstance(last.topics[0].error, UnknownTopicIdError), "the only attempt means what it says"

    run_virtual(scenario())


def test_partitions_that_a_lost_attempt_added_are_a_success_and_what_another_call_added_is_not() -> None:
    async def scenario() -> None:
        cluster = Cluster(3)
        topic_id = cluster.create("t").topic_id
        losses = [NetworkError("the connection broke before an answer came")]

        async def remote(_node_id: int, request: CreatePartitionsRequest, _timeout_ms: int) -> CreatePartitionsResponse:
            answer = cluster.commit(cluster.controller.create_partitions(request, cluster.now_ms))
            if losses:
                raise losses.pop()
            return answer

        channel = ControllerChannel(HERE, SimpleNamespace(leader_id=2), virtual_clock(), remote, None, Random(0))

        async def result_of(asked: NewPartitions) -> TopicResult:
            request = CreatePartitionsRequest((asked,))
            return (await channel.call(request)).topics[0]

        assert await result_of(NewPartitions("t", 3)) == TopicResult("t", topic_id, None, 3, 1)
        assert len(cluster.image.topics_by_name["t"].partitions) == 3
        assert isinstance((await result_of(NewPartitions("t", 3))).error, InvalidPartitionsError), "the only attempt"
        losses.append(NetworkError("again"))
        assert isinstance((await result_of(NewPartitions("t", 2))).error, InvalidPartitionsError), "it asked for fewer"
        losses.append(NetworkError("again"))
        assert isinstance((await result_of(NewPartitions("t", 4, topic_id="other"))).error, UnknownTopicIdError)

    run_virtual(scenario())


def test_a_creation_repeated_after_a_lost_answer_says_that_the_topic_may_be_its_own() -> None:
    async def scenario() -> None:
        cluster = Cluster(3)
        losses = [NetworkError("the connection broke before an answer came")]

        async def remote(_node_id: int, request: CreateTopicsRequest, _timeout_ms: int) -> CreateTopicsResponse:
            answer = cluster.commit(cluster.controller.create_topics(request, cluster.now_ms))
            if losses:
                raise losses.pop()
            return answer

        channel = ControllerChannel(HERE, SimpleNamespace(leader_id=2), virtual_clock(), remote, None, Random(0))
        request = CreateTopicsRequest((NewTopic("t"),))
        for message in ("or use it", "delete that topic first$"):
            answer = await channel.call(request)
            assert isinstance(answer.topics[0].error, TopicExistsError)
            assert re.search(message, str(answer.topics[0].error))

    run_virtual(scenario())
