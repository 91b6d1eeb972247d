"""Promises about tables in SQL on a real node and a real JVM: rows go to the table that is named, by every way in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.testing import Cluster
from tests.integration.spark.conftest import FillTopic
from tests.support.decided import wait_topic_decided

pytestmark = pytest.mark.spark

NULLS = "cast(null AS int) partition, cast(null AS bigint) offset, cast(null AS timestamp) timestamp"
FULL = f"binary('k') key, binary('v') value, cast(null AS string) topic, {NULLS}, cast(null AS int) timestampType"
"""A row with the names and types that a table has, so that Spark finds nothing to change."""


class Tables(NamedTuple):
    """The topic of each table, by its name."""

    bootstrap: str
    topics: dict[str, str]


@pytest.fixture
def tables(spark: SparkSession, cluster: Cluster, fill_topic: FillTopic) -> Iterator[Tables]:
    """Two tables: `one` with two rows, `other` with none. Each has options for streams and for batch reads."""
    topics = {"one": fill_topic([b"a", b"b"]), "other": fill_topic()}
    more = "maxOffsetsPerTrigger '1', endingOffsets 'latest', startingOffsets 'latest'"
    for name, topic in topics.items():
        spark.sql(
            f"CREATE TABLE {name} USING penstock OPTIONS (bootstrap '{cluster.bootstrap}', topic '{topic}', {more})"
        )
    yield Tables(cluster.bootstrap, topics)
    for name in topics:
        spark.sql(f"DROP TABLE {name}")


def counts(spark: SparkSession, tables: Tables) -> tuple[int, ...]:
    for topic in tables.topics.values():
        wait_topic_decided(tables.bootstrap, topic)
    return tuple(spark.table(name).count() for name in tables.topics)


def test_full_rows_go_in_by_every_way_that_spark_has(spark: SparkSession, tables: Tables) -> None:
    full = spark.sql(f"SELECT {FULL}")
    full.createOrReplaceTempView("full")
    spark.sql("INSERT INTO other SELECT * FROM full")
    spark.sql("INSERT INTO other TABLE full")
    spark.sql("INSERT INTO other BY NAME SELECT * FROM full")
    full.writeTo("other").append()
    full.write.insertInto("other")
    assert counts(spark, tables) == (2, 5)
    assert {(bytes(row.key), bytes(row.value)) for row in spark.table("other").collect()} == {(b"k", b"v")}


def test_rows_that_come_from_one_table_go_to_the_other(spark: SparkSession, tables: Tables) -> None:
    """With names and types as they are, Spark used to hand on the options of the table that was read."""
    nulls = f"topic, {NULLS}, cast(null AS int) timestampType"
    spark.sql(f"INSERT INTO other SELECT key, value, cast(null AS string) {nulls} FROM one")
    spark.sql("INSERT INTO other (key, value, timestamp) SELECT key, value, timestamp FROM one")
    spark.table("one").select("value").writeTo("other").append()
    assert counts(spark, tables) == (2, 6)
    times = [{row.timestamp for row in spark.table(name).collect()} for name in tables.topics]
    assert times[0] < times[1], "a replay keeps the times of the records"


def test_a_write_that_names_no_destination_is_refused(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="a write needs the options bootstrap and topic"):
        spark.table("one").select("value").write.format("penstock").mode("append").save()
    stream: DataFrame = spark.readStream.table("one").select("key", "value")
    writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    with pytest.raises(PySparkException, match="Spark passes none of a table's options to toTable"):
        writer.toTable("other").awaitTermination()
    assert counts(spark, tables) == (2, 0)


def test_a_table_as_the_answer_of_a_query_is_not_made_with_the_options_of_the_one_that_is_read(
    spark: SparkSession, cluster: Cluster, tables: Tables, fill_topic: FillTopic
) -> None:
    options = f"bootstrap '{cluster.bootstrap}', topic '{fill_topic()}'"
    with pytest.raises(PySparkException):
        spark.sql(f"CREATE TABLE third USING penstock OPTIONS ({options}) AS SELECT * FROM one")
    spark.sql("DROP TABLE IF EXISTS third")
    assert counts(spark, tables) == (2, 0)
