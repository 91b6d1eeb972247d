"""Readers of committed records get all of a committed transaction, and nothing of an aborted or an undecided one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock import AsyncConsumer, AsyncProducer
from penstock.client.consumer.fetching.partition_state import PartitionState
from penstock.client.consumer.isolation.answered_batches import read_answer
from penstock.client.options.config import consumer_config
from penstock.errors import ConfigError
from penstock.messages.fetch import AbortedTransaction
from penstock.record.batch import iter_headers, read_header, set_placement
from penstock.record.builder import build_batch
from penstock.record.reader import read_records
from penstock.record.rewrite import stretched
from penstock.types import TopicPartition
from tests.support.client_environment import fake_environment
from tests.support.fake_broker import FakeCluster, MemoryHost
from tests.support.fake_network import FakeNetwork
from tests.support.fake_transactions import FakeTransactions, marker
from tests.support.virtual_time import run_virtual

TP = TopicPartition("t", 0)

# -- answers -----------------------------------------------------------------------------------------------------------


def of(producer_id: int, *values: bytes) -> bytes:
    return build_batch(list(values), timestamps_ms=1, producer_id=producer_id, producer_epoch=0, is_transactional=True)


def ended(producer_id: int, *, is_committed: bool) -> bytes:
    return marker(producer_id, 1, is_committed=is_committed)


def log_of(*batches: bytes) -> bytes:
    """The batches, one after the other from offset 0 on."""
    placed, offset = [], 0
    for batch in batches:
        buffer = bytearray(batch)
        set_placement(buffer, 0, offset, 0)
        offset = read_header(buffer).next_offset
        placed.append(bytes(buffer))
    return b"".join(placed)


def values_of(records: bytes, *aborted: tuple[int, int]) -> list[bytes | None]:
    answer = read_answer(PartitionState(TP, 1), records, [AbortedTransaction(*one) for one in aborted])
    assert answer.damage is None
    return [record.value for record in read_records(answer.records)]


def test_only_batches_between_the_first_offset_and_the_marker_are_dropped() -> None:
    log = log_of(
        of(1, b"kept 0"),  # 0
        ended(1, is_committed=True),  # 1
        of(1, b"dropped 2", b"dropped 3"),  # 2
        of(2, b"kept 4"),  # 4
        build_batch([b"plain 5"], timestamps_ms=1),  # 5
        of(1, b"dropped 6"),  # 6
        ended(1, is_committed=False),  # 7
        of(1, b"kept 8"),  # 8
        ended(2, is_committed=True),  # 9
    )
    assert values_of(log, (1, 2)) == [b"kept 0", b"kept 4", b"plain 5", b"kept 8"]
    assert values_of(log) == [record.value for record in read_records(log)]


def test_aborted_transactions_come_in_any_order_and_a_producer_may_have_several() -> None:
    log = log_of(
        of(1, b"a"),
        of(2, b"b"),
        ended(2, is_committed=False),
        of(2, b"c"),
        ended(1, is_committed=False),
        ended(2, is_committed=True),
        of(2, b"d"),
        of(1, b"e"),
        ended(2, is_committed=False),
    )
    assert values_of(log, (2, 6), (1, 0), (2, 1)) == [b"c", b"e"]


def test_a_committed_batch_that_the_cleaner_has_stretched_over_an_aborted_one_is_kept() -> None:
    kept = of(1, b"kept")
    log = log_of(stretched(read_header(kept), kept, 9), ended(1, is_committed=False), of(1, b"next"))
    assert values_of(log, (1, 2)) == [b"kept", b"next"]


def test_an_answer_that_begins_within_an_aborted_transaction_is_dropped_up_to_its_marker() -> None:
    whole = log_of(of(1, b"a"), of(1, b"b"), ended(1, is_committed=False), of(1, b"c"))
    (_, _), (second, _), *_ = iter_headers(whole)
    assert values_of(whole[second:], (1, 0)) == [b"c"]


@pytest.mark.parametrize("seed", range(30))
def test_the_dropping_equals_a_reader_that_knows_each_transactions_end(seed: int) -> None:
    draw = random.Random(seed)
    batches: list[bytes] = []
    wanted: list[bytes] = []
    aborted: list[tuple[int, int]] = []
    open_at: dict[int, tuple[int, list[tuple[int, bytes]]]] = {}
    found: list[tuple[int, bytes]] = []
    offset = 0
    for number in range(60):
        producer = draw.randrange(4)
        if producer in open_at and draw.random() < 0.4:
            first, records = open_at.pop(producer)
            is_committed = draw.random() < 0.5
            batches.append(ended(producer, is_committed=is_committed))
            if is_committed:
                found += records
            else:
                aborted.append((producer, first))
            offset += 1
            continue
        values = [b"%d.%d" % (number, n) for n in range(draw.randint(1, 3))]
        records = open_at.setdefault(producer, (offset, []))[1]
        records += [(offset + n, value) for n, value in enumerate(values)]
        batches.append(of(producer, *values))
        offset += len(values)
    for producer, (first, _) in open_at.items():
        batches.append(ended(producer, is_committed=False))
        aborted.append((producer, first))
    draw.shuffle(aborted)
    wanted = [value for _, value in sorted(found)]
    assert values_of(log_of(*batches), *aborted) == wanted


# -- consumers ---------------------------------------------------------------------------------------------------------


Story = Callable[[FakeCluster, AsyncProducer, Callable[..., AsyncConsumer]], Awaitable[None]]


def played(story: Story) -> None:
    """The topic "t" has one partition."""

    async def run() -> None:
        network = FakeNetwork(0, (1, 3))
        with FakeCluster(1, host=MemoryHost(network)) as cluster:
            cluster.create_topic("t", 1)
            cluster.transactions = FakeTransactions(cluster)
            environment = fake_environment(network)
            made: list[Any] = []

            def consumer(level: str | None = "read_committed", **options: Any) -> AsyncConsumer:
                given = {"auto_offset_reset": "earliest", "isolation_level": level, **options}
                made.append(AsyncConsumer(cluster.bootstrap, environment=environment, **given))
                return made[-1]  # type: ignore[no-any-return]

            producer = AsyncProducer(cluster.bootstrap, environment=environment, transactional_id="tx", linger_ms=0)
            made.append(producer)
            try:
                await story(cluster, producer, consumer)
            finally:
                for client in made:
                    await client.close()

    run_virtual(run())


async def transaction(producer: AsyncProducer, *values: bytes, commits: bool = True) -> None:
    await producer.begin_transaction()
    for value in values:
        await producer.send("t", value)
        await producer.flush()
    await (producer.commit_transaction if commits else producer.abort_transaction)()


async def history(producer: AsyncProducer) -> None:
    """Two committed transactions among aborted ones; the last ends with offset 10."""
    await transaction(producer, b"gone 0", b"gone 1", commits=False)
    await transaction(producer, b"a", b"b")
    await transaction(producer, b"gone 2", commits=False)
    await transaction(producer, b"c")
    await transaction(producer, b"gone 3", commits=False)


async def values(consumer: AsyncConsumer, wait_ms: int = 2_000) -> list[bytes | None]:
    found: list[bytes | None] = []
    while records := await consumer.poll(timeout_ms=wait_ms):
        found += [record.value for record in records]
    return found


def test_aborted_records_are_given_to_readers_of_uncommitted_ones_alone() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer, make: Callable[..., AsyncConsumer]) -> None:
        await history(producer)
        for level, wanted in (
            ("read_committed", [b"a", b"b", b"c"]),
            ("read_uncommitted", [b"gone 0", b"gone 1", b"a", b"b", b"gone 2", b"c", b"gone 3"]),
            (None, [b"gone 0", b"gone 1", b"a", b"b", b"gone 2", b"c", b"gone 3"]),
        ):
            consumer = make(level)
            await consumer.assign([TP])
            assert await values(consumer) == wanted
            assert await consumer.position(TP) == cluster.logs[TP].end_offset
            assert await consumer.lag(TP) == 0

    played(story)


def test_tables_and_raw_ranges_have_no_aborted_records_either() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer, make: Callable[..., AsyncConsumer]) -> None:
        await history(producer)
        consumer = make()
        await consumer.assign([TP])
        rows: list[bytes] = []
        while (table := await consumer.poll_arrow(timeout_ms=1_000)).num_rows:
            rows += table["value"].to_pylist()
        assert rows == [b"a", b"b", b"c"]
        raw: list[bytes | None] = []
        at = 1
        async for buffer in consumer.fetch_raw("t", 0, 1, cluster.logs[TP].end_offset):
            assert buffer.from_offset == at
            at = buffer.next_offset
            raw += [r.value for r in read_records(buffer.records, from_offset=buffer.from_offset)]
        assert raw == [b"a", b"b", b"c"] and at == cluster.logs[TP].end_offset

    played(story)


def test_an_open_transaction_holds_up_readers_of_committed_records_until_it_is_decided() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer, make: Callable[..., AsyncConsumer]) -> None:
        await transaction(producer, b"a")
        consumer, other = make(), make("read_uncommitted")
        for one in (consumer, other):
            await one.assign([TP])
        await producer.begin_transaction()
        await producer.send("t", b"open")
        await producer.flush()
        assert await values(consumer) == [b"a"] and await values(other) == [b"a", b"open"]
        assert await consumer.end_offsets([TP]) == {TP: 2} and await other.end_offsets([TP]) == {TP: 3}
        assert await consumer.lag(TP) == 0
        await producer.commit_transaction()
        assert await values(consumer) == [b"open"]

    played(story)


def test_a_reader_that_begins_at_the_end_begins_at_the_last_stable_offset() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer, make: Callable[..., AsyncConsumer]) -> None:
        await transaction(producer, b"before")
        await producer.begin_transaction()
        await producer.send("t", b"open")
        await producer.flush()
        consumer = make(auto_offset_reset="latest")
        await consumer.assign([TP])
        assert await consumer.position(TP) == 2
        await producer.commit_transaction()
        assert await values(consumer) == [b"open"]

    played(story)


def test_a_poll_for_few_records_and_a_seek_go_on_over_aborted_ones() -> None:
    async def story(cluster: FakeCluster, producer: AsyncProducer, make: Callable[..., AsyncConsumer]) -> None:
        await history(producer)
        consumer = make()
        await consumer.assign([TP])
        found = [await consumer.poll(timeout_ms=1_000, max_records=1) for _ in range(4)]
        assert [[r.value for r in records] for records in found] == [[b"a"], [b"b"], [b"c"], []]
        await consumer.seek(TP, 1)
        assert await values(consumer) == [b"a", b"b", b"c"]
        record = await asyncio.wait_for(_first(consumer, 4), 5)
        assert record.value == b"b"

    played(story)


async def _first(consumer: AsyncConsumer, offset: int) -> Any:
    await consumer.seek(TP, offset)
    return await anext(consumer)


# -- options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "reads_committed"),
    [
        ({}, False),
        ({"group_id": "g"}, True),
        ({"group_id": "g", "isolation_level": "read_uncommitted"}, False),
        ({"group_id": "g", "isolation_level": None}, True),
        ({"isolation_level": "read_committed"}, True),
    ],
)
def test_a_group_reads_committed_records_unless_it_is_told_otherwise(
    options: dict[str, Any], reads_committed: bool
) -> None:
    assert consumer_config(options).reads_committed is reads_committed


@pytest.mark.parametrize("level", ["read_comitted", "READ_COMMITTED", 1, ""])
def test_an_isolation_level_that_is_none_is_refused(level: Any) -> None:
    with pytest.raises(ConfigError, match="must be 'read_committed' or 'read_uncommitted'"):
        consumer_config({"isolation_level": level})
