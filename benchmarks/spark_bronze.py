"""Rows a second of the job bronze, beside Spark's own Parquet writer over the same source. JSON lines.

    python -m benchmarks.spark_bronze [--rows 1500000] [--rounds 3]      in the repository; two minutes

One run, one real node, one session, the topic of benchmarks/spark.py: 100-byte values of hexadecimal digits, 12-byte
keys, 4 partitions. Both ways are a stream from the topic's beginning to its present end (`availableNow`) into a table
with a directory for each day, snappy, from nothing to the last commit, and so with everything that a micro-batch costs.
They take turns; medians, and the median ratio of pairs. `cpu_s` is the processor time of Java, of Spark's workers and
of the driver; on a machine with other work it says more than the seconds. Bronze's files are on the disk when it says
so (fsync); Spark's are not. Each table is read back by Spark: every offset must be there once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from benchmarks.spark import SEGMENT_BYTES, WARM_UP_ROWS, fill, report
from penstock.pipelines.frame.conf import RunConf
from penstock.pipelines.frame.figures import Figures
from penstock.pipelines.frame.job_context import JobContext
from penstock.pipelines.jobs.bronze import BronzeConf, run_bronze
from penstock.spark import spark_session
from penstock.testing import Cluster

TASKS, SPARKS_WRITER = "bronze", "Spark's writer"
UTC_DATE = "date_from_unix_date(int(floor(unix_millis(timestamp) / 86400000)))"
GOAL = 2.0

Way = Callable[[SparkSession, str, str, Path], None]


def by_tasks(spark: SparkSession, bootstrap: str, topic: str, table: Path) -> None:
    conf = BronzeConf(bootstrap=bootstrap, topic=topic, output=table)
    run_bronze(conf, JobContext(TASKS, RunConf(), lambda: spark, Figures(TASKS)))


def by_sparks_writer(spark: SparkSession, bootstrap: str, topic: str, table: Path) -> None:
    """As bronze was before tasks wrote files."""
    options = {"bootstrap": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    stream = spark.readStream.format("penstock").options(**options).load().selectExpr("*", f"{UTC_DATE} AS date")
    writer = stream.writeStream.format("parquet").partitionBy("date").option("path", str(table))
    writer.option("checkpointLocation", str(table / "_checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()


def processor_seconds(java: int) -> float:
    """All that Java and its descendants have taken so far, and this process."""
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = stat.read_text().rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))  # with ended children
    family, more = set(), {java} & ticks.keys()
    while more:
        family |= more
        more = {pid for pid, parent in parents.items() if parent in more}
    return sum(ticks[pid] for pid in family) / os.sysconf("SC_CLK_TCK") + time.process_time()


WAYS: dict[str, Way] = {TASKS: by_tasks, SPARKS_WRITER: by_sparks_writer}


class Took(NamedTuple):
    """One run of one way."""

    seconds: float
    cpu_s: float


def measure(way: Way, spark: SparkSession, bootstrap: str, topic: str, table: Path, rows: int) -> Took:
    java = spark.sparkContext._gateway.proc.pid
    cpu_s, began = processor_seconds(java), time.perf_counter()
    way(spark, bootstrap, topic, table)
    took = Took(time.perf_counter() - began, processor_seconds(java) - cpu_s)
    found = spark.read.parquet(str(table)).selectExpr("count(1)", "count(distinct partition, offset)").first()
    if found is None or tuple(found) != (rows, rows):
        raise SystemExit(f"{found} in {table} instead of {rows} rows")
    return took


def compare(spark: SparkSession, bootstrap: str, rows: int, rounds: int, directory: Path) -> None:
    """The first round starts Python workers, and is not counted."""
    runs: dict[str, list[Took]] = {name: [] for name in WAYS}
    for number in range(rounds + 1):
        for name, way in WAYS.items():
            table = directory / f"{number} {name}"
            topic, count = ("rows", rows) if number else ("warm", WARM_UP_ROWS)
            took = measure(way, spark, bootstrap, topic, table, count)
            shutil.rmtree(table)
            if number:
                runs[name].append(took)
    for name, took in runs.items():
        cpu_s = statistics.median(one.cpu_s for one in took)
        report("bronze", name, rows, statistics.median(one.seconds for one in took), cpu_s=round(cpu_s, 2))
    pairs = list(zip(runs[TASKS], runs[SPARKS_WRITER], strict=True))
    ratios = {
        "ratio_of_pairs": round(statistics.median(sparks.seconds / ours.seconds for ours, sparks in pairs), 2),
        "ratio_of_cpu": round(statistics.median(sparks.cpu_s / ours.cpu_s for ours, sparks in pairs), 2),
    }
    print(json.dumps({"what": "bronze", **ratios, "goal": GOAL, "pairs": len(pairs)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_bronze", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_500_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        with Cluster(nodes=1, config={"log.segment.bytes": SEGMENT_BYTES}) as cluster:
            for topic, rows in (("warm", WARM_UP_ROWS), ("rows", args.rows)):
                fill(cluster.bootstrap, topic, rows)
            spark = spark_session("benchmark")
            compare(spark, cluster.bootstrap, args.rows, args.rounds, directory)
            spark.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
