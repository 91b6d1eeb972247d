"""Compacted topics: how many offsets a range spans says nothing of how many rows it has, and a gap is no loss."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from penstock.spark.batch_reader import PenstockBatchReader
from penstock.spark.options import source_options
from penstock.spark.schema import source_schema
from penstock.spark.stream_reader import PenstockStreamReader
from tests.support.fake_log_client import FakeLogClient

LEFT = [13, 14, 40, *range(50, 60), 69]
"""The offsets that compaction has left; the log ends at 80, with an empty batch."""


@pytest.fixture
def client() -> FakeLogClient:
    fake = FakeLogClient()
    fake.create("t")
    for deltas in ([], [3, 4], [], [], [0], list(range(10)), [9], []):
        fake.append_compacted("t", 0, deltas, 10)
    return fake


def batch_rows(client: FakeLogClient, **more: str) -> list[list[int]]:
    """The offsets of each task's rows."""
    options = source_options({"bootstrap": "h:1", "subscribe": "t", **more}, streaming=False)
    reader = PenstockBatchReader(options, source_schema(False), lambda _: client)
    return [
        [offset for batch in reader.read(partition) for offset in batch["offset"].to_pylist()]
        for partition in reader.partitions()
    ]


def test_a_read_has_the_rows_that_are_left_and_no_loss(client: FakeLogClient) -> None:
    assert batch_rows(client) == [LEFT]


@pytest.mark.parametrize("size", [1, 3, 10, 11, 79])
def test_tasks_of_few_offsets_may_have_no_rows_and_together_have_all(client: FakeLogClient, size: int) -> None:
    tasks = batch_rows(client, maxRecordsPerPartition=str(size))

    assert len(tasks) == -(-80 // size)
    assert [offset for task in tasks for offset in task] == LEFT
    assert any(not task for task in tasks) or size > 10


RANGES = [(0, 10), (5, 13), (14, 15), (15, 40), (41, 50), (61, 69), (69, 80), (70, 80)]


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_bounds_within_gaps_are_exact(client: FakeLogClient, low: int, high: int) -> None:
    found = batch_rows(client, startingOffsets=f'{{"t": {{"0": {low}}}}}', endingOffsets=f'{{"t": {{"0": {high}}}}}')

    assert [offset for task in found for offset in task] == [offset for offset in LEFT if low <= offset < high]


def test_a_log_start_within_a_gap_is_no_loss_of_what_was_compacted_away_before(client: FakeLogClient) -> None:
    client.delete_below("t", 0, 25)

    assert batch_rows(client) == [[offset for offset in LEFT if offset >= 25]]


@pytest.mark.parametrize("limit", [1, 7, 10, 33, 1000])
def test_a_stream_passes_gaps_by_offsets_and_reads_every_row_once(client: FakeLogClient, limit: int) -> None:
    options = source_options({"bootstrap": "h:1", "subscribe": "t", "startingOffsets": "earliest"}, streaming=True)
    reader = PenstockStreamReader(options, source_schema(False), lambda _: client)
    start, found, micro_batches = reader.initialOffset(), [], 0

    while (end := reader.latestOffset(start, ReadMaxRows(limit))) != start:
        for partition in reader.partitions(start, end):
            found += [offset for batch in reader.read(partition) for offset in batch["offset"].to_pylist()]
        start, micro_batches = end, micro_batches + 1

    assert found == LEFT
    assert micro_batches == -(-80 // limit)
