"""Promises about batch reads, without a JVM: partitions() and read() as Spark calls them."""

from __future__ import annotations

import datetime
import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.client.consumer.raw.raw_buffer import RawBuffer
from penstock.errors import ConfigError, UnknownTopicOrPartitionError
from penstock.record.builder import build_batch
from penstock.spark import arrow_read
from penstock.spark.arrow_read import ReadSettings, read_range
from penstock.spark.batch_reader import PenstockBatchReader
from penstock.spark.options import source_options
from penstock.spark.planning import DataLossError, PlannedRange
from penstock.spark.schema import check_source_schema, source_schema
from penstock.types import MetadataOffset, TopicPartition
from tests.support.fake_log_client import FakeLogClient


@pytest.fixture
def client() -> FakeLogClient:
    fake = FakeLogClient()
    fake.create("orders", 3)
    for partition in range(2):
        for _ in range(4):
            fake.append("orders", partition, 25)
    return fake


def reader(client: FakeLogClient, schema: StructType | None = None, **more: str) -> PenstockBatchReader:
    given = {"bootstrap": "h:1", **({} if "assign" in more or "subscribePattern" in more else {"subscribe": "orders"})}
    options = source_options({**given, **more}, streaming=False)
    return PenstockBatchReader(options, schema or source_schema(options.include_headers), lambda _: client)


def rows(one: PenstockBatchReader) -> list[dict[str, Any]]:
    found = []
    for partition in one.partitions():
        for batch in one.read(partition):
            found += batch.to_pylist()
    return found


def test_every_record_is_read_once_with_all_of_kafkas_columns(client: FakeLogClient) -> None:
    found = rows(reader(client, includeHeaders="true"))
    assert len(found) == 200
    assert found[1] == {
        "key": b"k",
        "value": b"orders-0@1",
        "topic": "orders",
        "partition": 0,
        "offset": 1,
        "timestamp": datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC),
        "timestampType": 0,
        "headers": [{"key": "n", "value": b"1"}],
    }
    assert {(row["partition"], row["offset"]) for row in found} == {(p, o) for p in (0, 1) for o in range(100)}


@pytest.mark.parametrize("headers", ["true", "false"])
def test_batches_have_exactly_sparks_arrow_schema(client: FakeLogClient, headers: str) -> None:
    one = reader(client, includeHeaders=headers)
    batch = next(iter(one.read(one.partitions()[0])))
    assert batch.schema.equals(to_arrow_schema(source_schema(headers == "true"), timezone="UTC"))


def test_bounds_inside_batches_are_exact(client: FakeLogClient) -> None:
    bounds = {
        "startingOffsets": '{"orders": {"0": 30, "1": -1, "2": -2}}',
        "endingOffsets": '{"orders": {"0": 55, "1": -1, "2": -1}}',
    }
    assert [row["offset"] for row in rows(reader(client, **bounds))] == list(range(30, 55))


def test_many_small_tasks_read_the_same_rows(client: FakeLogClient) -> None:
    one = reader(client, maxRecordsPerPartition="7")
    assert len(one.partitions()) == 30
    assert sorted(row["value"] for row in rows(one)) == sorted(row["value"] for row in rows(reader(client)))


def test_a_pattern_and_assigned_partitions_choose_topics(client: FakeLogClient) -> None:
    client.create("orders-eu")
    client.append("orders-eu", 0, 3)
    assert len(rows(reader(client, subscribePattern="orders.+"))) == 3
    assert len(rows(reader(client, assign='{"orders": [1]}'))) == 100
    assert rows(reader(client, subscribePattern="nothing.*")) == []


def test_times_choose_offsets(client: FakeLogClient) -> None:
    client.append("orders", 0, 5, timestamp_ms=9000)
    found = rows(reader(client, startingTimestamp="5000", startingOffsetsByTimestampStrategy="latest"))
    assert [row["offset"] for row in found] == list(range(100, 105))
    with pytest.raises(ConfigError, match="orders-1, orders-2 has no record at or after that time"):
        reader(client, startingTimestamp="5000").partitions()
    assert len(rows(reader(client, endingTimestamp="5000"))) == 200


def test_json_must_name_exactly_the_partitions_that_are_read(client: FakeLogClient) -> None:
    with pytest.raises(ConfigError, match="lacks orders-1, orders-2 and names orders-7"):
        reader(client, startingOffsets='{"orders": {"0": 1, "7": 1}}').partitions()


def test_a_topic_that_does_not_exist_is_named_with_the_remedy(client: FakeLogClient) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="topic 'nope' does not exist; create it first"):
        reader(client, subscribe="nope").partitions()
    with pytest.raises(UnknownTopicOrPartitionError, match="partitions 0 to 2"):
        reader(client, assign='{"orders": [3]}').partitions()


def test_an_empty_topic_gives_an_empty_list_which_spark_turns_into_none(client: FakeLogClient) -> None:
    client.create("empty", 2)
    one = reader(client, subscribe="empty")
    assert one.partitions() == []
    assert list(one.read(InputPartition(None))) == []


def test_offsets_that_were_deleted_stop_the_read_or_are_skipped(client: FakeLogClient) -> None:
    bounds = {"startingOffsets": '{"orders": {"0": 10, "1": 0, "2": 0}}'}
    client.delete_below("orders", 0, 50)
    with pytest.raises(DataLossError, match=r"orders-0: offsets \[10, 50\) were deleted"):
        reader(client, **bounds).partitions()
    assert len(rows(reader(client, **bounds, failOnDataLoss="false"))) == 150


def test_retention_during_the_read_is_a_loss_too(client: FakeLogClient) -> None:
    for fail in ("true", "false"):
        one = reader(client, assign='{"orders": [0]}', failOnDataLoss=fail)
        planned = one.partitions()
        client.delete_below("orders", 0, 50)
        if fail == "true":
            with pytest.raises(DataLossError, match="deleted while they were read"):
                list(one.read(planned[0]))
        else:
            assert sum(batch.num_rows for batch in one.read(planned[0])) == 50
        client.delete_below("orders", 0, 0)


def test_a_user_may_ask_for_fewer_columns(client: FakeLogClient) -> None:
    schema = StructType([source_schema(False)["offset"], source_schema(False)["value"]])
    assert rows(reader(client, schema))[3] == {"offset": 3, "value": b"orders-0@3"}


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("val binary", "no column 'val'; did you mean 'value'"),
        ("value string", "column 'value' of a topic is binary, not string"),
        ("headers array<struct<key:string,value:binary>>", "includeHeaders=true"),
    ],
)
def test_a_schema_that_a_topic_does_not_have_is_refused(ddl: str, message: str) -> None:
    from penstock.spark.schema import SOURCE_TYPES

    name, kind = ddl.split(" ", 1)
    types = {"binary": SOURCE_TYPES["value"], "string": SOURCE_TYPES["topic"]}
    with pytest.raises(ConfigError, match=message):
        check_source_schema(StructType().add(name, types.get(kind, SOURCE_TYPES["headers"])), False)


def test_readers_and_partitions_survive_pickling(client: FakeLogClient) -> None:
    options = source_options({"bootstrap": "h:1", "subscribe": "orders"}, streaming=False)
    one = PenstockBatchReader(options, source_schema(False))
    again = pickle.loads(pickle.dumps(one))
    assert again.__dict__ == one.__dict__
    partition = reader(client).partitions()[0]
    assert pickle.loads(pickle.dumps(partition)).value == partition.value


def test_long_buffers_become_batches_of_bounded_size(client: FakeLogClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_read, "ROWS_MAX", 40)
    span = PlannedRange("orders", "id-of-orders", 0, 0, 100)
    batches = list(read_range(client, span, ReadSettings(source_schema(False))))
    assert [batch.num_rows for batch in batches] == [40, 40, 20]
    assert pa.Table.from_batches(batches)["offset"].to_pylist() == list(range(100))


def test_small_pieces_are_gathered_before_they_are_decoded() -> None:
    batches = [build_batch([b"v"], timestamps_ms=0, base_offset=offset) for offset in range(5)]
    pieces = [RawBuffer(batch, offset, offset + 1) for offset, batch in enumerate(batches)]
    found = list(arrow_read.gather(iter(pieces), 2 * len(batches[0])))
    joined = [(b"".join(batches[low:high]), low, high) for low, high in ((0, 2), (2, 4), (4, 5))]
    assert found == joined


def test_times_beyond_what_spark_counts_are_cut() -> None:
    import numpy as np

    micros = arrow_read.timestamps_us(np.array([2**62, 5, -(2**62)], np.int64)).cast(pa.int64()).to_pylist()
    assert micros[1] == 5000
    assert micros[0] == -micros[2] > 2**62


def test_the_reader_claims_no_filter_because_spark_gives_its_ranges_to_other_scans(client: FakeLogClient) -> None:
    from pyspark.sql.datasource import DataSourceReader, EqualTo, GreaterThan

    one = reader(client)
    assert one.pushFilters.__func__ is DataSourceReader.pushFilters
    filters = [EqualTo(("partition",), 1), GreaterThan(("offset",), 40)]
    assert list(one.pushFilters(filters)) == filters
    assert len(rows(one)) == 200


def test_a_read_that_begins_behind_the_end_is_told(client: FakeLogClient) -> None:
    bounds = {"startingOffsets": '{"orders": {"0": 101, "1": 100, "2": 0}}'}
    with pytest.raises(DataLossError, match="orders-0: option startingOffsets begins at 101, and the log ends at 100"):
        reader(client, **bounds).partitions()
    assert rows(reader(client, **bounds, failOnDataLoss="false")) == []


def test_a_task_knows_what_the_driver_had_seen(client: FakeLogClient) -> None:
    client.metadata, client.logs[TopicPartition("orders", 0)].epoch = MetadataOffset("c", 7), 4
    span = reader(client).partitions()[0].value[0]
    assert (span.leader_epoch, span.seen) == (4, MetadataOffset("c", 7))
