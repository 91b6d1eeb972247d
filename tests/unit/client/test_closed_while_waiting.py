"""A call that waits ends at once with ClientClosedError, a PenstockError, when another thread, another task or a signal
handler closes its client; Ctrl-C in a raw read is KeyboardInterrupt and nothing else.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Producer, TopicPartition
from penstock.client.consumer.raw.raw_fetch import RawFetch
from penstock.errors import ClientClosedError
from tests.support.client_environment import fake_environment
from tests.support.fake_broker import FakeCluster
from tests.support.fake_nodes import TOPIC, FakeNodes
from tests.support.virtual_time import run_virtual, virtual_clock

T0 = TopicPartition(TOPIC, 0)
SOON_SECONDS = 20.0  # far below every time limit that the calls have
LONG_MS = 60_000


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as found:
        found.create_topic(TOPIC)
        yield found


def closed_while(client: Any, call: Callable[[Any], object], is_waiting: Callable[[], bool]) -> BaseException | None:
    """How the call in another thread ends after the client is closed here."""
    met: list[BaseException | None] = []

    def run() -> None:
        try:
            call(client)
            met.append(None)
        except BaseException as error:
            met.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    deadline = time.monotonic() + SOON_SECONDS
    while not is_waiting() and time.monotonic() < deadline:
        time.sleep(0.001)
    client.close(*([] if isinstance(client, Admin) else [0.1]))
    thread.join(SOON_SECONDS)
    assert not thread.is_alive(), "it still waits"
    return met[0]


POLLS: dict[str, Callable[[Consumer], object]] = {
    "poll": lambda consumer: consumer.poll(timeout_ms=LONG_MS),
    "poll_arrow": lambda consumer: consumer.poll_arrow(timeout_ms=LONG_MS),
    "next": next,
    "fetch_raw": lambda consumer: list(consumer.fetch_raw(TOPIC, 0, 0, 10)),
}


@pytest.mark.parametrize("what", POLLS)
def test_reading_ends_when_another_thread_closes_the_consumer(cluster: FakeCluster, what: str) -> None:
    consumer = Consumer(cluster.bootstrap)
    consumer.assign([T0])
    before = consumer.statistics().polls
    fetched = len(cluster.fetches)

    def is_waiting() -> bool:
        return consumer.statistics().polls > before or len(cluster.fetches) > fetched + 1

    assert isinstance(closed_while(consumer, POLLS[what], is_waiting), ClientClosedError)


def test_a_poll_ends_when_a_signal_handler_closes_the_consumer(cluster: FakeCluster) -> None:
    consumer = Consumer(cluster.bootstrap)
    consumer.assign([T0])
    before = signal.signal(signal.SIGUSR1, lambda *_: consumer.close())
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(ClientClosedError):
            consumer.poll(timeout_ms=LONG_MS)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


COLD: dict[str, tuple[Callable[..., Any], Callable[[Any], object]]] = {
    "send": (Producer, lambda producer: producer.send(TOPIC, b"v")),
    "send_many": (Producer, lambda producer: producer.send_many(TOPIC, [b"v"])),
    "partitions of a producer": (Producer, lambda producer: producer.partitions_for(TOPIC)),
    "assign": (Consumer, lambda consumer: consumer.assign([T0])),
    "end_offsets": (Consumer, lambda consumer: consumer.end_offsets([T0])),
    "raw read": (Consumer, lambda consumer: next(consumer.fetch_raw(TOPIC, 0, 0, 10))),
    "list_topics": (Admin, lambda admin: admin.list_topics()),
    "create_topic": (Admin, lambda admin: admin.create_topic("new")),
}


@pytest.mark.parametrize("what", COLD)
def test_a_first_call_ends_when_another_thread_closes_the_client(what: str) -> None:
    made, call = COLD[what]
    client = made("127.0.0.1:1", bootstrap_timeout_ms=LONG_MS)
    cluster = (client._calls._cluster if isinstance(client, Admin) else client._core.cluster) if client else None
    assert isinstance(closed_while(client, call, lambda: cluster._bootstrapping is not None), ClientClosedError)


def test_async_calls_end_when_another_task_closes_the_client() -> None:
    async def story() -> None:
        nodes = FakeNodes({0: 1}, 2)
        bootstrap = [str(endpoint) for endpoint in nodes.bootstrap]

        def client(kind: Callable[..., Any]) -> Any:
            return kind(bootstrap, environment=fake_environment(nodes.network), bootstrap_timeout_ms=LONG_MS)

        async def closed(made: Any, call: Callable[[Any], Any]) -> None:
            waiting = asyncio.ensure_future(call(made))
            await asyncio.sleep(0.2)
            began_ms = virtual_clock().now_ms()
            await made.close()
            with pytest.raises(ClientClosedError):
                await waiting
            assert virtual_clock().now_ms() - began_ms <= 1_500

        reading = client(AsyncConsumer)
        await reading.assign([T0])
        await closed(reading, lambda consumer: consumer.poll(timeout_ms=LONG_MS))
        reading = client(AsyncConsumer)
        await closed(reading, lambda consumer: anext(consumer.fetch_raw(TOPIC, 0, 0, 10)))
        warm = client(AsyncConsumer), client(AsyncAdmin)
        await warm[0].assign([T0])
        await warm[1].list_topics()
        for node in (1, 2):
            nodes.hang(node)
        await closed(warm[0], lambda consumer: consumer.end_offsets([T0]))
        await closed(warm[1], lambda admin: admin.create_topic("new"))
        await closed(client(AsyncConsumer), lambda consumer: consumer.assign([T0]))
        await closed(client(AsyncProducer), lambda producer: producer.send(TOPIC, b"v"))
        await closed(client(AsyncAdmin), lambda admin: admin.list_topics())

    run_virtual(story())


def test_ctrl_c_in_a_raw_read_is_a_keyboard_interrupt_and_ends_the_read(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[RawFetch] = []
    real = RawFetch.close

    async def close(fetch: RawFetch) -> None:
        closed.append(fetch)
        await real(fetch)

    monkeypatch.setattr(RawFetch, "close", close)
    with Consumer(cluster.bootstrap) as consumer:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            list(consumer.fetch_raw(TOPIC, 0, 0, 10))
        timer.join()
        assert len(closed) == 1 and not consumer._core._raw_fetches
        consumer.assign([T0])
        assert consumer.poll(timeout_ms=0) == []
