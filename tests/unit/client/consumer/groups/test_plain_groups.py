"""A plain consumer in a group: callbacks in the user's thread, Ctrl-C, ends of programs, forks. Over gRPC."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from penstock import Consumer, TopicPartition
from penstock.errors import ClientClosedError, ForkedClientError
from penstock.record.builder import build_batch
from tests.support.fake_broker import FakeCluster
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.forked import in_child
from tests.support.python_nursery import quick_python
from tests.support.waiting import wait_until

T = [TopicPartition("t", number) for number in range(2)]
PATIENCE_MS = 60_000


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as made:
        made.create_topic("t", 2)
        made.coordinator = FakeCoordinator(made, heartbeat_interval_ms=100)
        for tp in T:
            made.append(tp.topic, tp.partition, build_batch([b"%d" % n for n in range(10)], timestamps_ms=0))
        yield made


def coordinator_of(cluster: FakeCluster) -> FakeCoordinator:
    assert cluster.coordinator is not None
    return cluster.coordinator


def consumer_of(cluster: FakeCluster, **options: Any) -> Consumer:
    return Consumer(cluster.bootstrap, **{"group_id": "g", "auto_offset_reset": "earliest", **options})


def read_all(consumer: Consumer, count: int = 20) -> None:
    seen = 0
    while seen < count:
        found = consumer.poll(timeout_ms=PATIENCE_MS)
        assert found
        seen += len(found)


def test_callbacks_run_in_the_thread_that_polls(cluster: FakeCluster) -> None:
    threads: list[tuple[str, int]] = []
    with consumer_of(cluster, enable_auto_commit=False) as consumer:

        def on_revoked(partitions: list[TopicPartition]) -> None:
            threads.append(("revoked", threading.get_ident()))
            consumer.commit()

        consumer.subscribe(
            ["t"],
            on_assigned=lambda partitions: threads.append(("assigned", threading.get_ident())),
            on_revoked=on_revoked,
        )
        read_all(consumer)
        assert not coordinator_of(cluster).offsets
    assert threads == [("assigned", threading.get_ident()), ("revoked", threading.get_ident())]
    assert {tp: part.offset for tp, part in coordinator_of(cluster).offsets.items()} == {T[0]: 10, T[1]: 10}
    assert not coordinator_of(cluster).members


def test_a_coroutine_function_is_refused_by_a_plain_consumer(cluster: FakeCluster) -> None:
    async def on_assigned(partitions: list[TopicPartition]) -> None: ...

    with consumer_of(cluster) as consumer, pytest.raises(TypeError, match="only AsyncConsumer takes"):
        consumer.subscribe(["t"], on_assigned=on_assigned)


def interrupt_after(seconds: float) -> None:
    """A KeyboardInterrupt in this thread, as by Ctrl-C."""

    def handler(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def test_a_poll_that_ctrl_c_ends_can_be_made_again(cluster: FakeCluster) -> None:
    with consumer_of(cluster) as consumer:
        consumer.subscribe(["t"])
        read_all(consumer)
        interrupt_after(0.3)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(timeout_ms=PATIENCE_MS)
        cluster.append("t", 0, build_batch([b"more"], timestamps_ms=0))
        assert [r.value for r in consumer.poll(timeout_ms=PATIENCE_MS)] == [b"more"]
    assert not coordinator_of(cluster).members


def test_a_callback_that_ctrl_c_ends_was_called_once(cluster: FakeCluster) -> None:
    calls: list[str] = []

    def on_assigned(partitions: list[TopicPartition]) -> None:
        calls.append("assigned")
        interrupt_after(0.1)
        threading.Event().wait(PATIENCE_MS / 1000)

    with consumer_of(cluster) as consumer:
        consumer.subscribe(["t"], on_assigned=on_assigned)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(timeout_ms=PATIENCE_MS)
        read_all(consumer)
        assert calls == ["assigned"]


def test_a_poll_ends_when_another_thread_closes_the_consumer(cluster: FakeCluster) -> None:
    consumer = consumer_of(cluster)
    consumer.subscribe(["t"])
    read_all(consumer)
    closing = threading.Timer(0.3, consumer.close)
    closing.start()
    with pytest.raises(ClientClosedError):
        consumer.poll(timeout_ms=PATIENCE_MS)
    closing.join()
    assert not coordinator_of(cluster).members


def test_a_signal_handler_may_close_the_consumer_that_polls(cluster: FakeCluster) -> None:
    consumer = consumer_of(cluster)
    consumer.subscribe(["t"])
    read_all(consumer)
    signal.signal(signal.SIGALRM, lambda number, frame: consumer.close())
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(ClientClosedError):
        consumer.poll(timeout_ms=PATIENCE_MS)
    assert not coordinator_of(cluster).members and len(coordinator_of(cluster).offsets) == 2


PROGRAM = """
import sys
from penstock import Consumer
consumer = Consumer(sys.argv[1], group_id="g", auto_offset_reset="earliest")
consumer.subscribe(["t"], on_revoked=lambda partitions: consumer.commit())
while not consumer.poll(timeout_ms=1000):
    pass
{end}
"""


@pytest.mark.parametrize("end", ["print('done')", "raise SystemExit(0)"])
def test_a_program_that_ends_without_a_close_commits_nothing_of_its_last_poll(cluster: FakeCluster, end: str) -> None:
    command = [quick_python(), "-c", PROGRAM.format(end=end), cluster.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert coordinator_of(cluster).heartbeats[-1].member_epoch == -1
    assert not coordinator_of(cluster).members
    assert {part.offset for part in coordinator_of(cluster).offsets.values()} == {0}


def test_a_forked_child_is_no_member_and_its_end_takes_nothing_from_its_parent(cluster: FakeCluster) -> None:
    with consumer_of(cluster) as consumer:
        consumer.subscribe(["t"])
        read_all(consumer)
        before = len(coordinator_of(cluster).heartbeats)
        assert in_child(consumer.poll).startswith(ForkedClientError.__name__)
        assert in_child(lambda: consumer.close()) == "None"
        wait_until(lambda: len(coordinator_of(cluster).heartbeats) > before + 2, 20)
        assert len(coordinator_of(cluster).members) == 1
        cluster.append("t", 0, build_batch([b"more"], timestamps_ms=0))
        assert [r.value for r in consumer.poll(timeout_ms=PATIENCE_MS)] == [b"more"]


def test_a_loop_over_records_has_callbacks_too(cluster: FakeCluster) -> None:
    heard: list[list[TopicPartition]] = []
    with consumer_of(cluster) as consumer:
        consumer.subscribe(["t"], on_assigned=heard.append)
        for seen, _ in enumerate(consumer, 1):
            if seen == 20:
                break
        assert heard == [T]


def test_a_table_is_polled_from_a_group(cluster: FakeCluster) -> None:
    with consumer_of(cluster) as consumer:
        consumer.subscribe(["t"])
        rows = 0
        while rows < 20:
            rows += consumer.poll_arrow(timeout_ms=PATIENCE_MS).num_rows
    assert {part.offset for part in coordinator_of(cluster).offsets.values()} == {10}
