"""Promises about a read that begins where an open transaction holds readers up: nothing is lost, nothing comes twice.

A log is readable up to its last stable offset. A group of another kind of reader, or a user, may have gone further.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.spark.batch_reader import PenstockBatchReader
from penstock.spark.options import source_options
from penstock.spark.planning import DataLossError, OffsetAt, PlannedRange
from penstock.spark.schema import source_schema
from penstock.spark.stream_reader import PenstockStreamReader
from penstock.types import TopicPartition
from tests.support.fake_log_client import FakeLogClient

PLACE = TopicPartition("orders", 0)
STARTS = [{"startingOffsets": "group", "kafka.group.id": "g"}, {"startingOffsets": json.dumps({"orders": {"0": 21}})}]


@pytest.fixture
def client() -> FakeLogClient:
    """Ten records that are readable, and eleven behind the begin of an open transaction."""
    fake = FakeLogClient()
    fake.create("orders")
    fake.append("orders", 0, 10)
    fake.logs[PLACE].undecided = 11
    fake.groups["g"] = {PLACE: OffsetAt(21)}
    return fake


def decide(client: FakeLogClient) -> None:
    """The transaction ends, and one record comes."""
    client.logs[PLACE].undecided = 0
    client.append("orders", 0, 11)
    client.append("orders", 0, 1)


def stream(client: FakeLogClient, **more: str) -> PenstockStreamReader:
    options = source_options({"bootstrap": "h:1", "subscribe": "orders", **more}, streaming=True)
    return PenstockStreamReader(options, source_schema(False), lambda _: client)


def offsets(reader: Any, *bounds: dict[str, Any]) -> list[int]:
    found: list[int] = []
    for partition in reader.partitions(*bounds):
        for batch in reader.read(partition):
            found += batch["offset"].to_pylist()
    return found


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("start", STARTS)
def test_a_stream_waits_there_and_reads_what_comes_once(
    client: FakeLogClient, start: dict[str, str], fails: str
) -> None:
    reader = stream(client, failOnDataLoss=fails, **start)
    begin = reader.initialOffset()
    end = reader.latestOffset(begin, ReadAllAvailable())
    assert end["topics"]["orders"]["partitions"]["0"][0] == 21 and offsets(reader, begin, end) == []
    assert reader.latestOffset(end, ReadAllAvailable()) == end, "it waits without micro-batches"
    decide(client)
    after = reader.latestOffset(end, ReadAllAvailable())
    assert offsets(reader, end, after) == [21]


def test_a_batch_read_that_begins_there_is_empty(client: FakeLogClient) -> None:
    given = {"bootstrap": "h:1", "subscribe": "orders", "startingOffsets": json.dumps({"orders": {"0": 15}})}
    reader = PenstockBatchReader(source_options(given, streaming=False), source_schema(False), lambda _: client)
    assert offsets(reader) == []


def test_a_range_that_was_planned_beyond_the_readable_end_is_read_whole(client: FakeLogClient) -> None:
    """By a reader of uncommitted records, before the option was changed: the task waits for the transaction."""
    begin = stream(client, startingOffsets="earliest").initialOffset()
    end = json.loads(json.dumps(begin))
    end["topics"]["orders"]["partitions"]["0"] = [21, 0]
    for fails in ("true", "false"):
        (task,) = stream(client, startingOffsets="earliest", failOnDataLoss=fails).partitions(begin, end)
        assert task.value == (PlannedRange("orders", "id-of-orders", 0, 0, 21, 0),)


@pytest.mark.parametrize("undecided", [0, 5])
def test_beyond_the_high_watermark_is_still_a_loss(client: FakeLogClient, undecided: int) -> None:
    client.logs[PLACE].undecided = undecided
    reader = stream(client, **STARTS[1])
    begin = reader.initialOffset()
    with pytest.raises(DataLossError, match="the log ends at 10, before the 21 that was read"):
        reader.latestOffset(begin, ReadAllAvailable())
    lenient = stream(client, failOnDataLoss="false", **STARTS[1])
    end = lenient.latestOffset(begin, ReadAllAvailable())
    assert end["topics"]["orders"]["partitions"]["0"][0] == 10


def test_the_high_watermark_is_asked_for_only_where_it_matters(client: FakeLogClient) -> None:
    client.high_watermarks = None  # type: ignore[method-assign,assignment]
    reader = stream(client, startingOffsets="earliest")
    begin = reader.initialOffset()
    assert offsets(reader, begin, reader.latestOffset(begin, ReadAllAvailable())) == list(range(10))


def test_a_pattern_reads_no_topic_of_the_clusters_own_and_forgets_those_that_it_read(client: FakeLogClient) -> None:
    """A checkpoint of an earlier version has their offsets, and is read on."""
    for name in ("__consumer_offsets", "__transaction_state"):
        client.create(name)
        client.append(name, 0, 3)
    reader = _pattern(client)
    begin = reader.initialOffset()
    assert set(begin["topics"]) == {"orders"}
    begin["topics"]["__consumer_offsets"] = {"id": "id-of-__consumer_offsets", "partitions": {"0": [2, 0]}}
    end = reader.latestOffset(begin, ReadAllAvailable())
    assert set(end["topics"]) == {"orders"} and offsets(reader, begin, end) == list(range(10))


def _pattern(client: FakeLogClient) -> PenstockStreamReader:
    given = {"bootstrap": "h:1", "subscribePattern": ".*", "startingOffsets": "earliest"}
    return PenstockStreamReader(source_options(given, streaming=True), source_schema(False), lambda _: client)
