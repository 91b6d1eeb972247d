"""Promises about writing rows, without a JVM."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from penstock.errors import (
    ConfigError,
    InvalidRecordError,
    MessageTooLargeError,
    UnknownTopicOrPartitionError,
)
from penstock.spark.schema import GIVEN_BY_LOG, HEADERS, SOURCE_TYPES, source_schema
from penstock.spark.writing.batch_key import BatchKey
from penstock.spark.writing.sink import PenstockBatchWriter, PenstockStreamWriter, Tools, Written
from penstock.spark.writing.sink_options import AT_LEAST_ONCE, sink_options
from tests.support.fake_atomic_batches import FakeFuture, FakeProducer

KINDS = {
    "key": BinaryType(),
    "value": StringType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "headers": HEADERS,
    **{name: SOURCE_TYPES[name] for name in ("timestamp", *GIVEN_BY_LOG)},
}


def write(batch: pa.RecordBatch, topic: str = "", producer: FakeProducer | None = None) -> tuple[FakeProducer, Written]:
    made = producer or FakeProducer()
    schema = StructType()
    for name in batch.schema.names:
        schema.add(name, KINDS[name])
    options = sink_options({"bootstrap": "h:1", "semantics": AT_LEAST_ONCE, **({"topic": topic} if topic else {})})
    writer = PenstockBatchWriter(options, schema, False, Tools(producer=lambda _: made))
    written = writer.write(iter([batch.slice(0, 2), batch.slice(2)]))
    assert isinstance(written, Written)
    return made, written


def test_rows_go_in_bulk_and_in_order_and_are_counted_when_acked() -> None:
    batch = pa.record_batch({"value": ["a", "b", "c", None]})
    made, written = write(batch, "t")
    assert written.rows == 4
    assert made.bulk_sends == 2
    assert made.sent == [("t", None, None, v) for v in (b"a", b"b", b"c", None)]


def test_columns_say_topic_and_partition() -> None:
    batch = pa.record_batch(
        {
            "topic": ["x", "y", "x", "x"],
            "partition": pa.array([1, None, 0, 1], pa.int32()),
            "key": [b"k1", b"k2", b"k3", b"k4"],
            "value": ["1", "2", "3", "4"],
        }
    )
    made, _ = write(batch)
    assert sorted(made.sent, key=lambda row: row[3] or b"") == [
        ("x", 1, b"k1", b"1"),
        ("y", None, b"k2", b"2"),
        ("x", 0, b"k3", b"3"),
        ("x", 1, b"k4", b"4"),
    ]


def test_the_option_topic_goes_over_the_column() -> None:
    made, _ = write(pa.record_batch({"topic": ["x", None, "z"], "value": ["1", "2", "3"]}), "t")
    assert {row[0] for row in made.sent} == {"t"}


def test_headers_are_written_and_rows_keep_their_order() -> None:
    headers = pa.array([None, [("a", b"1")], []], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    made, written = write(pa.record_batch({"value": pa.array(["1", "2", "3"]), "headers": headers}), "t")
    assert [row[3] for row in made.sent] == [b"1", b"2", b"3"]
    assert made.headers[:2] == [None, [("a", b"1")]]
    assert written.rows == 3


def test_a_task_without_rows_is_fine() -> None:
    assert write(pa.record_batch({"value": pa.array([], pa.string())}), "t")[1].rows == 0


def test_a_null_topic_names_the_row_and_the_remedy() -> None:
    with pytest.raises(InvalidRecordError, match="row 2 of this Spark task has a null topic"):
        write(pa.record_batch({"topic": ["x", "x", None], "value": ["1", "2", "3"]}))


def test_columns_that_the_log_gives_must_be_null_as_insert_into_leaves_them() -> None:
    schema = to_arrow_schema(source_schema(False), timezone="UTC")
    columns = {field.name: pa.nulls(2, field.type) for field in schema}
    inserted = pa.record_batch({**columns, "value": pa.array([b"1", b"2"])})
    made, _ = write(inserted, "t")
    assert [row[3] for row in made.sent] == [b"1", b"2"]
    copied = pa.record_batch({**columns, "value": pa.array([b"1", b"2"]), "offset": pa.array([None, 7], pa.int64())})
    with pytest.raises(InvalidRecordError, match="row 1 of this Spark task has a value in the column 'offset'"):
        write(copied, "t")


def test_a_partition_that_is_not_there_fails_the_task_and_names_its_first_row() -> None:
    batch = pa.record_batch({"partition": pa.array([0, 1, 0, 5], pa.int32()), "value": ["1", "2", "3", "4"]})
    wanted = r"has partitions 0 to 1, not 5 \(row 3 of this Spark task, for topic 't'; \d of its rows were acked\)"
    with pytest.raises(UnknownTopicOrPartitionError, match=wanted):
        write(batch, "t")


def test_a_partition_that_came_after_the_first_task_of_a_worker_is_the_producers_to_judge() -> None:
    """Spark reuses its workers, so each attempt of a task has the same producer and its cache."""
    producer = FakeProducer()
    write(pa.record_batch({"partition": pa.array([1], pa.int32()), "value": ["1"]}), "t", producer)
    producer.partitions = 4
    write(pa.record_batch({"partition": pa.array([3], pa.int32()), "value": ["2"]}), "t", producer)
    assert producer.sent[-1] == ("t", 3, None, b"2")


def test_a_time_is_the_records_in_milliseconds_and_a_null_is_the_time_of_writing() -> None:
    times = pa.array([1_700_000_000_123_999, None, 0], pa.timestamp("us", tz="UTC"))
    made, written = write(pa.record_batch({"value": pa.array(["1", "2", "3"]), "timestamp": times}), "t")
    assert (made.times, written.rows) == ([1_700_000_000_123, None, 0], 3)
    made, _ = write(pa.record_batch({"value": ["1"], "timestamp": pa.nulls(1, times.type)}), "t")
    assert made.bulk_sends == 1


def test_a_time_before_1970_names_its_row() -> None:
    times = pa.array([1, 2, 3, -1], pa.timestamp("us", tz="UTC"))
    with pytest.raises(InvalidRecordError, match=r"^row 3 of this Spark task has a timestamp before 1970"):
        write(pa.record_batch({"value": ["1", "2", "3", "4"], "timestamp": times}), "t")


def test_a_row_that_is_not_acked_fails_the_task_and_says_where() -> None:
    producer = FakeProducer()
    producer.error = MessageTooLargeError("too large")
    place = r"\(rows 0 to 1 of this Spark task, for topic 't'; 0 of its rows were acked\)"
    message = rf"^too large {place} \(the largest is row 1\)$"
    with pytest.raises(MessageTooLargeError, match=message):
        write(pa.record_batch({"value": ["a", "large", "c"]}), "t", producer)


def test_a_record_over_the_limit_names_its_row_and_the_option_as_spark_has_it() -> None:
    class Small(FakeProducer):
        def send_many(self, topic: str, values: Any, keys: Any = None, partition: int | None = None) -> FakeFuture:
            raise MessageTooLargeError("a record has 9 bytes; the limit is max_request_size=5")

    message = (
        r"^a record has 9 bytes; the limit is kafka.max.request.size=5 \(rows 0 to 1 of this Spark task, for topic "
        r"'t'; 0 of its rows were acked\) \(the largest is row 1\)$"
    )
    with pytest.raises(MessageTooLargeError, match=message):
        write(pa.record_batch({"value": ["a", "too large", None]}), "t", Small())


def test_a_header_without_a_key_names_its_row() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[("a", b"1")], [(None, b"2")]], kind)
    with pytest.raises(InvalidRecordError, match=r"^a header has no key \(row 1 of this Spark task, for topic 't'"):
        write(pa.record_batch({"value": ["1", "2"], "headers": headers}), "t")


def plan(schema: StructType, **more: str) -> PenstockStreamWriter:
    return PenstockStreamWriter(sink_options({"bootstrap": "h:1", **more}), schema)


def test_a_schema_that_cannot_be_written_is_refused_when_it_is_planned() -> None:
    value = StructType().add("value", BinaryType())
    with pytest.raises(ConfigError, match="needs a topic: the option 'topic', or a column"):
        plan(value)
    with pytest.raises(ConfigError, match="needs a column 'value'"):
        plan(StructType().add("key", BinaryType()), topic="t")
    with pytest.raises(ConfigError, match=r"column 'id' cannot be written.*to_json"):
        plan(StructType().add("value", BinaryType()).add("id", LongType()), topic="t")
    with pytest.raises(ConfigError, match="'partition' must be int, not bigint"):
        plan(StructType().add("value", BinaryType()).add("partition", LongType()), topic="t")


def test_overwrite_is_refused_loudly() -> None:
    schema = StructType().add("value", BinaryType())
    with pytest.raises(ConfigError, match="mode 'overwrite' is refused"):
        PenstockBatchWriter(sink_options({"bootstrap": "h:1", "topic": "t"}), schema, True)


def test_writers_and_messages_survive_pickling() -> None:
    writer = plan(StructType().add("value", BinaryType()), topic="t")
    assert isinstance(pickle.loads(pickle.dumps(writer)), PenstockStreamWriter)
    written = Written(3, BatchKey("query", 7, "run"), (1000, 0))
    assert pickle.loads(pickle.dumps(written)) == written
