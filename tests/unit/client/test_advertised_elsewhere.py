"""The bootstrap address answers, and the address that the broker advertises does not exist here: whatever waits names
that address and where it comes from, and does not wait a whole minute for it. In virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock import AsyncAdmin, AsyncConsumer, AsyncProducer, TopicPartition
from penstock.client.admin.configs import IN_VAIN_MS
from penstock.errors import TimedOutError
from penstock.types import Endpoint
from tests.support.client_environment import fake_environment
from tests.support.fake_broker import FakeCluster, MemoryHost
from tests.support.fake_network import FakeNetwork
from tests.support.fake_node import FakeNode
from tests.support.virtual_time import run_virtual, virtual_clock

T0 = TopicPartition("t", 0)
OUTSIDE, INSIDE = Endpoint("outside", 1), Endpoint("inside", 9192)
NAMED = (
    f"{INSIDE}: UNAVAILABLE: nobody listens; broker 1 advertises this address (advertised.listeners), and it was never"
    " reached from here"
)


class Stage:
    def __init__(self) -> None:
        self.network = FakeNetwork()
        self.cluster = FakeCluster(1, host=MemoryHost(self.network)).__enter__()
        self.cluster.create_topic("t")
        self.network.leave(self.cluster.endpoints[1])
        self.cluster.endpoints[1] = INSIDE
        self.network.listen(OUTSIDE, FakeNode(self.cluster, 1))

    def client(self, kind: Callable[..., Any], **options: Any) -> Any:
        return kind(str(OUTSIDE), environment=fake_environment(self.network), **options)


def played(story: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        await story(Stage())

    run_virtual(run())


MADE = "the change was made, but no broker can be asked"
CHANGES: dict[str, tuple[Callable[[AsyncAdmin], Awaitable[object]], str]] = {
    "create_topic": (lambda admin: admin.create_topic("new"), "topic 'new' was created, but no broker can be asked"),
    "create_partitions": (lambda admin: admin.create_partitions("t", 2), MADE),
    "alter_topic_config": (lambda admin: admin.alter_topic_config("t", {"retention.ms": 1}), MADE),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_made_and_its_wait_for_the_brokers_ends_with_their_address(what: str) -> None:
    call, message = CHANGES[what]

    async def story(stage: Stage) -> None:
        async with stage.client(AsyncAdmin) as admin:
            began_ms = virtual_clock().now_ms()
            waiting = asyncio.ensure_future(call(admin))
            await asyncio.sleep(3)
            assert admin.waiting_for() == (NAMED,)
            with pytest.raises(TimedOutError) as error:
                await waiting
            assert str(error.value).startswith(message) and NAMED in str(error.value)
            assert virtual_clock().now_ms() - began_ms < IN_VAIN_MS + 2_000

    played(story)


QUESTIONS: dict[str, Callable[[AsyncAdmin], Awaitable[object]]] = {
    "list_offsets": lambda admin: admin.list_offsets([T0]),
    "delete_records": lambda admin: admin.delete_records({T0: -1}),
}


@pytest.mark.parametrize("what", QUESTIONS)
def test_a_question_to_a_leader_names_its_address(what: str) -> None:
    async def story(stage: Stage) -> None:
        async with stage.client(AsyncAdmin, default_api_timeout_ms=8_000) as admin:
            with pytest.raises(TimedOutError) as error:
                await QUESTIONS[what](admin)
            assert NAMED in str(error.value)

    played(story)


def test_what_any_broker_may_answer_is_asked_at_the_bootstrap_address() -> None:
    async def story(stage: Stage) -> None:
        async with stage.client(AsyncAdmin) as admin:
            began_ms = virtual_clock().now_ms()
            assert await admin.list_topics() == ["t"]
            assert (await admin.describe_topic("t")).partitions[0].leader_id == 1
            await admin.delete_topic("t")
            assert virtual_clock().now_ms() - began_ms < 2_000

    played(story)


def test_producers_and_consumers_name_it_too() -> None:
    async def story(stage: Stage) -> None:
        async with (
            stage.client(AsyncProducer, linger_ms=0, delivery_timeout_ms=5_000) as producer,
            stage.client(AsyncConsumer, auto_offset_reset="earliest") as consumer,
        ):
            future = await producer.send("t", b"v")
            await consumer.assign([T0])
            assert await consumer.poll(timeout_ms=3_000) == []
            (waiting,) = await consumer.waiting_for()
            assert NAMED in str(waiting)
            (waiting,) = await producer.waiting_for()
            assert NAMED in str(waiting)
            with pytest.raises(TimedOutError) as error:
                await future
            assert NAMED in str(error.value)

    played(story)


def test_an_address_that_was_reached_before_is_not_blamed_on_the_configuration() -> None:
    async def story(stage: Stage) -> None:
        stage.network.listen(INSIDE, FakeNode(stage.cluster, 1))
        async with stage.client(AsyncAdmin, default_api_timeout_ms=8_000) as admin:
            assert (await admin.list_offsets([T0]))[T0].offset == 0
            assert admin.waiting_for() == ()
            stage.network.leave(INSIDE)
            with pytest.raises(TimedOutError) as error:
                await admin.list_offsets([T0])
            assert f"{INSIDE}: UNAVAILABLE" in str(error.value) and "advertise" not in str(error.value)
            (wait,) = admin.waiting_for()
            assert wait.startswith(f"{INSIDE}: ")
            stage.network.listen(INSIDE, FakeNode(stage.cluster, 1))
            assert (await admin.list_offsets([T0]))[T0].offset == 0 and admin.waiting_for() == ()

    played(story)
