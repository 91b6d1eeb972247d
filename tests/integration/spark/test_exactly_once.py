"""Promises about writing with Spark once and only once, on a real node and a real JVM."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext, inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.client.producer.producer import Producer
from penstock.client.producer.transactions.atomic_batches import AtomicBatches
from penstock.errors import ConfigError
from penstock.spark import write_batch
from penstock.testing import Cluster
from tests.integration.spark.conftest import FillTopic
from tests.spark_exactly_once.campaign import CAMPAIGN, KILLS, Options
from tests.spark_exactly_once.checkpoint import forget_last_commit, last_batch
from tests.spark_exactly_once.stream import start
from tests.spark_exactly_once.topics import PARTITIONS, counts
from tests.support.amount import at_night

pytestmark = pytest.mark.spark

ROWS, MAX_OFFSETS = 300, 100


def once(numbers: int) -> Counter[int]:
    return Counter(range(numbers))


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def add(cluster: Cluster, topic: str, values: list[bytes]) -> None:
    with Producer(cluster.bootstrap) as producer:
        for place, value in enumerate(values):
            producer.send(topic, value, partition=place % PARTITIONS)
        producer.flush()


@pytest.mark.parametrize("semantics", at_night(["exactly-once", "at-least-once"], long=["at-least-once"]))
def test_a_micro_batch_that_spark_repeats_in_another_order_counts_once(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path, semantics: str
) -> None:
    """The driver died after the sink had committed, and before the checkpoint had noted it."""
    source, target = fill_topic(numbers(ROWS)), fill_topic()

    def carry() -> None:
        given = (cluster.bootstrap, source, target, str(tmp_path), MAX_OFFSETS)
        start(spark, *given, semantics=semantics).awaitTermination()

    carry()
    assert last_batch(tmp_path / "commits") == 2
    forget_last_commit(tmp_path)
    carry()
    add(cluster, source, numbers(30, ROWS))
    carry()
    found = counts(cluster.bootstrap, target)
    if semantics == "exactly-once":
        assert found == once(ROWS + 30)
        assert counts(cluster.bootstrap, target, committed=False) == found  # the repetition sent nothing
    else:
        assert found.keys() == once(ROWS + 30).keys() and found.total() == ROWS + MAX_OFFSETS + 30


def test_tasks_and_queries_that_fail_in_the_middle_leave_no_row_twice(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    source, target = fill_topic(numbers(90)), fill_topic()
    stream = spark.readStream.format("penstock").options(
        bootstrap=cluster.bootstrap, subscribe=source, startingOffsets="earliest", minPartitions=PARTITIONS
    )
    attempts = str(tmp_path / "attempts")
    os.mkdir(attempts)

    def breaks(batches: Iterator[Any]) -> Iterator[Any]:
        """The last task of a batch fails behind its rows, in some of its attempts: once, then twice, then not."""
        yield from batches
        context = TaskContext.get()
        if context is not None and context.partitionId() == PARTITIONS - 1:
            number = len(os.listdir(attempts))
            (Path(attempts) / str(number)).touch()
            if number in (0, 2, 3):
                raise RuntimeError("broken behind its rows")

    rows = stream.load().select("value").mapInArrow(breaks, "value binary")

    def carry() -> None:
        writer = rows.writeStream.format("penstock").options(bootstrap=cluster.bootstrap, topic=target)
        checkpoint = str(tmp_path / "checkpoint")
        writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()

    carry()  # its last task was tried twice
    add(cluster, source, numbers(30, 90))
    with pytest.raises(PySparkException, match="broken behind its rows"):
        carry()
    carry()
    assert len(os.listdir(attempts)) == 5
    assert counts(cluster.bootstrap, target) == once(120)


@pytest.mark.long
def test_a_checkpoint_that_was_set_back_is_refused(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    source, target = fill_topic(numbers(100)), fill_topic()
    original, older = tmp_path / "original", tmp_path / "older"

    def carry(checkpoint: Path, **more: Any) -> None:
        start(spark, cluster.bootstrap, source, target, str(checkpoint), 1000, **more).awaitTermination()

    carry(original)
    shutil.copytree(original, older)
    add(cluster, source, numbers(100, 100))
    carry(original)
    add(cluster, source, numbers(50, 200))
    with pytest.raises(PySparkException, match=r"with 100 rows, and is repeated with 150 rows.*with a new checkpoint"):
        carry(older)
    carry(original)
    with pytest.raises(PySparkException, match=r"AtomicBatchVersionError.*set the option txnGoesBackTo=1"):
        carry(older)
    assert counts(cluster.bootstrap, target) == once(250)
    carry(older, txnGoesBackTo=1)
    assert counts(cluster.bootstrap, target) == once(250) + Counter(range(100, 250))


def test_a_run_that_another_one_has_fenced_ends(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    """As by a query with a copy of its checkpoint; Spark itself has no two queries of one id in one session."""
    source, target = fill_topic(numbers(60)), fill_topic()
    given = (spark, cluster.bootstrap, source, target, str(tmp_path), MAX_OFFSETS)
    query = start(*given, is_endless=True)
    query.processAllAvailable()
    with AtomicBatches(cluster.bootstrap) as batches:
        writer = batches.begin(str(query.id), 1, run="a copy")
        assert writer is not None
        writer.send(target, b"-1").result()
        add(cluster, source, numbers(30, 60))
        with pytest.raises(PySparkException, match=r"another run writes as .*copy of its checkpoint"):
            query.processAllAvailable()
    start(*given).awaitTermination()  # and fences the other one
    assert counts(cluster.bootstrap, target) == once(90)


def test_a_batch_write_is_there_as_a_whole_or_not_at_all(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic
) -> None:
    target = fill_topic()

    def breaks(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        context = TaskContext.get()
        if context is not None and context.partitionId() == 2:
            raise RuntimeError("broken behind its rows")

    def write(frame: DataFrame, **more: Any) -> None:
        options = {"bootstrap": cluster.bootstrap, "topic": target, **more}
        frame.write.format("penstock").options(**options).mode("append").save()

    rows = spark.range(0, 60, 1, 3).selectExpr("string(id) AS value")
    with pytest.raises(PySparkException, match="broken behind its rows"):
        write(rows.mapInArrow(breaks, "value string"))
    assert not counts(cluster.bootstrap, target)
    for _ in range(2):
        write(rows, txnAppId="the job", txnVersion=7)
    assert counts(cluster.bootstrap, target) == once(60)
    write(rows)
    assert counts(cluster.bootstrap, target).total() == 120
    with pytest.raises(PySparkException, match="set the option txnGoesBackTo=6"):
        write(rows, txnAppId="the job", txnVersion=6)


@pytest.mark.long  # test_connect.py has a micro-batch repeated that writes so, unit tests the names
def test_update_mode_writes_within_foreach_batch_once_under_each_name(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    source, totals, copies = fill_topic(numbers(60)), fill_topic(), fill_topic()
    failures: list[int] = []

    def on_batch(frame: DataFrame, batch_id: int) -> None:
        write_batch(frame, batch_id, name="totals", bootstrap=cluster.bootstrap, topic=totals)
        if not failures:
            failures.append(batch_id)
            raise RuntimeError("between two writes")
        write_batch(frame, batch_id, name="copies", bootstrap=cluster.bootstrap, topic=copies)

    stream = spark.readStream.format("penstock").options(
        bootstrap=cluster.bootstrap, subscribe=source, startingOffsets="earliest"
    )
    frame = stream.load().groupBy("partition").count().selectExpr("string(count) AS value")

    def carry() -> None:
        writer = frame.writeStream.outputMode("update").foreachBatch(on_batch)
        writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(PySparkException, match="between two writes"):
        carry()
    carry()
    add(cluster, source, numbers(30, 60))
    carry()
    wanted = Counter({20: PARTITIONS, 30: PARTITIONS})
    assert (counts(cluster.bootstrap, totals), counts(cluster.bootstrap, copies)) == (wanted, wanted)


@pytest.mark.long
def test_a_plan_that_was_lost_and_made_anew_with_as_many_other_rows_is_refused(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    """As after a power failure where the file system kept the decision's machine and not the driver's plan."""
    source, target = fill_topic(numbers(300)), fill_topic()

    def carry(max_offsets: int) -> None:
        start(spark, cluster.bootstrap, source, target, str(tmp_path), max_offsets).awaitTermination()

    carry(1000)
    add(cluster, source, numbers(60, 300))
    carry(1000)
    forget_last_commit(tmp_path)
    for name in ("1", ".1.crc"):
        (tmp_path / "offsets" / name).unlink(missing_ok=True)
    with Producer(cluster.bootstrap) as producer:
        producer.send_many(source, numbers(60, 360), partition=0).result()
    with pytest.raises(PySparkException, match=r"version 1 of .* is repeated with 60 other rows, of which none"):
        carry(60)
    assert counts(cluster.bootstrap, target) == once(360)


@pytest.mark.long
def test_rows_of_a_joined_table_that_grew_go_on_by_the_option_that_the_error_names(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    source, target, table = fill_topic(numbers(30)), fill_topic(), str(tmp_path / "table")
    checkpoint = tmp_path / "checkpoint"

    def carry(**more: Any) -> None:
        stream = spark.readStream.format("penstock").options(bootstrap=cluster.bootstrap, subscribe=source)
        rows = stream.option("startingOffsets", "earliest").load().selectExpr("int(string(value)) AS number")
        joined = rows.join(spark.read.parquet(table), "number", "left").selectExpr(
            "string(coalesce(name, -1)) AS value"
        )
        writer = joined.writeStream.format("penstock").options(bootstrap=cluster.bootstrap, topic=target, **more)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()

    spark.range(10).selectExpr("int(id) AS number", "int(id) AS name").write.parquet(table)
    carry()
    forget_last_commit(checkpoint)
    spark.range(10, 20).selectExpr("int(id) AS number", "int(id) AS name").write.mode("append").parquet(table)
    with pytest.raises(PySparkException, match=r"30 other rows.*joined table.*txnAcceptsRepetition=0 goes on"):
        carry()
    carry(txnAcceptsRepetition=0)
    assert counts(cluster.bootstrap, target) == once(10) + Counter({-1: 20})


@pytest.mark.long
def test_threads_of_a_pool_write_a_micro_batch_and_a_label_of_the_user_is_no_run(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    source = fill_topic(numbers(30))
    targets = [fill_topic() for _ in range(2)]
    refused: list[str] = []

    def on_batch(frame: DataFrame, batch_id: int) -> None:
        def one(target: str) -> None:
            write_batch(frame, batch_id, name=target, bootstrap=cluster.bootstrap, topic=target)

        with ThreadPoolExecutor(2) as pool:
            with pytest.raises(ConfigError, match="inheritable_thread_target"):
                pool.submit(one, targets[0]).result()
            refused.append("a thread that is told nothing")
            list(pool.map(inheritable_thread_target(frame.sparkSession)(one), targets))
        frame.sparkSession.sparkContext.setJobGroup("orders", "a label for the UI")

    def carry() -> None:
        stream = spark.readStream.format("penstock").options(
            bootstrap=cluster.bootstrap, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=10
        )
        writer = stream.load().select("value").writeStream.foreachBatch(on_batch)
        writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()

    carry()
    add(cluster, source, numbers(30, 30))
    carry()
    assert [counts(cluster.bootstrap, target) for target in targets] == [once(60)] * 2 and refused


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_driver_killed_after_its_commit_is_started_again() -> None:
    """The whole campaign has more kills, and nodes: python -m tests.spark_exactly_once."""
    report = CAMPAIGN.run(Options(only=(KILLS,), rows=1200, kills=1, nodes=1, repeats_last=False), print)
    assert report.ok, report.as_json()
