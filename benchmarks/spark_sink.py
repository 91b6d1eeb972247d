"""Rows a second that Spark writes to a topic: exactly once, at least once, and row by row. JSON lines.

    python -m benchmarks.spark_sink [--rows 1500000] [--rounds 5] [--quick]      in the repository

One run, one real node, one session; 100-byte values and short keys from a generated table. `write` is a batch write.
`rows` is a data source that sends each row by itself with the same client, as a user would write it. `micro-batches` is
a stream from a topic to a topic in small micro-batches. All ways take turns; the ratios are medians over the rounds, of
rows a second exactly once divided by those of the other way: above 1, exactly once is faster. `--quick` takes two
minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from benchmarks.broker_systems import ROOT
from benchmarks.spark import PARTITIONS, SEGMENT_BYTES, WARM_UP_ROWS, fill, report, timed
from penstock.client.admin.admin import Admin
from penstock.client.producer.producer import Producer
from penstock.spark import spark_session
from penstock.testing import Cluster

EXACTLY_ONCE, AT_LEAST_ONCE, ROWS = "exactly-once", "at-least-once", "rows"
GOALS = {AT_LEAST_ONCE: 0.9, ROWS: 3.0}
BATCH_ROWS, BATCHES = 2_000, 10


class RowWriter(DataSourceWriter):
    """Sends row by row and waits for all acks."""

    def __init__(self, options: dict[str, str]) -> None:
        self.bootstrap, self.topic = options["bootstrap"], options["topic"]

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        with Producer(self.bootstrap, acks="all") as producer:
            futures = [producer.send(self.topic, row.value.encode(), key=row.key.encode()) for row in iterator]
            for future in futures:
                future.result()
        return WriterCommitMessage()


class RowSink(DataSource):
    """The data source `rows`."""

    @classmethod
    def name(cls) -> str:
        return ROWS

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return RowWriter({name: str(self.options[name]) for name in ("bootstrap", "topic")})


def write(spark: SparkSession, bootstrap: str, way: str, rows: int) -> None:
    frame = spark.range(0, rows, 1, PARTITIONS).selectExpr("lpad(string(id), 100, '0') AS value", "string(id) AS key")
    sink = frame.write.format(ROWS if way == ROWS else "penstock").options(bootstrap=bootstrap, topic="sink")
    (sink if way == ROWS else sink.option("semantics", way)).mode("append").save()


def stream(spark: SparkSession, bootstrap: str, way: str, directory: Path) -> None:
    checkpoint = tempfile.mkdtemp(dir=directory)
    source = spark.readStream.format("penstock").options(
        bootstrap=bootstrap, subscribe="small", startingOffsets="earliest", maxOffsetsPerTrigger=BATCH_ROWS
    )
    sink = source.load().select("key", "value").writeStream.format("penstock")
    options = {"bootstrap": bootstrap, "topic": "sink", "semantics": way, "checkpointLocation": checkpoint}
    sink.options(**options).trigger(availableNow=True).start().awaitTermination()


def compare(what: str, ways: dict[str, Callable[[], None]], rounds: int, rows: int, **more: Any) -> None:
    """Every way once in each round, the first one not counted: it starts workers."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds + 1):
        for way, work in ways.items():
            took = timed(work)
            if number:
                seconds[way].append(took)
    for way, took_s in reversed(seconds.items()):
        others = (
            {}
            if way != EXACTLY_ONCE
            else {
                f"ratio_to_{other}": round(statistics.median(b / a for a, b in zip(took_s, theirs, strict=True)), 2)
                for other, theirs in seconds.items()
                if other != way
            }
        )
        report(what, way, rows, statistics.median(took_s), **others, **more)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_sink", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_500_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")
    args = parser.parse_args()
    rows, rounds, batches = (400_000, 3, 5) if args.quick else (args.rows, args.rounds, BATCHES)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *sys.path])  # Spark's workers import this folder
    directory = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    began = time.perf_counter()
    try:
        with Cluster(nodes=1, config={"log.segment.bytes": SEGMENT_BYTES}) as cluster:
            fill(cluster.bootstrap, "small", BATCH_ROWS * batches)
            with Admin(cluster.bootstrap) as admin:
                admin.create_topic("sink", PARTITIONS)
            spark = spark_session("benchmark")
            spark.dataSource.register(RowSink)
            for way in (EXACTLY_ONCE, AT_LEAST_ONCE, ROWS):
                write(spark, cluster.bootstrap, way, WARM_UP_ROWS)
            ways = {way: partial(write, spark, cluster.bootstrap, way, rows) for way in (EXACTLY_ONCE, *GOALS)}
            compare("write", ways, rounds, rows)
            both = (EXACTLY_ONCE, AT_LEAST_ONCE)
            streams = {way: partial(stream, spark, cluster.bootstrap, way, directory) for way in both}
            compare("micro-batches", streams, rounds, BATCH_ROWS * batches, batches=batches)
            spark.stop()
        goals = {f"ratio_to_{name}": goal for name, goal in GOALS.items()}
        print(json.dumps({"what": "goals of write", **goals, "seconds": round(time.perf_counter() - began)}))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
