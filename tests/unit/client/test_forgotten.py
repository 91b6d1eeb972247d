"""A client that is dropped without `close` loses no record that a broker would take, and keeps no connection."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import time
import warnings
from collections.abc import Callable

import pytest

from penstock import Admin, AsyncProducer, Consumer, Producer, TopicPartition
from tests.support.fake_broker import FakeCluster
from tests.support.python_nursery import quick_python
from tests.support.waiting import wait_until

RECORDS = 20


def run(code: str, *arguments: str) -> str:
    """The program's stderr."""
    command = [quick_python(), "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


BODY = """
import sys, threading
from penstock import Producer
def work():
    producer = Producer(sys.argv[1], linger_ms=5_000)
    {work}
    del producer
"""
SEND = "for _ in range(20): producer.send('t', b'v')"
SCOPES = {
    "function": BODY.format(work=SEND) + "work()",
    "bulk": BODY.format(work="producer.send_many('t', [b'v'] * 20)") + "work()",
    "cycle": BODY.format(work="producer.own = producer; [producer.send('t', b'v') for _ in range(20)]") + "work()",
    "thread": BODY.format(work=SEND) + "thread = threading.Thread(target=work)\nthread.start()\nthread.join()",
}


@pytest.mark.parametrize("scope", SCOPES)
def test_a_producer_that_leaves_its_scope_sends_what_it_took_before_the_program_ends(scope: str) -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        outcome = run(SCOPES[scope], cluster.bootstrap)
        assert outcome == ""
        assert next(iter(cluster.logs.values())).end_offset == RECORDS


def test_a_warning_names_the_producer_and_the_number_of_its_records() -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        producer = Producer(cluster.bootstrap, linger_ms=60_000, client_id="orders")
        futures = [producer.send("t", b"v") for _ in range(RECORDS)]
        expected = r"Producer\(.*\) with client_id 'orders' was dropped without close\(\), and 20 of its records"
        with pytest.warns(ResourceWarning, match=expected):
            del producer
            gc.collect()
        assert [future.result(60).offset for future in futures] == list(range(RECORDS))


def test_a_producer_whose_records_are_acked_goes_without_a_word() -> None:
    with FakeCluster(1) as cluster, warnings.catch_warnings():
        warnings.simplefilter("error")
        cluster.create_topic("t")
        _producer(cluster.bootstrap)
        gc.collect()


def test_an_async_producer_that_is_dropped_with_its_loop_says_how_many_records_are_lost() -> None:
    async def main(bootstrap: str) -> AsyncProducer:
        producer = AsyncProducer(bootstrap, linger_ms=60_000)
        for _ in range(RECORDS):
            await producer.send("t", b"v")
        return producer

    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        with pytest.warns(ResourceWarning, match="records were not acked yet: they are lost, because its event loop"):
            asyncio.run(main(cluster.bootstrap))
            gc.collect()


def test_an_async_producer_that_is_dropped_on_a_running_loop_sends_what_it_took() -> None:
    async def main(bootstrap: str) -> list[int]:
        producer = AsyncProducer(bootstrap, linger_ms=60_000)
        futures = [await producer.send("t", b"v") for _ in range(RECORDS)]
        with pytest.warns(ResourceWarning, match="20 of its records"):
            del producer
            gc.collect()
        return [(await future).offset for future in futures]

    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        assert asyncio.run(main(cluster.bootstrap)) == list(range(RECORDS))


def _producer(bootstrap: str) -> None:
    producer = Producer(bootstrap)
    producer.send("t", b"v").result(60)


def _consumer(bootstrap: str) -> None:
    consumer = Consumer(bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition("t", 0)])
    assert consumer.poll(timeout_ms=10_000)


def _admin(bootstrap: str) -> None:
    assert Admin(bootstrap).list_topics() == ["t"]


@pytest.mark.parametrize("use", [_producer, _consumer, _admin])
def test_clients_that_are_dropped_give_their_sockets_back(use: Callable[[str], None]) -> None:
    def files() -> int:
        return len(os.listdir("/proc/self/fd"))

    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        _producer(cluster.bootstrap)
        use(cluster.bootstrap)
        gc.collect()
        before = files()
        for _ in range(15):
            use(cluster.bootstrap)
        gc.collect()
        wait_until(lambda: files() < before + 8)


def test_a_program_whose_dropped_producer_reaches_no_broker_ends_and_says_what_is_lost() -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        cluster.silence(1)
        began = time.monotonic()
        outcome = run(SCOPES["bulk"], cluster.bootstrap)
        took = time.monotonic() - began
        assert took < 60 and "1 clients that were dropped without close() did not end within 3 s" in outcome
