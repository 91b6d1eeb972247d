"""Transactional producers against a fake cluster: whole or not at all, whatever is lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock import AsyncProducer
from penstock.errors import (
    ClientClosedError,
    ConcurrentTransactionsError,
    ConfigError,
    CoordinatorLoadInProgressError,
    FatalProducerError,
    InvalidRecordError,
    InvalidTransactionTimeoutError,
    NetworkError,
    ProducerFencedError,
    RequestTimedOutError,
    TimedOutError,
    TransactionAbortedError,
    TransactionStateError,
    UnknownProducerIdError,
)
from penstock.record.batch import iter_headers
from penstock.record.reader import read_records
from penstock.types import TopicPartition
from tests.support.client_environment import fake_environment
from tests.support.fake_broker import FakeCluster, MemoryHost
from tests.support.fake_network import FakeNetwork
from tests.support.fake_transactions import FakeTransactions
from tests.support.virtual_time import run_virtual

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OPTIONS: dict[str, Any] = {
    "transactional_id": "tx",
    "linger_ms": 0,
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 100,
    "request_timeout_ms": 1_000,
    "delivery_timeout_ms": 5_000,
}
Make = Callable[..., AsyncProducer]


class Stage:
    """A cluster of two nodes; node 1 leads partition 0 of the topic "t", node 2 partition 1."""

    def __init__(self, cluster: FakeCluster, make: Make) -> None:
        self.cluster, self.make = cluster, make
        self.transactions = cluster.transactions or FakeTransactions(cluster)

    def committed(self) -> list[bytes | None]:
        """The records of a reader of committed ones, by the logs' own knowledge."""
        found = []
        for tp in (T0, T1):
            log = self.cluster.logs[tp]
            for start, end, data, _ in log.batches:
                ((_, header),) = iter_headers(data)
                is_aborted = any(p == header.producer_id and first <= start <= last for p, first, last in log.aborted)
                if end <= log.last_stable_offset and not is_aborted and not header.is_control:
                    found += [record.value for record in read_records(data)]
        return found

    def ends(self) -> list[tuple[int, bool]]:
        return [(end.producer_epoch, end.is_committed) for end in self.transactions.ends]


def played(story: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        network = FakeNetwork(0, (1, 3))
        with FakeCluster(2, host=MemoryHost(network)) as cluster:
            cluster.create_topic("t", 2)
            cluster.transactions = FakeTransactions(cluster)
            made: list[AsyncProducer] = []

            def make(**options: Any) -> AsyncProducer:
                given = {**OPTIONS, **options}
                made.append(AsyncProducer(cluster.bootstrap, environment=fake_environment(network), **given))
                return made[-1]

            try:
                await story(Stage(cluster, make))
            finally:
                for producer in made:
                    await producer.close(timeout=0)

    run_virtual(run())


def test_a_block_commits_all_of_its_records_under_one_epoch_and_the_next_begins_anew() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make()
        for number in range(3):
            async with producer.transaction() as t:
                futures = [await t.send("t", b"%d%d" % (number, p), partition=p) for p in (0, 1)]
            assert all(future.done() and future.exception(0) is None for future in futures)
        assert stage.committed() == [b"00", b"10", b"20", b"01", b"11", b"21"]
        assert stage.ends() == [(0, True), (1, True), (2, True)]
        headers = [header for _, _, data, _ in stage.cluster.logs[T0].batches for _, header in iter_headers(data)]
        assert [(h.producer_epoch, h.base_sequence) for h in headers if not h.is_control] == [(0, 0), (1, 0), (2, 0)]
        assert all(header.is_transactional for header in headers)
        requests = [request for _, request in stage.cluster.produced]
        assert {request.transactional_id for request in requests} == {"tx"}
        assert producer.statistics().transactions_committed == 3

    played(story)


def test_a_block_that_raises_aborts_and_its_error_goes_on() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make(linger_ms=4_000)
        with pytest.raises(KeyError):
            async with producer.transaction() as t:
                sent = await t.send("t", b"sent", partition=0)
                await producer.flush()
                waiting = await t.send("t", b"waiting", partition=1)
                raise KeyError
        assert sent.exception(0) is None and isinstance(waiting.exception(0), TransactionAbortedError)
        async with producer.transaction() as t:
            await t.send("t", b"next", partition=0)
        assert stage.committed() == [b"next"] and stage.ends() == [(0, False), (1, True)]
        assert producer.statistics().transactions_aborted == 1

    played(story)


def test_a_transaction_without_records_tells_the_coordinator_nothing() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make()
        async with producer.transaction():
            pass
        assert stage.ends() == [] and stage.transactions.producers.keys() == {"tx"}

    played(story)


def test_many_records_in_bulk_are_part_of_the_transaction() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make(batch_size=1_000)
        values = [b"%03d" % n for n in range(500)]
        async with producer.transaction() as t:
            taken = await t.send_many("t", values, partition=0)
        assert taken.result(0) == 500 and stage.committed() == values

    played(story)


def test_a_batch_that_fails_aborts_the_block_and_the_next_one_is_whole() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make()
        stage.cluster.fail_produce("t", 0, InvalidRecordError("not this one"))
        with pytest.raises(TransactionAbortedError, match="not this one"):
            async with producer.transaction() as t:
                bad = await t.send("t", b"bad", partition=0)
                good = await t.send("t", b"good", partition=1)
        assert isinstance(bad.exception(0), InvalidRecordError) and good.done()
        async with producer.transaction() as t:
            await t.send("t", b"after", partition=0)
        assert stage.committed() == [b"after"] and stage.ends() == [(0, False), (1, True)]

    played(story)


def test_a_send_after_a_failed_batch_is_refused_at_once() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make()
        stage.cluster.fail_produce("t", 0, InvalidRecordError("not this one"))
        await producer.begin_transaction()
        await producer.send("t", b"bad", partition=0)
        await producer.flush()
        with pytest.raises(TransactionAbortedError, match="not this one"):
            await producer.send("t", b"more", partition=1)
        with pytest.raises(TransactionAbortedError):
            await producer.commit_transaction()
        await producer.abort_transaction()

    played(story)


def test_a_refused_record_among_good_ones_aborts_all_of_them() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make(linger_ms=50)
        stage.cluster.bad_records = lambda records: {1: "bad"} if b"poison" in records else {}
        with pytest.raises(TransactionAbortedError, match="bad"):
            async with producer.transaction() as t:
                for value in (b"a", b"poison", b"b"):
                    await t.send("t", value, partition=0)
        assert stage.committed() == []

    played(story)


@pytest.mark.parametrize("error", [NetworkError(), RequestTimedOutError(), UnknownProducerIdError()])
def test_a_batch_whose_answer_is_lost_is_sent_again_or_ends_the_transaction(error: Any) -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make()
        stage.cluster.fail_produce("t", 0, error)
        try:
            async with producer.transaction() as t:
                await t.send("t", b"once", partition=0)
        except TransactionAbortedError:
            assert isinstance(error, UnknownProducerIdError) and stage.committed() == []
        else:
            assert stage.committed() == [b"once"]

    played(story)


def test_markers_of_the_last_transaction_that_are_not_written_yet_are_waited_for() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make(retry_backoff_ms=1_000)
        stage.cluster.fail_produce("t", 0, *[ConcurrentTransactionsError()] * 3)
        began = asyncio.get_running_loop().time()
        async with producer.transaction() as t:
            await t.send("t", b"a", partition=0)
        assert stage.committed() == [b"a"] and asyncio.get_running_loop().time() - began < 0.5

    played(story)


# -- ends that are lost ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [True, False])
def test_an_end_whose_answer_is_lost_is_asked_for_again_until_it_is_told(commits: bool) -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make()
        stage.transactions.lose("EndTxn", 3)
        await producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        await producer.flush()
        await (producer.commit_transaction if commits else producer.abort_transaction)()
        assert stage.ends() == [(0, commits)] * 4
        assert stage.committed() == ([b"a"] if commits else [])

    played(story)


def test_a_coordinator_that_moves_and_loads_is_found_again() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make()
        async with producer.transaction() as t:
            await t.send("t", b"a", partition=0)
        stage.transactions.move(2)
        stage.transactions.fail("EndTxn", CoordinatorLoadInProgressError(), ConcurrentTransactionsError())
        async with producer.transaction() as t:
            await t.send("t", b"b", partition=0)
        assert stage.committed() == [b"a", b"b"]

    played(story)


def test_a_commit_that_takes_too_long_is_a_time_out_and_the_same_call_tells_its_outcome() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make(max_block_ms=2_000)
        over = stage.transactions.hang("EndTxn")
        with pytest.raises(TimedOutError, match="the commit is not known to be done after max_block_ms=2000"):
            async with producer.transaction() as t:
                await t.send("t", b"a", partition=0)
        with pytest.raises(TransactionStateError, match="call commit_transaction"):
            await producer.begin_transaction()
        with pytest.raises(TransactionStateError, match="is being committed"):
            await producer.abort_transaction()
        over.set()
        await asyncio.sleep(5)
        await producer.commit_transaction()
        assert stage.committed() == [b"a"]
        with pytest.raises(TransactionStateError, match="the last one was committed"):
            await producer.commit_transaction()
        async with producer.transaction() as t:
            await t.send("t", b"b", partition=0)

    played(story)


def test_an_abort_that_takes_too_long_goes_on_and_the_next_transaction_waits_for_it() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make(max_block_ms=2_000)
        over = stage.transactions.hang("EndTxn")
        with pytest.raises(KeyError):
            async with producer.transaction() as t:
                await t.send("t", b"a", partition=0)
                await producer.flush()
                raise KeyError
        asyncio.get_running_loop().call_later(1, over.set)
        async with producer.transaction() as t:
            await t.send("t", b"b", partition=0)
        assert stage.committed() == [b"b"]

    played(story)


def test_a_flush_that_does_not_end_in_time_can_be_aborted() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make(max_block_ms=500)
        stage.cluster.silence(1)
        await producer.begin_transaction()
        future = await producer.send("t", b"a", partition=0)
        with pytest.raises(TimedOutError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        assert isinstance(future.exception(0), TransactionAbortedError) and stage.ends() == [(0, False)]
        stage.cluster.silence(1, on=False)
        async with producer.transaction() as t:
            await t.send("t", b"b", partition=0)
        assert stage.committed() == [b"b"]

    played(story)


@pytest.mark.parametrize("after_ms", range(0, 40, 1))
def test_a_task_that_is_cancelled_anywhere_leaves_no_open_transaction(after_ms: int) -> None:
    """The block is there whole or not at all, and the next one is not disturbed."""

    async def story(stage: Stage) -> None:
        producer = stage.make()

        async def block() -> None:
            async with producer.transaction() as t:
                for number in range(3):
                    await t.send("t", b"a%d" % number, partition=number % 2)

        task = asyncio.ensure_future(block())
        await asyncio.sleep(after_ms / 1000)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(1)
        first = sorted(value for value in stage.committed() if value is not None)
        assert first in ([], [b"a0", b"a1", b"a2"])
        try:
            await producer.begin_transaction()
        except TransactionStateError:
            assert first
            await producer.commit_transaction()
            await producer.begin_transaction()
        await producer.send("t", b"b", partition=0)
        await producer.commit_transaction()
        assert sorted(value for value in stage.committed() if value is not None) == [*first, b"b"]

    played(story)


# -- other producers, misuse, end --------------------------------------------------------------------------------------


def test_a_newer_producer_of_the_id_fences_the_older_one_and_aborts_what_it_has_open() -> None:
    async def story(stage: Stage) -> None:
        old, new = stage.make(), stage.make()
        await old.begin_transaction()
        await old.send("t", b"old", partition=0)
        await old.flush()
        async with new.transaction() as t:
            await t.send("t", b"new", partition=0)
        with pytest.raises(ProducerFencedError):
            await old.commit_transaction()
        for call in (old.begin_transaction, old.abort_transaction):
            with pytest.raises(FatalProducerError):
                await call()
        with pytest.raises(ProducerFencedError):
            await old.send("t", b"more", partition=0)
        assert stage.committed() == [b"new"]

    played(story)


def test_a_fenced_producer_in_a_block_is_told_so_although_its_batch_failed_first() -> None:
    async def story(stage: Stage) -> None:
        old, new = stage.make(), stage.make()
        with pytest.raises(ProducerFencedError):
            async with old.transaction() as t:
                await t.send("t", b"old", partition=0)
                await old.flush()
                async with new.transaction() as other:
                    await other.send("t", b"new", partition=0)
                await t.send("t", b"late", partition=0)
        assert stage.committed() == [b"new"]

    played(story)


def test_misuse_is_refused_with_what_to_write() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make()
        with pytest.raises(TransactionStateError, match=r"write `with producer.transaction\(\) as t:`"):
            await producer.send("t", b"outside")
        with pytest.raises(TransactionStateError, match="write `with"):
            await producer.send_many("t", [b"outside"])
        with pytest.raises(TransactionStateError, match="they do not nest"):
            async with producer.transaction() as t:
                await t.send("t", b"a", partition=0)
                await producer.flush()
                async with producer.transaction():
                    pass
        assert stage.ends() == [(0, False)]
        with pytest.raises(TransactionStateError, match="its `with` block has ended"):
            await t.send("t", b"late")
        plain = stage.make(transactional_id=None)
        for call in (plain.begin_transaction, plain.commit_transaction, plain.abort_transaction):
            with pytest.raises(TransactionStateError, match="make it with transactional_id="):
                await call()
        with pytest.raises(TransactionStateError, match="transactional_id"):
            plain.transaction()

    played(story)


def test_two_tasks_that_end_a_transaction_at_once_are_told_apart() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make()
        await producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        calls = producer.commit_transaction(), producer.commit_transaction(), producer.begin_transaction()
        first, *others = await asyncio.gather(*calls, return_exceptions=True)
        assert first is None and all(isinstance(other, TransactionStateError) for other in others)
        assert "one thread begins and ends transactions" in str(others[0])
        assert stage.committed() == [b"a"]

    played(story)


def test_a_close_aborts_what_is_open_and_says_so_to_its_records() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make(linger_ms=4_000)
        await producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        await producer.flush()
        waiting = await producer.send("t", b"b", partition=0)
        await producer.close()
        assert isinstance(waiting.exception(0), TransactionAbortedError)
        assert stage.ends() == [(0, False)] and stage.committed() == []
        with pytest.raises(ClientClosedError):
            await producer.begin_transaction()

    played(story)


def test_a_commit_that_a_close_turns_into_an_abort_is_told_so() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make()
        stage.cluster.silence(1)
        await producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        commit = asyncio.ensure_future(producer.commit_transaction())
        await asyncio.sleep(0.5)
        await producer.close(timeout=2)
        (error,) = await asyncio.gather(commit, return_exceptions=True)
        assert isinstance(error, (TransactionAbortedError, ClientClosedError)), error
        assert stage.ends() == [(0, False)] and stage.committed() == []

    played(story)


def test_a_close_while_a_commit_is_on_its_way_waits_for_it() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make()
        over = stage.transactions.hang("EndTxn")
        await producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        commit = asyncio.ensure_future(producer.commit_transaction())
        await asyncio.sleep(0.5)
        asyncio.get_running_loop().call_later(1, over.set)
        await producer.close(timeout=5)
        assert await commit is None and stage.committed() == [b"a"]

    played(story)


def test_a_close_does_not_wait_longer_than_it_may_for_a_coordinator_that_hangs() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make()
        stage.transactions.hang("EndTxn")
        await producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        await producer.flush()
        began = asyncio.get_running_loop().time()
        await producer.close(timeout=2)
        assert asyncio.get_running_loop().time() - began < 3

    played(story)


def test_no_coordinator_in_time_is_a_time_out_and_the_next_call_begins() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make(max_block_ms=300)
        stage.transactions.fail("InitProducerId", *[CoordinatorLoadInProgressError()] * 50)
        with pytest.raises(TimedOutError, match="no coordinator answered in time"):
            await producer.begin_transaction()
        stage.transactions._errors.clear()
        await producer.begin_transaction()

    played(story)


def test_a_time_out_above_the_brokers_limit_is_told_at_the_first_use() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.make(transaction_timeout_ms=10**9)
        stage.transactions.fail("InitProducerId", InvalidTransactionTimeoutError("transaction.max.timeout.ms=900000"))
        with pytest.raises(InvalidTransactionTimeoutError, match="900000"):
            async with producer.transaction():
                pass

    played(story)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"transactional_id": ""}, "must be a str of 1 to 255 characters"),
        ({"transactional_id": 7}, "must be a str of 1 to 255 characters"),
        ({"transactional_id": "x", "acks": 1}, "transactional_id='x' needs acks to be 'all'"),
        ({"transactional_id": "x", "retries": 0}, "needs retries to be at least 1"),
        ({"transactional_id": "x", "max_in_flight_requests_per_connection": 6}, "at most 5"),
        ({"transactional_id": "x", "enable_idempotence": False}, "needs enable_idempotence=True"),
        ({"transactional_id": "x", "transaction_timeout_ms": 0}, "must be from 1 to"),
        ({"transaction_timeout_ms": 5}, "needs transactional_id"),
    ],
)
def test_options_that_allow_no_transactions_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        AsyncProducer("h:1", **options)
