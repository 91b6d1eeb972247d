"""Rows a second that Spark reads from a topic, beside the other ways to the same rows (spark_peers.py). JSON lines.

    python -m benchmarks.spark [--rows 1500000] [--rounds 3] [--peers DIR]      in the repository; some minutes

One run, one real node, one session, one topic of 100-byte values and 12-byte keys; the values are hexadecimal digits by
chance, which Parquet cannot compress either. `count` shows the way into Spark; `noop` has Spark take every column of
every row and drop it; `parquet` adds Spark's own work, which is the same for all. Spark counts its own Parquet from the
footers, so `own` has no row `count`. `sink` is our writer from a generated table. Best of the rounds, which take
turns; all on the same cores as the node. `many` is a read of 60 partitions with 50 rows each, packed into a few tasks
as it is by default, beside one task for each partition (`minPartitions`), in turns. `--peers` names the folder of a
peers.py that starts Kafka; without it, or without Java, Maven, confluent-kafka or pandas, the run says what is missing
and has no rows of Kafka.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks import broker_systems as systems
from benchmarks.spark_peers import PARTITIONS, ReadySource, TupleSource, fill_kafka, kafka_frame, kafka_settings
from penstock.client.admin.admin import Admin
from penstock.client.producer.producer import Producer
from penstock.spark import spark_session
from penstock.testing import Cluster

CHUNK_ROWS = 50_000
MANY_PARTITIONS, FEW_ROWS, MANY_ROUNDS = 60, 50, 12
WARM_UP_ROWS = 20_000
VALUE_BYTES = 100
OURS, TUPLES, KAFKA, OWN, READY = "penstock", "tuples", "kafka", "own", "ready"
SEGMENT_BYTES = 256 * 1024 * 1024
GOALS = {OWN: 0.5, KAFKA: 5.0}
"""Our rows a second, divided by the peer's."""

Chunk = tuple[list[bytes], list[bytes], int]
Action = Callable[[DataFrame], None]


@dataclass(frozen=True, slots=True)
class Peer:
    """A way to the rows: `frame` of the topic `rows` or `warm`."""

    name: str
    frame: Callable[[str], DataFrame]


def chunks(rows: int) -> Iterator[Chunk]:
    """Keys, values and a partition; the same at each call."""
    chance = random.Random(rows)
    for number, low in enumerate(range(0, rows, CHUNK_ROWS)):
        numbers = range(low, min(low + CHUNK_ROWS, rows))
        digits = chance.randbytes(VALUE_BYTES // 2 * len(numbers)).hex().encode()
        values = [digits[at : at + VALUE_BYTES] for at in range(0, len(digits), VALUE_BYTES)]
        yield [b"key-%08d" % each for each in numbers], values, number % PARTITIONS


def fill(bootstrap: str, topic: str, rows: int) -> None:
    with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        admin.create_topic(topic, PARTITIONS)
        futures = [
            producer.send_many(topic, values, keys=keys, partition=partition)
            for keys, values, partition in chunks(rows)
        ]
        if sum(future.result() for future in futures) != rows:
            raise SystemExit("not every row was acked")


def count(frame: DataFrame) -> None:
    frame.count()


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def parquet(directory: str, frame: DataFrame) -> None:
    frame.write.mode("overwrite").parquet(directory)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def report(what: str, source: str, rows: int, seconds: float, **more: Any) -> None:
    line = {"what": what, "source": source, "rows": rows, "seconds": round(seconds, 3)}
    print(json.dumps({**line, "rows_per_s": round(rows / seconds), **more}), flush=True)


def compare(peers: list[Peer], rows: int, rounds: int, directory: str) -> None:
    """Ours is the last row of each action, with its ratio to each peer: above 1, ours is faster."""
    actions: dict[str, Action] = {"count": count, "noop": noop, "parquet": partial(parquet, directory)}
    for peer in peers:
        check(peer, "warm", WARM_UP_ROWS)
        check(peer, "rows", rows)
        for action in actions.values():
            action(peer.frame("warm"))
    for what, action in actions.items():
        taking_part = [peer for peer in peers if (peer.name, what) != (OWN, "count")]
        best = {peer.name: float("inf") for peer in taking_part}
        for _ in range(rounds):
            for peer in taking_part:
                best[peer.name] = min(best[peer.name], timed(partial(action, peer.frame("rows"))))
        ours = best.pop(OURS)
        for name, seconds in best.items():
            report(what, name, rows, seconds)
        report(what, OURS, rows, ours, **{f"ratio_to_{name}": round(other / ours, 2) for name, other in best.items()})


def check(peer: Peer, topic: str, rows: int) -> None:
    """Every way must give the same rows, or its figure says nothing."""
    found = peer.frame(topic).selectExpr("count(1)", "sum(length(value))", "count(distinct key)").first()
    if peer.name != READY and (found is None or tuple(found) != (rows, rows * VALUE_BYTES, rows)):
        raise SystemExit(f"{peer.name}: {found} in {topic} instead of {rows} rows")


def write(spark: SparkSession, bootstrap: str, rows: int) -> None:
    """The first write starts Python workers and their clients, and is not counted."""
    for size in (WARM_UP_ROWS, rows):
        frame = spark.range(0, size, 1, PARTITIONS).selectExpr(
            "lpad(string(id), 100, '0') AS value", "string(id) AS key"
        )
        sink = frame.write.format("penstock").options(bootstrap=bootstrap, topic="sink").mode("append")
        seconds = timed(sink.save)
    report("sink", OURS, rows, seconds)


def many(spark: SparkSession, bootstrap: str) -> None:
    """Medians; the first rounds start workers, and are not counted."""
    with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        admin.create_topic("many", MANY_PARTITIONS)
        for partition in range(MANY_PARTITIONS):
            producer.send_many("many", [b"x" * VALUE_BYTES] * FEW_ROWS, partition=partition)
        producer.flush()
    topic = spark.read.format(OURS).options(bootstrap=bootstrap, subscribe="many")
    ways = {"packed": topic.load(), "one task each": topic.option("minPartitions", MANY_PARTITIONS).load()}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(MANY_ROUNDS):
        for name, frame in ways.items():
            took = timed(partial(noop, frame))
            if number >= MANY_ROUNDS // 4:
                seconds[name].append(took)
    rows = MANY_PARTITIONS * FEW_ROWS
    ratios = [apart / packed for packed, apart in zip(*seconds.values(), strict=True)]
    for name, took in seconds.items():
        report("many", name, rows, statistics.median(took), tasks=ways[name].rdd.getNumPartitions())
    print(json.dumps({"what": "many", "ratio_of_pairs": round(statistics.median(ratios), 2)}), flush=True)


@contextlib.contextmanager
def running_kafka(peers: Path | None, rows: int) -> Iterator[str]:
    """The address of a filled Kafka; empty, with a line that says what is missing, where there is none."""
    missing = systems.missing_for_kafka(peers)
    missing += [] if importlib.util.find_spec("pandas") else ["pandas (PyPI; mapInArrow asks for it)"]
    if peers is None or missing:
        print(f"no Kafka here; missing: {', '.join(missing)}", file=sys.stderr)
        yield ""
        return
    with systems.kafka(peers, 1) as kafka:
        for topic, some in (("warm", WARM_UP_ROWS), ("rows", rows)):
            fill_kafka(kafka.bootstrap, topic, chunks(some))
        print(json.dumps({"what": "settings", "source": KAFKA, **kafka_settings()}), flush=True)
        yield kafka.bootstrap


def all_peers(spark: SparkSession, bootstrap: str, kafka: str, tables: Path, sizes: dict[str, int]) -> list[Peer]:
    def topic_of(source: str, topic: str) -> DataFrame:
        return spark.read.format(source).options(bootstrap=bootstrap, subscribe=topic).load()

    spark.dataSource.register(TupleSource)
    spark.dataSource.register(ReadySource)
    for topic in ("warm", "rows"):
        topic_of(OURS, topic).write.parquet(str(tables / topic))
    peers = [Peer(TUPLES, partial(topic_of, TUPLES)), Peer(OURS, partial(topic_of, OURS))]
    peers.append(Peer(OWN, lambda topic: spark.read.parquet(str(tables / topic))))
    peers.append(Peer(READY, lambda topic: spark.read.format(READY).option("rows", sizes[topic]).load()))
    return peers + ([Peer(KAFKA, partial(kafka_frame, spark, kafka))] if kafka else [])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=Path, help="the folder of a peers.py that starts Kafka; without it no Kafka")
    args = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(systems.ROOT), *sys.path])  # Spark's workers import this folder
    sizes = {"warm": WARM_UP_ROWS, "rows": args.rows}
    directory = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        with (
            Cluster(nodes=1, config={"log.segment.bytes": SEGMENT_BYTES}) as cluster,
            running_kafka(args.peers and args.peers.absolute(), args.rows) as kafka,
        ):
            for topic, rows in sizes.items():
                fill(cluster.bootstrap, topic, rows)
            with Admin(cluster.bootstrap) as admin:
                admin.create_topic("sink", PARTITIONS)
            began = time.perf_counter()
            spark = spark_session("benchmark")
            report("session", OURS, 1, time.perf_counter() - began)
            peers = all_peers(spark, cluster.bootstrap, kafka, directory / "tables", sizes)
            compare(peers, args.rows, args.rounds, str(directory / "written"))
            write(spark, cluster.bootstrap, args.rows)
            many(spark, cluster.bootstrap)
            spark.stop()
        print(json.dumps({"what": "goals", **{f"ratio_to_{name}": goal for name, goal in GOALS.items()}}))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
