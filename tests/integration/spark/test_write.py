"""Promises about writing with Spark, on a real node and a real JVM."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.testing import Cluster
from tests.integration.spark.conftest import FillTopic
from tests.support.decided import wait_topic_decided

pytestmark = pytest.mark.spark


def read(spark: SparkSession, cluster: Cluster, topic: str) -> DataFrame:
    wait_topic_decided(cluster.bootstrap, topic)
    options = {"bootstrap": cluster.bootstrap, "subscribe": topic, "includeHeaders": "true"}
    return spark.read.format("penstock").options(**options).load()


def test_rows_come_back_as_they_were_written(spark: SparkSession, cluster: Cluster, fill_topic: FillTopic) -> None:
    one, two = fill_topic(), fill_topic()
    frame = spark.range(0, 60, 1, 3).selectExpr(
        "string(id) AS value",
        "CASE WHEN id % 5 > 0 THEN binary(string(id)) END AS key",
        f"if(id < 40, '{one}', '{two}') AS topic",
        "CASE WHEN id % 2 = 0 THEN int(id % 3) END AS partition",
        "CASE WHEN id < 10 THEN array(named_struct('key', 'h', 'value', binary(string(id)))) END AS headers",
    )
    frame.write.format("penstock").option("bootstrap", cluster.bootstrap).mode("append").save()
    found = {int(row.value): row for topic in (one, two) for row in read(spark, cluster, topic).collect()}
    assert sorted(found) == list(range(60))
    for number, row in found.items():
        assert row.topic == (one if number < 40 else two)
        assert row.key == (b"%d" % number if number % 5 else None)
        assert number % 2 or row.partition == number % 3
        assert [tuple(pair) for pair in row.headers or ()] == ([("h", b"%d" % number)] if number < 10 else [])


def test_a_stream_carries_a_topic_into_another(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    source, target = fill_topic([b"%d" % number for number in range(90)]), fill_topic()
    stream = (
        spark.readStream.format("penstock")
        .options(bootstrap=cluster.bootstrap, subscribe=source, startingOffsets="earliest", includeHeaders="true")
        .load()
        .select("key", "value", "headers", "partition")
    )
    query = (
        stream.writeStream.format("penstock")
        .options(bootstrap=cluster.bootstrap, topic=target, checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.lastProgress
    assert progress is not None
    assert (progress.numInputRows, progress.sink.numOutputRows) == (90, 90)
    columns = ("partition", "offset", "key", "value", "headers")
    want = read(spark, cluster, source).select(*columns).orderBy("partition", "offset").collect()
    assert read(spark, cluster, target).select(*columns).orderBy("partition", "offset").collect() == want


def test_mistakes_are_told_in_a_sentence(spark: SparkSession, cluster: Cluster, fill_topic: FillTopic) -> None:
    topic = fill_topic()
    rows = spark.range(2).selectExpr("string(id) AS value")
    to_topic = {"bootstrap": cluster.bootstrap, "topic": topic}
    with pytest.raises(PySparkException, match="mode 'overwrite' is refused"):
        rows.write.format("penstock").options(**to_topic).mode("overwrite").save()
    with pytest.raises(PySparkException, match="a write needs a topic"):
        rows.write.format("penstock").option("bootstrap", cluster.bootstrap).mode("append").save()
    with pytest.raises(PySparkException, match="row 0 of this Spark task has a null topic"):
        nulls = rows.selectExpr("value", "cast(null AS string) AS topic")
        nulls.write.format("penstock").option("bootstrap", cluster.bootstrap).mode("append").save()
    assert read(spark, cluster, topic).count() == 0
