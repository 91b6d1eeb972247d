"""The consumer on compacted topics: offsets with gaps, and batches that compaction has emptied."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from penstock import AsyncConsumer, Consumer, TopicPartition
from penstock.backoff import Backoff
from penstock.cli.console import consume
from penstock.client.consumer.fetching.effects import Deliver
from penstock.client.consumer.fetching.positions import Positions
from penstock.client.consumer.origin import Origin
from penstock.errors import UndecodableBatchError
from penstock.messages.fetch import PartitionFetchResult
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import read_records
from penstock.types import EpochEntry
from tests.support.fake_broker import FakeCluster

T0 = TopicPartition("t", 0)
TIME_MS = 1_700_000_000_000


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as found:
        found.create_topic("t")
        yield found


def compacted(cluster: FakeCluster, deltas: list[int], size: int = 10, codec: Codec = Codec.NONE) -> None:
    """A batch that had `size` records, of which these are left."""
    base = cluster.logs[T0].end_offset
    values = [b"%d" % (base + delta) for delta in deltas]
    times = [TIME_MS] * len(deltas)
    batch = build_batch(values, timestamps_ms=times, offset_deltas=deltas, last_offset_delta=size - 1, codec=codec)
    cluster.append("t", 0, batch)


def fill(cluster: FakeCluster) -> list[int]:
    """Every kind of gap; what is left, by offset. The log ends at 80, and its last batch is empty."""
    for deltas in ([], [3, 4], [], [], [0], list(range(10)), [9], []):
        compacted(cluster, deltas)
    return [13, 14, 40, *range(50, 60), 69]


def read_to(consumer: Consumer, end: int) -> list[int]:
    found: list[int] = []
    for _ in range(1_000):
        if consumer.position(T0) >= end:
            return found
        records = consumer.poll(timeout_ms=50)
        assert all(int(record.value or b"") == record.offset for record in records)
        found += [record.offset for record in records]
    raise AssertionError(f"position {consumer.position(T0)} never reached {end}")


def test_every_record_comes_and_the_position_passes_every_gap(cluster: FakeCluster) -> None:
    expected = fill(cluster)
    for start in (0, 5, 13, 14, 15, 29, 39, 41, 60, 69, 70, 79):
        with Consumer(cluster.bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([T0])
            consumer.seek(T0, start)
            assert read_to(consumer, 80) == [offset for offset in expected if offset >= start]
            assert consumer.position(T0) == 80


def test_gaps_are_passed_when_each_answer_has_one_batch_and_each_poll_one_record(cluster: FakeCluster) -> None:
    expected = fill(cluster)
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=1) as consumer:
        consumer.assign([T0])
        found: list[int] = []
        while len(found) < len(expected):
            found += [record.offset for record in consumer.poll(timeout_ms=60_000, max_records=1)]
            assert consumer.position(T0) > found[-1]
        assert found == expected
        assert read_to(consumer, 80) == []


def test_a_table_passes_every_gap_too(cluster: FakeCluster) -> None:
    pytest.importorskip("pyarrow")
    expected = fill(cluster)
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        found: list[int] = []
        while consumer.position(T0) < 80:
            found += consumer.poll_arrow(timeout_ms=50, max_records=3)["offset"].to_pylist()
        assert found == expected


def test_an_async_consumer_passes_every_gap_too(cluster: FakeCluster) -> None:
    expected = fill(cluster)

    async def scenario() -> list[int]:
        found: list[int] = []
        async with AsyncConsumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([T0])
            while await consumer.position(T0) < 80:
                found += [record.offset for record in await consumer.poll(timeout_ms=50)]
        return found

    assert asyncio.run(scenario()) == expected


def test_a_poll_waits_behind_an_empty_batch_instead_of_asking_again_and_again(cluster: FakeCluster) -> None:
    compacted(cluster, [])
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=60_000) as consumer:
        consumer.assign([T0])
        assert consumer.poll(timeout_ms=2_000) == []
        assert consumer.position(T0) == 10
        assert consumer.statistics().polls < 10, "looks into the buffer"
        assert len(cluster.fetches) < 10
        compacted(cluster, [7])
        cluster.grow()
        assert [record.offset for record in consumer.poll(timeout_ms=60_000)] == [17]


def test_an_empty_batch_moves_what_is_fetched_next_and_its_epoch() -> None:
    positions = Positions("none", Backoff(1, 1, Random(0)))
    positions.assign([T0])
    positions.seek(T0, 5)
    empty = build_batch([], timestamps_ms=[], base_offset=0, last_offset_delta=9, leader_epoch=4)

    answer = PartitionFetchResult(T0, "", 5, None, 10, 0, empty)
    (effect,) = positions.on_result(answer, 0)

    origin = Origin("", (EpochEntry(4, 0),))
    assert effect == Deliver(T0, positions.states[T0].generation, empty, 5, 10, origin)
    assert (positions.states[T0].fetch_offset, positions.states[T0].last_fetched_epoch) == (10, 4)


RANGES = [(0, 80), (0, 10), (11, 13), (20, 40), (35, 41), (61, 69), (69, 80), (70, 80)]


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_a_raw_range_ends_wherever_its_bounds_are(cluster: FakeCluster, low: int, high: int) -> None:
    expected = fill(cluster)
    for fetch_bytes in (1, 1 << 20):
        with Consumer(cluster.bootstrap, max_partition_fetch_bytes=fetch_bytes) as consumer:
            found: list[int] = []
            for buffer in consumer.fetch_raw("t", 0, low, high):
                found += [
                    r.offset for r in read_records(buffer.records, from_offset=buffer.from_offset, to_offset=high)
                ]
        assert found == [offset for offset in expected if low <= offset < high]


def test_consume_exits_at_an_end_that_is_an_empty_batch(
    cluster: FakeCluster, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    expected = fill(cluster)
    consume.consume("t", from_beginning=True, exit_at_end=True, bootstrap=cluster.bootstrap)
    assert capfdbinary.readouterr().out == b"".join(b"%d\n" % offset for offset in expected)


def test_consume_ends_at_a_bad_batch_unless_it_may_skip_it(
    cluster: FakeCluster, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    compacted(cluster, [1, 2])
    damaged = bytearray(build_batch([b"x", b"y"], timestamps_ms=TIME_MS))
    damaged[-3] ^= 1
    cluster.append("t", 0, bytes(damaged))
    compacted(cluster, [0])
    with pytest.raises(UndecodableBatchError, match=r"t-0: the batch at offset 10 .* add --skip-undecodable"):
        consume.consume("t", from_beginning=True, exit_at_end=True, bootstrap=cluster.bootstrap)
    assert capfdbinary.readouterr().out == b"1\n2\n"
    consume.consume("t", from_beginning=True, exit_at_end=True, skip_undecodable=True, bootstrap=cluster.bootstrap)
    out, err = capfdbinary.readouterr()
    assert out == b"1\n2\n12\n"
    assert b"t-0: offsets [10, 12) are skipped" in err


def test_consume_exits_at_once_where_nothing_is_left(
    cluster: FakeCluster, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    compacted(cluster, [])
    consume.consume("t", from_beginning=True, exit_at_end=True, bootstrap=cluster.bootstrap)
    consume.consume("t", exit_at_end=True, bootstrap=cluster.bootstrap)
    assert capfdbinary.readouterr().out == b""


@pytest.mark.parametrize("codec", Codec)
def test_thinned_batches_are_read_in_every_codec(cluster: FakeCluster, codec: Codec) -> None:
    compacted(cluster, [1, 5, 9], codec=codec)
    compacted(cluster, [], codec=codec)
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        assert read_to(consumer, 20) == [1, 5, 9]
