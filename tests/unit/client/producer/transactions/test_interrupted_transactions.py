"""Plain producers whose transactions end as programs end: Ctrl-C at any instruction, a fork, the interpreter's exit."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from penstock import Producer
from penstock.errors import TransactionStateError
from penstock.record.batch import iter_headers
from penstock.record.reader import read_records
from penstock.types import TopicPartition
from tests.support.fake_broker import FakeCluster
from tests.support.fake_transactions import FakeTransactions
from tests.support.forked import in_child
from tests.support.python_nursery import quick_python
from tests.unit.client.test_interruptions import AT_SIGNALS, interrupted

T0 = TopicPartition("t", 0)
OPTIONS: dict[str, Any] = {"transactional_id": "tx", "linger_ms": 0, "retry_backoff_ms": 1}


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as found:
        found.create_topic("t", 1)
        found.transactions = FakeTransactions(found)
        yield found


def committed(cluster: FakeCluster) -> list[bytes | None]:
    log, values = cluster.logs[T0], []
    for start, end, data, _ in log.batches:
        ((_, header),) = iter_headers(data)
        is_aborted = any(p == header.producer_id and first <= start <= last for p, first, last in log.aborted)
        if end <= log.last_stable_offset and not is_aborted and not header.is_control:
            values += [record.value for record in read_records(data)]
    return values


def begun_again(producer: Producer) -> bool:
    """Begins a transaction, whatever was interrupted; True if the last one was left open."""
    try:
        producer.begin_transaction()
    except TransactionStateError as refusal:
        is_open = "open already" in str(refusal)
        (producer.abort_transaction if is_open else producer.commit_transaction)()
        producer.begin_transaction()
        return is_open
    return False


class Aside:
    """A thread that is not interrupted does the work: sends have tests of their own (test_interruptions.py)."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.go, self.done = threading.Lock(), threading.Lock()
        self.go.acquire()
        self.done.acquire()
        self._work = work
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self.go, contextlib.suppress(TransactionStateError):  # the block was interrupted before
            self._work()
        self.done.release()

    def end(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.go.release()
        self._thread.join()


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_ctrl_c_at_any_instruction_of_a_block_leaves_it_whole_or_not_at_all(cluster: FakeCluster) -> None:
    left_open = 0
    with Producer(cluster.bootstrap, **OPTIONS) as producer:
        for moment in count():
            before = committed(cluster)

            values = [b"%d.%d" % (moment, n) for n in range(2)]
            sending = Aside(lambda values=values: [producer.send("t", value) for value in values])  # type: ignore[misc]

            def block(sending: Aside = sending) -> None:
                with producer.transaction():
                    sending.go.release()
                    sending.done.acquire()

            was_interrupted = interrupted(block, moment, AT_SIGNALS)
            sending.end()
            left_open += begun_again(producer)
            producer.send("t", b"next %d" % moment)
            producer.commit_transaction()
            new = committed(cluster)[len(before) :]
            assert new in ([b"next %d" % moment], [*values, b"next %d" % moment]), f"before instruction {moment}"
            if not was_interrupted:
                assert moment > 50 and new[:2] == values
                break
    assert left_open <= 2, "only between the body and the first instruction of the block's end"


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_an_interrupted_call_of_a_commit_can_be_called_again(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap, **OPTIONS) as producer:
        for moment in count():
            producer.begin_transaction()
            producer.send("t", b"%d" % moment)
            was_interrupted = interrupted(producer.commit_transaction, moment, AT_SIGNALS)
            if was_interrupted:
                try:
                    producer.commit_transaction()
                except TransactionStateError as refusal:
                    assert "the last one was committed" in str(refusal)
            assert committed(cluster) == [b"%d" % n for n in range(moment + 1)], f"before instruction {moment}"
            if not was_interrupted:
                assert moment > 10
                break


def test_the_end_of_a_block_in_a_forked_child_leaves_the_transaction_to_the_parent(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap, **OPTIONS) as producer:
        with producer.transaction() as t:
            t.send("t", b"a")
            assert in_child(lambda: t.__exit__(None, None, None)) == "None"
            assert in_child(lambda: t.send("t", b"b")).startswith("ForkedClientError:")
            t.send("t", b"c")
        assert committed(cluster) == [b"a", b"c"]


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "raise KeyError", "del producer"])
def test_a_program_that_ends_with_an_open_transaction_aborts_it(cluster: FakeCluster, ending: str) -> None:
    program = f"""
        import sys
        from penstock import Producer
        producer = Producer({cluster.bootstrap!r}, transactional_id="tx")
        producer.begin_transaction()
        producer.send("t", b"a").result(60)
        {ending}
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(
        [quick_python(), "-c", textwrap.dedent(program)],
        env=environment,
        stderr=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    assert cluster.transactions is not None
    assert [end.is_committed for end in cluster.transactions.ends] == [False] and committed(cluster) == []
