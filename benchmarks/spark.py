"""Rows a second that Spark reads from a topic, beside a tuple-by-tuple Python source on the same client. JSON lines.

    python -m benchmarks.spark [--rows 1500000] [--rounds 2]        in the repository; under two minutes

One run, one real node, one session, one topic of 100-byte values and 12-byte keys. `penstock` is the shipped source
(raw batches, Arrow); `tuples` is what a user would write: a data source that polls a `Consumer` and yields tuples.
`count` shows the way into Spark, `parquet` adds Spark's own work, which is the same for both; `sink` is the shipped
writer from a generated table. Best of the rounds, which take turns; all on the same cores as the node.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.client.admin.admin import Admin
from penstock.client.consumer.consumer import Consumer
from penstock.client.producer.producer import Producer
from penstock.spark import spark_session
from penstock.spark.schema import source_schema
from penstock.testing import Cluster
from penstock.types import TopicPartition

PARTITIONS = 4
CHUNK_ROWS = 50_000
WARM_UP_ROWS = 20_000


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
    """The peer."""

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> StructType:
        return source_schema(False)

    def reader(self, schema: StructType) -> DataSourceReader:
        return TupleReader({"bootstrap": self.options["bootstrap"], "subscribe": self.options["subscribe"]})


def fill(bootstrap: str, topic: str, rows: int) -> None:
    with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        admin.create_topic(topic, PARTITIONS)
        futures = []
        for chunk, low in enumerate(range(0, rows, CHUNK_ROWS)):
            numbers = range(low, min(low + CHUNK_ROWS, rows))
            values = [b"%0100d" % number for number in numbers]
            keys = [b"key-%08d" % number for number in numbers]
            futures.append(producer.send_many(topic, values, keys=keys, partition=chunk % PARTITIONS))
        if sum(future.result() for future in futures) != rows:
            raise SystemExit("not every row was acked")


def count(frame: DataFrame, rows: int) -> None:
    found = frame.count()
    if found != rows:
        raise SystemExit(f"{found} rows instead of {rows}")


def parquet(frame: DataFrame, directory: str) -> None:
    frame.write.mode("overwrite").parquet(directory)


def timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def report(what: str, source: str, rows: int, seconds: float, ratio: float | None = None) -> None:
    line: dict[str, Any] = {"what": what, "source": source, "rows": rows, "seconds": round(seconds, 3)}
    line["rows_per_s"] = round(rows / seconds)
    if ratio is not None:
        line["ratio_to_tuples"] = round(ratio, 2)
    print(json.dumps(line), flush=True)


def frame_of(spark: SparkSession, source: str, bootstrap: str, topic: str) -> DataFrame:
    return spark.read.format(source).options(bootstrap=bootstrap, subscribe=topic).load()


def compare(spark: SparkSession, bootstrap: str, args: argparse.Namespace, directory: str) -> None:
    frames = {source: frame_of(spark, source, bootstrap, "rows") for source in ("tuples", "penstock")}
    jobs: dict[str, Callable[[DataFrame], None]] = {
        "count": lambda frame: count(frame, args.rows),
        "parquet": lambda frame: parquet(frame, directory),
    }
    for source in frames:
        count(frame_of(spark, source, bootstrap, "warm"), WARM_UP_ROWS)
        parquet(frame_of(spark, source, bootstrap, "warm"), directory)
    for what, job in jobs.items():
        best = dict.fromkeys(frames, float("inf"))
        for _ in range(args.rounds):
            for source, frame in frames.items():
                best[source] = min(best[source], timed(lambda frame=frame, job=job: job(frame)))  # type: ignore[misc]
        report(what, "tuples", args.rows, best["tuples"])
        report(what, "penstock", args.rows, best["penstock"], best["tuples"] / best["penstock"])


def write(spark: SparkSession, bootstrap: str, rows: int) -> None:
    frame = spark.range(0, rows, 1, PARTITIONS).selectExpr("lpad(string(id), 100, '0') AS value", "string(id) AS key")
    sink = frame.write.format("penstock").options(bootstrap=bootstrap, topic="sink").mode("append")
    report("sink", "penstock", rows, timed(sink.save))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_500_000)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="penstock-bench-")
    try:
        with Cluster(nodes=1, config={"log.segment.bytes": 256 * 1024 * 1024}) as cluster:
            fill(cluster.bootstrap, "warm", WARM_UP_ROWS)
            fill(cluster.bootstrap, "rows", args.rows)
            with Admin(cluster.bootstrap) as admin:
                admin.create_topic("sink", PARTITIONS)
            seconds = time.perf_counter()
            spark = spark_session("benchmark")
            report("session", "penstock", 1, time.perf_counter() - seconds)
            spark.dataSource.register(TupleSource)
            compare(spark, cluster.bootstrap, args, os.path.join(directory, "table"))
            write(spark, cluster.bootstrap, args.rows)
            spark.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
