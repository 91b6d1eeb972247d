"""Promises to a reader of committed records: nothing of an undecided transaction, and the list of aborted ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.replication.partition import Partition
from penstock.errors import OffsetOutOfRangeError
from penstock.messages.fetch import AbortedTransaction
from penstock.record.batch import iter_headers
from penstock.record.builder import build_batch
from storage.append.append_origin import COORDINATOR, PRODUCER, AppendOrigin
from storage.segment.transaction_index import AbortedRange
from tests.support.fetchers import Fetcher, at, produce, run
from tests.support.partitions import flush
from tests.support.storage import NOW_MS
from tests.support.transactions import ABORT, COMMIT, marker_bytes
from tests.support.undecided_log import said_transactions

OPEN = 2**60
"""The marker of a transaction that has none."""


def offsets(records: bytes | memoryview) -> list[int]:
    return [header.base_offset for _, header in iter_headers(records)]


def test_records_end_before_the_first_undecided_transaction(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        said_transactions(partition).undecided[2] = OPEN
        for value in (b"a", b"b", b"c", b"d"):
            produce(partition, value)
        flush(partition)
        stream.ask(at(0), read_committed=True)
        (found,) = stream.answers[0].partitions
        assert offsets(found.records) == [0, 1]
        assert (found.last_stable_offset, found.high_watermark) == (2, 4)

    run(tmp_path, scenario)


def test_other_readers_get_all_and_are_told_where_the_stable_part_ends(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        said = said_transactions(partition)
        said.undecided[1] = OPEN
        said.ended.append(AbortedRange(7, 0, 1))
        produce(partition, b"a")
        produce(partition, b"b")
        flush(partition)
        stream.ask(at(0))
        (found,) = stream.answers[0].partitions
        assert offsets(found.records) == [0, 1] and found.last_stable_offset == 1
        assert list(found.aborted) == [] and not said.asked

    run(tmp_path, scenario)


def test_a_follower_gets_all_even_if_it_asks_for_committed_records(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        said_transactions(partition).undecided[0] = OPEN
        produce(partition, b"a")
        stream.ask(at(0), replica_id=2, read_committed=True)
        assert offsets(stream.answers[0].partitions[0].records) == [0]

    run(tmp_path, scenario, isr=(1, 2))


def test_a_marker_counts_only_below_the_high_watermark(tmp_path: Path) -> None:
    """A failover may lose the marker until then, and with it the decision as this leader knows it."""

    async def scenario(partition: Partition, stream: Fetcher) -> None:
        said = said_transactions(partition)
        produce(partition, b"a")
        said.undecided[0] = 1
        produce(partition, b"its marker")
        stream.ask(at(0), read_committed=True)
        await asyncio.sleep(0)
        assert not stream.answers
        flush(partition)
        await asyncio.sleep(0)
        (found,) = stream.answers[0].partitions
        assert offsets(found.records) == [0, 1] and found.last_stable_offset == 2

    run(tmp_path, scenario)


def test_a_waiting_reader_is_answered_when_the_transaction_is_decided(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        said = said_transactions(partition)
        said.undecided[0] = OPEN
        produce(partition, b"a")
        flush(partition)
        stream.ask(at(0), read_committed=True)
        produce(partition, b"of another one")
        flush(partition)
        await asyncio.sleep(0)
        assert not stream.answers, "the high watermark rose, the last stable offset did not"
        said.undecided[0] = 2
        produce(partition, b"its marker")
        flush(partition)
        await asyncio.sleep(0)
        assert offsets(stream.answers[0].partitions[0].records) == [0, 1, 2]

    run(tmp_path, scenario)


def test_the_aborted_transactions_are_those_of_the_records_that_are_told(tmp_path: Path) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        said = said_transactions(partition)
        said.ended += [AbortedRange(7, 0, 1), AbortedRange(8, 2, 4), AbortedRange(9, 3, 9)]
        for _ in range(6):
            produce(partition, b"x" * 1_000)
        flush(partition)
        stream.ask(at(2), read_committed=True, max_bytes=1)
        (found,) = stream.answers[0].partitions
        assert offsets(found.records) == [2]
        assert list(found.aborted) == [AbortedTransaction(8, 2)]
        assert said.asked == [(2, 3)]

    run(tmp_path, scenario)


def test_a_position_between_the_stable_end_and_the_log_end_waits(tmp_path: Path) -> None:
    """It was valid at the last leader, or for another isolation level: an error would reset it."""

    async def scenario(partition: Partition, stream: Fetcher) -> None:
        said_transactions(partition).undecided[0] = OPEN
        produce(partition, b"a")
        produce(partition, b"b")
        flush(partition)
        stream.ask(at(1), read_committed=True, wait_ms=0)
        (found,) = stream.answers[0].partitions
        assert found.error is None and not found.records and found.last_stable_offset == 0
        stream.ask(at(3), read_committed=True, wait_ms=0)
        error = stream.answers[1].partitions[0].error
        assert isinstance(error, OffsetOutOfRangeError)

    run(tmp_path, scenario)


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_stable_end_that_rose_is_news(tmp_path: Path, is_stream: bool) -> None:
    async def scenario(partition: Partition, stream: Fetcher) -> None:
        said = said_transactions(partition)
        said.undecided[1] = OPEN
        produce(partition, b"a")
        produce(partition, b"b")
        flush(partition)
        stream.ask(at(2), wait_ms=0)
        assert stream.answers[0].partitions[0].last_stable_offset == 1
        said.undecided.clear()
        stream.session.partition_changed(partition.topic_partition, True)
        stream.ask(wait_ms=0)
        assert stream.answers[1].partitions[0].last_stable_offset == 2

    run(tmp_path, scenario, is_stream=is_stream)


def test_the_transactions_of_a_log_from_its_first_batch_to_the_markers(tmp_path: Path) -> None:
    """Two producers: the one that began first is committed last, and the other one is aborted."""

    def append(partition: Partition, records: bytes, origin: AppendOrigin = PRODUCER) -> None:
        partition.append_as_leader(records, -1, 0, NOW_MS, origin)
        flush(partition)

    def data(producer_id: int, sequence: int = 0) -> bytes:
        fields: dict[str, int] = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        return build_batch([b"v"], timestamps_ms=NOW_MS, is_transactional=True, **fields)  # type: ignore[arg-type]

    async def scenario(partition: Partition, stream: Fetcher) -> None:
        produce(partition, b"plain")
        append(partition, data(1))
        append(partition, data(2))
        append(partition, marker_bytes(2, 1, ABORT), COORDINATOR)
        append(partition, data(1, 1))
        stream.ask(at(0), read_committed=True)
        (found,) = stream.answers[0].partitions
        assert (offsets(found.records), found.last_stable_offset, list(found.aborted)) == ([0], 1, [])
        stream.ask(at(1), read_committed=True)
        append(partition, marker_bytes(1, 1, COMMIT), COORDINATOR)
        await asyncio.sleep(0)
        (found,) = stream.answers[1].partitions
        assert (offsets(found.records), found.last_stable_offset) == ([1, 2, 3, 4, 5], 6)
        assert list(found.aborted) == [AbortedTransaction(2, 2)]

    run(tmp_path, scenario)
