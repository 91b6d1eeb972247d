"""Promises about bronze's table: each record once for Spark and for other tools, also where Spark's writer began it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from penstock.client.admin.admin import Admin
from penstock.client.producer.producer import Producer
from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.frame.conf import RunConf
from penstock.pipelines.frame.figures import Figures
from penstock.pipelines.frame.job_context import JobContext
from penstock.pipelines.jobs.bronze import BronzeConf, run_bronze
from penstock.pipelines.parquet_table.sink_log import interval_of, path_in
from penstock.pipelines.table_files import table_files
from penstock.testing import Cluster
from tests.integration.spark.conftest import FillTopic, add_rows
from tests.support.amount import usually

pytestmark = pytest.mark.spark

UTC_DATE = "date_from_unix_date(int(floor(unix_millis(timestamp) / 86400000)))"


def bronze(spark: SparkSession, cluster: Cluster, topic: str, table: Path, **more: Any) -> dict[str, Any]:
    conf = BronzeConf(bootstrap=cluster.bootstrap, topic=topic, output=table, **more)
    return run_bronze(conf, JobContext("bronze", RunConf(), lambda: spark, Figures("bronze")))


def by_sparks_writer(spark: SparkSession, cluster: Cluster, topic: str, table: Path) -> None:
    """As earlier versions of the job did it."""
    options = {"bootstrap": cluster.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    stream = spark.readStream.format("penstock").options(**options, maxOffsetsPerTrigger="15", includeHeaders="true")
    writer = stream.load().selectExpr("*", f"{UTC_DATE} AS date").writeStream.format("parquet").partitionBy("date")
    writer = writer.option("path", str(table)).option("checkpointLocation", str(table / "_checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def send(cluster: Cluster, topic: str, numbers: range) -> None:
    with Producer(cluster.bootstrap) as producer:
        add_rows(producer, topic, [b"%d" % number for number in numbers], 3)


def check(spark: SparkSession, table: Path, count: int) -> None:
    """All ways to the table find the same rows, each once."""
    wanted = list(range(count))
    read = spark.read.parquet(str(table))
    assert sorted(int(row.value) for row in read.select("value").collect()) == wanted
    by_log = [value for path in table_files(table) for value in pyarrow.parquet.read_table(path)["value"].to_pylist()]
    assert sorted(map(int, by_log)) == wanted
    by_directory = pyarrow.dataset.dataset(table, format="parquet", partitioning="hive").to_table(columns=["value"])
    assert sorted(map(int, by_directory["value"].to_pylist())) == wanted


def copy(spark: SparkSession, table: Path, target: Path) -> None:
    """Reads a table as a stream, as silver does; goes on where it was."""
    rows = spark.readStream.schema(spark.read.parquet(str(table)).schema).parquet(str(table))
    writer = rows.writeStream.format("parquet").option("path", str(target))
    writer.option("checkpointLocation", f"{target}-checkpoint").trigger(availableNow=True).start().awaitTermination()


def undo(directory: Path, *names: str) -> None:
    """As if the driver had died before the file was written."""
    for name in names:
        (directory / name).unlink()
        (directory / f".{name}.crc").unlink(missing_ok=True)


def test_a_table_that_sparks_writer_began_goes_on_and_every_reader_finds_each_row_once(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    topic, table = fill_topic([b"%d" % number for number in range(90)]), tmp_path / "a table"
    by_sparks_writer(spark, cluster, topic, table)
    of_spark = spark.read.parquet(str(table)).schema
    check(spark, table, 90)

    copy(spark, table, tmp_path / "copy")
    send(cluster, topic, range(90, 210))
    done = bronze(spark, cluster, topic, table, max_offsets_per_trigger=15, include_headers=True)
    assert (done["rows"], done["batches"], done["lag"]) == (120, 8, 0)
    assert (table / "_spark_metadata" / "9.compact").exists() and (table / "_spark_metadata" / "13").exists()
    check(spark, table, 210)
    assert spark.read.parquet(str(table)).schema == of_spark
    with_headers = spark.read.parquet(str(table)).where("size(headers) > 0")
    assert with_headers.count() == 30 + 40
    copy(spark, table, tmp_path / "copy")
    copied = spark.read.parquet(str(tmp_path / "copy"))
    assert copied.selectExpr("count(1)", "count(DISTINCT partition, offset)").first() == (210, 210)
    send(cluster, topic, range(210, 240))
    by_sparks_writer(spark, cluster, topic, table)  # an earlier version goes on with it
    check(spark, table, 240)


def test_a_micro_batch_that_spark_repeats_is_in_the_table_once(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    topic, table = fill_topic([b"%d" % number for number in range(60)]), tmp_path / "table"
    bronze(spark, cluster, topic, table, max_offsets_per_trigger=30)
    commits, log = table / "_checkpoint" / "commits", table / "_spark_metadata"
    undo(commits, "1")  # the driver died after the table's commit
    assert bronze(spark, cluster, topic, table)["rows"] == 0
    check(spark, table, 60)

    undo(commits, "1")
    leftovers = [path_in(line) for line in (log / "1").read_text().splitlines()[1:]]
    (table / "_pending" / "1.entry").write_bytes((log / "1").read_bytes())
    undo(log, "1")  # and now before it, when its files had their places
    send(cluster, topic, range(60, 70))
    assert bronze(spark, cluster, topic, table)["rows"] == 40
    check(spark, table, 70)
    assert leftovers and not any(path.exists() for path in leftovers)

    undo(commits, "2")
    undo(table / "_checkpoint" / "offsets", "2")  # an old copy of the checkpoint
    with pytest.raises(ConfigError, match=r"has micro-batch 2, but the checkpoint .* ends at 1"):
        bronze(spark, cluster, topic, table)


def test_an_error_of_a_task_and_one_of_the_commit_are_sentences_in_the_words_of_the_conf(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    topic, table = fill_topic([b"%d" % number for number in range(30)]), tmp_path / "table"
    table.mkdir()
    (table / "_pending").write_text("")
    with pytest.raises(PenstockError, match=r"^the table .*/table cannot be written \(.*\); when that is mended"):
        bronze(spark, cluster, topic, table)
    (table / "_pending").unlink()
    bronze(spark, cluster, topic, table)
    check(spark, table, 30)
    with Admin(cluster.bootstrap) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, 3)
    with pytest.raises(PenstockError, match=r"set fail_on_data_loss = "):
        bronze(spark, cluster, topic, table)


def test_an_empty_topic_is_an_empty_table_and_codecs_are_sparks(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    topic = fill_topic()
    assert bronze(spark, cluster, topic, tmp_path / "table")["rows"] == 0
    send(cluster, topic, range(6))
    setting = "spark.sql.parquet.compression.codec"
    for codec in usually(("zstd",), long=("zstd", "lz4_raw", "gzip", "none")):
        spark.conf.set(setting, codec)
        try:
            done = bronze(spark, cluster, topic, tmp_path / codec)
        finally:
            spark.conf.unset(setting)
        assert done["rows"] == 6
        check(spark, tmp_path / codec, 6)


def test_how_often_is_compacted_is_what_sparks_own_reader_finds(spark: SparkSession) -> None:
    log = spark._jvm.org.apache.spark.sql.execution.streaming.runtime.CompactibleFileStreamLog  # type: ignore[union-attr]
    for default in (1, 2, 4, 5, 6, 10, 17):
        for latest in (0, 3, 4, 6, 9, 16, 19, 59, 69):
            assert interval_of((latest,), default) == log.deriveCompactInterval(default, latest)


def test_a_signal_in_mid_batch_ends_a_run_and_the_next_one_has_every_row(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    """The stop is asked for when the first micro-batch is in the table; later ones are cut off or done."""
    topic, table = fill_topic([b"%d" % number for number in range(300)]), tmp_path / "table"
    conf = BronzeConf(bootstrap=cluster.bootstrap, topic=topic, output=table, max_offsets_per_trigger=30)
    stop = threading.Event()
    context = JobContext("bronze", RunConf(), lambda: spark, Figures("bronze"), stop, lambda _: stop.set())
    run_bronze(conf, context)
    bronze(spark, cluster, topic, table)
    check(spark, table, 300)
