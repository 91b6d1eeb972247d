"""Other ways to the same rows in the same Spark session, with which benchmarks/spark.py compares the shipped source:

    tuples     a data source that polls penstock's Consumer and yields tuples, as a user would write it
    kafka      confluent-kafka in `mapInArrow` over a real Kafka, tuned (broker_client_kafka.CONSUMER)
    own        Spark's own reader of a Parquet table with the same rows
    ready      a data source whose Arrow batches are ready in the worker: what Spark's Python data sources cost alone,
               and so the upper bound of ours

All give the columns of the shipped source without headers. Spark's own Kafka source is a Java package, which a
`pip install` does not bring; it is not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.broker_client_kafka import CONSUMER, PRODUCER, SETTINGS
from penstock.client.admin.admin import Admin
from penstock.client.consumer.consumer import Consumer
from penstock.spark.schema import source_schema
from penstock.types import TopicPartition

PARTITIONS = 4
SECONDS_MAX = 120
READY_ROWS = 16_384
"""About the rows of 100 bytes in one fetch of the shipped source (log_client.FETCH_BYTES)."""
ARROW_ROWS = 10_000
"""Rows in one Arrow batch of the Kafka reader; Spark's own default of `mapInArrow`."""


class TupleReader(DataSourceReader):
    """Polls records and yields tuples."""

    def __init__(self, options: dict[str, str]) -> None:
        self.bootstrap, self.topic = options["bootstrap"], options["subscribe"]

    def partitions(self) -> list[InputPartition]:
        with Admin(self.bootstrap) as admin:
            ends = admin.list_offsets([TopicPartition(self.topic, number) for number in range(PARTITIONS)])
        return [InputPartition((tp.partition, end.offset)) for tp, end in ends.items()]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        number, end = partition.value
        tp = TopicPartition(self.topic, number)
        with Consumer(self.bootstrap) as consumer:
            consumer.assign([tp])
            consumer.seek_to_beginning()
            at = 0
            while at < end:
                for record in consumer.poll(timeout_ms=1000):
                    at = record.offset + 1
                    if at > end:
                        return
                    when = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
                    yield record.key, record.value, tp.topic, number, record.offset, when, record.timestamp_type


class TupleSource(DataSource):
    """The data source `tuples`."""

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> StructType:
        return source_schema(False)

    def reader(self, schema: StructType) -> DataSourceReader:
        return TupleReader({"bootstrap": self.options["bootstrap"], "subscribe": self.options["subscribe"]})


class ReadyReader(DataSourceReader):
    """Yields one batch again and again, of the size that the shipped source sends."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self.rows // PARTITIONS) for _ in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        schema, count = to_arrow_schema(source_schema(False), timezone="UTC"), READY_ROWS
        values = {"key": b"k" * 12, "value": b"v" * 100, "topic": "rows"}
        columns = [pa.repeat(pa.scalar(values.get(one.name, 0)).cast(one.type), count) for one in schema]
        ready = pa.RecordBatch.from_arrays(columns, schema=schema)
        for at in range(0, partition.value, count):
            yield ready.slice(0, min(count, partition.value - at))


class ReadySource(DataSource):
    """The data source `ready`."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> StructType:
        return source_schema(False)

    def reader(self, schema: StructType) -> DataSourceReader:
        return ReadyReader(int(self.options["rows"]))


def kafka_frame(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """The rows of a Kafka topic; each task reads the partition whose number it is given."""

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_kafka(bootstrap, topic, number)

    numbers = spark.range(0, PARTITIONS, 1, PARTITIONS)
    return numbers.mapInArrow(read, source_schema(False))


def read_kafka(bootstrap: str, topic: str, number: int) -> Iterator[Any]:
    """Everything that one partition holds now, as Arrow batches."""
    import pyarrow as pa
    from confluent_kafka import Consumer as KafkaConsumer
    from confluent_kafka import TopicPartition as KafkaPartition
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(source_schema(False), timezone="UTC")
    consumer = KafkaConsumer({"bootstrap.servers": bootstrap, **CONSUMER})
    try:
        _, end = consumer.get_watermark_offsets(KafkaPartition(topic, number), timeout=SECONDS_MAX)
        consumer.assign([KafkaPartition(topic, number, 0)])
        at = 0
        while at < end:
            messages = consumer.consume(min(ARROW_ROWS, end - at), SECONDS_MAX)
            if not messages:
                raise RuntimeError(f"{topic}-{number}: no record at {at} within {SECONDS_MAX} s")
            count, at = len(messages), messages[-1].offset() + 1
            times_ms = pa.array([message.timestamp()[1] for message in messages], pa.timestamp("ms", tz="UTC"))
            columns = [
                pa.array([message.key() for message in messages], pa.binary()),
                pa.array([message.value() for message in messages], pa.binary()),
                pa.repeat(pa.scalar(topic), count),
                pa.repeat(pa.scalar(number, pa.int32()), count),
                pa.array([message.offset() for message in messages], pa.int64()),
                times_ms.cast(pa.timestamp("us", tz="UTC")),
                pa.repeat(pa.scalar(0, pa.int32()), count),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
    finally:
        consumer.close()


def fill_kafka(bootstrap: str, topic: str, chunks: Iterable[tuple[list[bytes], list[bytes], int]]) -> None:
    """Sends chunks of keys, values and their partition; SystemExit if a record was not acked."""
    from confluent_kafka import Producer as KafkaProducer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(SECONDS_MAX)
    failed = 0

    def on_delivery(error: Any, message: Any) -> None:
        nonlocal failed
        failed += error is not None

    producer = KafkaProducer({"bootstrap.servers": bootstrap, **PRODUCER})
    for keys, values, partition in chunks:
        for key, value in zip(keys, values, strict=True):
            producer.produce(topic, value, key, partition, on_delivery)
        producer.flush(SECONDS_MAX)
    if failed:
        raise SystemExit(f"Kafka did not take {failed} records")


def kafka_settings() -> dict[str, Any]:
    """The settings of the peer's client, which the benchmark prints."""
    return {"consumer": SETTINGS["consumer"], "consume_records": ARROW_ROWS, "tasks": PARTITIONS}
