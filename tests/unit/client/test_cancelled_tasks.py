"""Programs that cancel every task of their loop, as runners do at a stop, cancel the clients' own tasks too. Clients
say so, go on, and close. In virtual time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock import AsyncAdmin, AsyncConsumer, AsyncProducer, TopicPartition
from tests.support.client_environment import fake_environment
from tests.support.fake_nodes import TOPIC, FakeNodes
from tests.support.virtual_time import run_virtual, virtual_clock

T0 = TopicPartition(TOPIC, 0)


class Stage:
    def __init__(self) -> None:
        self.nodes = FakeNodes({0: 1}, 2)
        self.served: set[asyncio.Task[Any]] = set()

    def client(self, kind: Callable[..., Any], **options: Any) -> Any:
        bootstrap = [str(endpoint) for endpoint in self.nodes.bootstrap]
        return kind(bootstrap, environment=fake_environment(self.nodes.network), **options)

    def cancel_all(self) -> list[asyncio.Task[Any]]:
        """Cancels every task but this one and those of the fake brokers, which would be in another process."""
        tasks = [
            task
            for task in asyncio.all_tasks() - {asyncio.current_task()}
            if "_serve" not in task.get_coro().__qualname__ and "FakeNode" not in task.get_coro().__qualname__  # type: ignore[union-attr]
        ]
        for task in tasks:
            task.cancel()
        return tasks


def played(story: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        await story(Stage())

    run_virtual(run())


@pytest.mark.parametrize("times", [1, 3])
def test_a_producer_whose_tasks_were_cancelled_sends_on_and_says_so(
    caplog: pytest.LogCaptureFixture, times: int
) -> None:
    async def story(stage: Stage) -> None:
        producer = stage.client(AsyncProducer, linger_ms=0)
        assert (await (await producer.send(TOPIC, b"0"))).offset == 0
        for number in range(1, times + 1):
            future = await producer.send(TOPIC, b"%d" % number)
            stage.cancel_all()
            assert (await future).offset == number
        await producer.close()
        assert [value for _, value in stage.nodes.log(0)] == [b"%d" % n for n in range(times + 1)]

    with caplog.at_level(logging.WARNING, "penstock.client"):
        played(story)
    assert "the program has cancelled the tasks of a producer; what is sent next begins them anew" in caplog.messages


def test_a_producer_whose_idle_tasks_were_cancelled_flushes_and_closes() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.client(AsyncProducer, linger_ms=0)
        await (await producer.send(TOPIC, b"0"))
        stage.cancel_all()
        await asyncio.sleep(0.1)
        future = await producer.send(TOPIC, b"1")
        began_ms = virtual_clock().now_ms()
        await producer.close()
        assert virtual_clock().now_ms() - began_ms < 1_000 and (await future).offset == 1

    played(story)


def test_a_user_whose_task_is_cancelled_with_all_others_leaves_the_block_with_everything_acked() -> None:
    async def story(stage: Stage) -> None:
        futures = []

        async def user() -> None:
            async with stage.client(AsyncProducer, linger_ms=0) as producer:
                while True:
                    futures.append(await producer.send(TOPIC, b"v"))
                    await asyncio.sleep(0.01)

        task = asyncio.ensure_future(user())
        await asyncio.sleep(0.5)
        tasks = stage.cancel_all()
        assert task in tasks
        done, pending = await asyncio.wait(tasks, timeout=5)
        assert not pending and all(future.done() for future in futures)
        assert len(stage.nodes.log(0)) == len(futures) > 40
        assert not [one for one in done if not one.cancelled() and one.exception() is not None]

    played(story)


@pytest.mark.parametrize("times", [1, 3])
def test_a_consumer_whose_tasks_were_cancelled_reads_on_at_the_next_poll_and_says_so(
    caplog: pytest.LogCaptureFixture, times: int
) -> None:
    async def story(stage: Stage) -> None:
        consumer = stage.client(AsyncConsumer, auto_offset_reset="earliest")
        producer = stage.client(AsyncProducer, linger_ms=0)
        await consumer.assign([T0])
        for number in range(times):
            stage.cancel_all()
            await asyncio.sleep(0.1)
            await (await producer.send(TOPIC, b"%d" % number))
            assert [r.value for r in await consumer.poll(timeout_ms=5_000)] == [b"%d" % number]
        await consumer.close()
        await producer.close()

    with caplog.at_level(logging.WARNING, "penstock.client"):
        played(story)
    message = "the program has cancelled the tasks of a consumer; the next poll begins them anew"
    assert caplog.messages.count(message) == times


def test_a_poll_that_waits_goes_on_when_only_the_clients_tasks_are_cancelled() -> None:
    async def story(stage: Stage) -> None:
        consumer = stage.client(AsyncConsumer, auto_offset_reset="earliest")
        producer = stage.client(AsyncProducer, linger_ms=0)
        await consumer.assign([T0])
        waiting = asyncio.ensure_future(consumer.poll(timeout_ms=20_000))
        await asyncio.sleep(1)
        for task in asyncio.all_tasks():
            if "FetchLink" in task.get_coro().__qualname__:  # type: ignore[union-attr]
                task.cancel()
        await asyncio.sleep(1)
        await (await producer.send(TOPIC, b"v"))
        assert [r.value for r in await waiting] == [b"v"]
        await consumer.close()
        await producer.close()

    played(story)


def test_clients_whose_tasks_were_cancelled_close_at_once() -> None:
    async def story(stage: Stage) -> None:
        consumer, admin = stage.client(AsyncConsumer), stage.client(AsyncAdmin)
        await consumer.assign([T0])
        await admin.list_topics()
        stage.cancel_all()
        await asyncio.sleep(0.1)
        began_ms = virtual_clock().now_ms()
        await consumer.close()
        assert await admin.list_topics() == [TOPIC]
        await admin.close()
        assert virtual_clock().now_ms() - began_ms < 100

    played(story)


def test_a_first_contact_that_was_cancelled_is_made_anew_for_a_call_that_was_not() -> None:
    async def story(stage: Stage) -> None:
        admin = stage.client(AsyncAdmin)
        for node in (1, 2):
            stage.nodes.hang(node)
        asking = asyncio.ensure_future(admin.list_topics())
        await asyncio.sleep(1)
        admin._cluster._bootstrapping.cancel()
        for node in (1, 2):
            stage.nodes.resume(node)
        assert await asking == [TOPIC]
        await admin.close()

    played(story)
