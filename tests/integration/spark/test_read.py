"""Promises about reading with Spark, on a real node and a real JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.client.admin.admin import Admin
from penstock.client.consumer.consumer import Consumer
from penstock.client.producer.producer import Producer
from penstock.pipelines.topic_to_parquet import PipelineOptions, topic_to_parquet
from penstock.testing import Cluster
from tests.integration.spark.conftest import FillTopic, add_rows
from tests.support.fake_broker import FakeCluster

pytestmark = pytest.mark.spark


def read(spark: SparkSession, bootstrap: str, topic: str, **more: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **more}
    return spark.read.format("penstock").options(**options).load()


def values_of(frame: DataFrame) -> list[bytes]:
    return [bytes(row.value) for row in frame.orderBy("offset").collect()]


def consumed(bootstrap: str, topic: str, count: int) -> list[tuple[Any, ...]]:
    """The topic as a consumer sees it, as rows of the source."""
    found: list[tuple[Any, ...]] = []
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))
        consumer.seek_to_beginning()
        while len(found) < count:
            found += [
                (r.partition, r.offset, r.key, r.value, r.timestamp_ms, r.timestamp_type, list(r.headers) or None)
                for r in consumer.poll(timeout_ms=1000)
            ]
    return sorted(found, key=lambda row: row[:2])


def test_spark_reads_what_a_consumer_reads_with_no_registration(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic
) -> None:
    values = [None if number == 7 else b"v%d" % number for number in range(200)]
    topic = fill_topic(values)
    frame = read(spark, cluster.bootstrap, topic, includeHeaders="true", minPartitions="5")
    rows = [
        (
            row.partition,
            row.offset,
            row.key,
            row.value,
            round(row.timestamp.timestamp() * 1000),
            row.timestampType,
            [(pair.key, pair.value) for pair in row.headers] if row.headers else None,
        )
        for row in frame.orderBy("partition", "offset").collect()
    ]
    assert rows == consumed(cluster.bootstrap, topic, 200)


def test_a_filter_on_the_timestamp_finds_records_that_are_out_of_order(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic
) -> None:
    topic = fill_topic(partitions=1)
    with Producer(cluster.bootstrap) as producer:
        for seconds in (10, 20, 30, 15, 40, 5):
            producer.send(topic, value=b"%d" % seconds, timestamp_ms=seconds * 1000)
        producer.flush()
    frame = read(spark, cluster.bootstrap, topic).where("timestamp >= timestamp_seconds(15)")
    assert [int(row.value) for row in frame.orderBy("offset").collect()] == [20, 30, 15, 40]


def test_an_empty_topic_is_an_empty_table(spark: SparkSession, cluster: Cluster, fill_topic: FillTopic) -> None:
    assert read(spark, cluster.bootstrap, fill_topic()).count() == 0


def test_a_topic_is_a_table_in_sql(spark: SparkSession, cluster: Cluster, fill_topic: FillTopic) -> None:
    topic = fill_topic([b"a", b"b", b"c"])
    spark.sql(
        f"CREATE TEMPORARY VIEW letters USING penstock OPTIONS (bootstrap '{cluster.bootstrap}', subscribe '{topic}')"
    )
    found = spark.sql("SELECT string(value) AS v FROM letters ORDER BY v DESC LIMIT 2").collect()
    assert [row.v for row in found] == ["c", "b"]


def test_a_table_is_read_and_inserted_into(spark: SparkSession, cluster: Cluster, fill_topic: FillTopic) -> None:
    topic = fill_topic([b"a"])
    table = topic.replace("-", "_")
    options = f"bootstrap '{cluster.bootstrap}', topic '{topic}'"
    spark.sql(
        f"CREATE TABLE {table} USING penstock OPTIONS ({options}) COMMENT 'c' TBLPROPERTIES ('team.name' = 'web')"
    )
    try:
        spark.sql(f"INSERT INTO {table} (value) SELECT binary('b')")
        spark.sql(f"INSERT INTO {table} (key, value) VALUES (binary('k'), binary('c'))")
        found = spark.sql(f"SELECT string(key) AS k, string(value) AS v FROM {table} ORDER BY v").collect()
        assert [tuple(row) for row in found] == [(None, "a"), (None, "b"), ("k", "c")]
        with pytest.raises(PySparkException, match="has a value in the column 'offset', which the log itself gives"):
            spark.sql(f"INSERT INTO {table} SELECT * FROM {table}")
        assert spark.table(table).count() == 3
    finally:
        spark.sql(f"DROP TABLE {table}")


def test_a_table_over_several_topics_takes_rows_that_name_their_topic(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic
) -> None:
    one, two = fill_topic([b"a"]), fill_topic([b"b"])
    spark.sql(f"CREATE TABLE several USING penstock OPTIONS (bootstrap '{cluster.bootstrap}', subscribe '{one},{two}')")
    try:
        spark.sql(f"INSERT INTO several (topic, value) VALUES ('{two}', binary('c'))")
        found = spark.sql("SELECT topic, string(value) AS v FROM several ORDER BY v").collect()
        assert [tuple(row) for row in found] == [(one, "a"), (two, "b"), (two, "c")]
    finally:
        spark.sql("DROP TABLE several")


def test_a_table_with_a_wrong_option_is_not_made(spark: SparkSession, cluster: Cluster) -> None:
    wrong = f"bootstrap '{cluster.bootstrap}', topic 't', `kafka.sasl.jaas.config` 'secret'"
    with pytest.raises(PySparkException, match=r"write kafka\.username and kafka\.password\.file"):
        spark.sql(f"CREATE TABLE wrong USING penstock OPTIONS ({wrong})")
    assert not spark.catalog.tableExists("wrong")


def test_a_wrong_option_tells_the_right_one(spark: SparkSession, cluster: Cluster) -> None:
    with pytest.raises(PySparkException, match="no option 'startingoffset'; did you mean 'startingOffsets'") as caught:
        read(spark, cluster.bootstrap, "t", startingOffset="earliest").collect()
    assert str(caught.value).splitlines()[0].endswith("did you mean 'startingOffsets'?"), "the sentence comes first"
    assert "Traceback" not in str(caught.value)


def test_a_stream_tells_its_wrong_option_in_the_first_line(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    with pytest.raises(PySparkException) as caught:
        run_stream(spark, cluster, fill_topic(), tmp_path, endingOffsets="latest")
    assert "option endingOffsets is for batch reads" in str(caught.value).splitlines()[0]


def test_deleted_records_stop_a_read_with_a_sentence(spark: SparkSession) -> None:
    with FakeCluster() as fake:
        fake.create_topic("orders")
        with Producer(fake.bootstrap, linger_ms=0) as producer:
            for _ in range(4):
                producer.send_many("orders", [b"v"] * 10).result()
        fake.delete_below("orders", 0, 20)
        wanted = {"startingOffsets": '{"orders": {"0": 5}}'}
        with pytest.raises(PySparkException, match=r"orders-0: offsets \[5, 20\) were deleted before they were read"):
            read(spark, fake.bootstrap, "orders", **wanted).count()
        assert read(spark, fake.bootstrap, "orders", **wanted, failOnDataLoss="false").count() == 20


def test_a_table_has_every_row_once_and_a_second_run_adds_what_is_new(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    topic = fill_topic([b"%d" % number for number in range(100)])
    options = PipelineOptions(max_offsets_per_trigger=40)
    first = topic_to_parquet(cluster.bootstrap, topic, tmp_path / "table", options=options, spark=spark)
    assert (first.rows, first.batches) == (100, 3)
    with Producer(cluster.bootstrap) as producer:
        add_rows(producer, topic, [b"%d" % number for number in range(100, 130)], 3)
    second = topic_to_parquet(cluster.bootstrap, topic, tmp_path / "table", options=options, spark=spark)
    assert (second.rows, second.batches) == (30, 1)
    assert second.files > 0
    table = spark.read.parquet(str(tmp_path / "table"))
    assert sorted(int(row.value) for row in table.collect()) == list(range(130))
    assert table.where("date = to_date(timestamp)").count() == 130


def test_a_stream_from_latest_misses_nothing_after_its_start(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    topic = fill_topic([b"%d" % number for number in range(10)])
    sizes = run_stream(spark, cluster, topic, tmp_path)
    assert sizes == [0]
    with Producer(cluster.bootstrap) as producer:
        add_rows(producer, topic, [b"%d" % number for number in range(10, 16)], 3)
    for commit in (tmp_path / "checkpoint" / "commits").iterdir():
        commit.unlink()  # as if it had crashed in its first micro-batch
    limit = {"maxBytesPerTrigger": "1", "maxOffsetsPerTrigger": "100"}
    sizes = run_stream(spark, cluster, topic, tmp_path, **limit)
    assert [size for size in sizes if size] == [3, 3]
    found = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted(int(row.value) for row in found) == list(range(10, 16))


def test_a_stream_tells_a_group_how_far_it_is_and_another_one_begins_there(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    topic = fill_topic([b"%d" % number for number in range(12)])
    group = {"kafka.group.id": f"spark-{topic}"}
    sizes = run_stream(
        spark, cluster, topic, tmp_path / "a", startingOffsets="earliest", commitOffsetsToGroup="true", **group
    )
    assert sizes == [12]
    with Admin(cluster.bootstrap) as admin:
        lags = admin.group_lag(group["kafka.group.id"])
    assert [found.lag for found in lags.values()] == [0, 0, 0], "also of the last micro-batch"
    with Producer(cluster.bootstrap) as producer:
        add_rows(producer, topic, [b"%d" % number for number in range(12, 15)], 3)
    assert run_stream(spark, cluster, topic, tmp_path / "b", startingOffsets="group", **group) == [3]
    assert read(spark, cluster.bootstrap, topic, startingOffsets="group", **group).count() == 3


def run_stream(spark: SparkSession, cluster: Cluster, topic: str, place: Path, **more: str) -> list[int]:
    """Everything that is new goes to a table; returns the rows of each micro-batch."""
    stream = spark.readStream.format("penstock").options(bootstrap=cluster.bootstrap, subscribe=topic, **more).load()
    writer = stream.writeStream.format("parquet").option("path", str(place / "table"))
    query = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return [progress.numInputRows for progress in query.recentProgress if "addBatch" in progress.durationMs]


def test_rows_are_committed_records_unless_all_are_asked_for(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic
) -> None:
    topic = fill_topic([b"plain"], partitions=1)
    with Producer(cluster.bootstrap, transactional_id=f"{topic}-writer") as producer:
        with producer.transaction() as transaction:
            transaction.send(topic, b"committed")
        producer.begin_transaction()
        producer.send(topic, b"aborted")
        producer.flush()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"open")
        producer.flush()
        seen = {
            level: values_of(read(spark, cluster.bootstrap, topic, **more))
            for level, more in {"committed": {}, "all": {"kafka.isolation.level": "read_uncommitted"}}.items()
        }
        producer.abort_transaction()
    assert seen == {
        "committed": [b"plain", b"committed"],
        "all": [b"plain", b"committed", b"aborted", b"open"],
    }
    assert read(spark, cluster.bootstrap, topic).count() == 2
    with pytest.raises(PySparkException, match=r"kafka\.isolation\.level='serializable'"):
        read(spark, cluster.bootstrap, topic, **{"kafka.isolation.level": "serializable"}).collect()
