"""Promises about a frame that is used more than once: what one scan filters, no other scan misses.

Spark keeps what it has planned of a Python source in the frame. With `filterPushdown` on, PySpark 4.3 keeps there the
ranges of the filter that was pushed last, and gives them to every other scan (`penstock.spark.batch_reader`). So each
way to use a frame again is compared with plain counting, with that option off and on.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from penstock.client.admin.admin import Admin
from penstock.client.producer.producer import Producer
from penstock.spark.session import DEFAULTS
from penstock.testing import Cluster
from penstock.types import TopicPartition
from tests.integration.spark.conftest import FillTopic
from tests.support.amount import usually
from tests.support.drawn_frames import Drawer, Record

pytestmark = pytest.mark.spark

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
PER_PARTITION = 30
PARTITIONS = 3
ALL = PER_PARTITION * PARTITIONS
PLANS = int(os.environ.get("PENSTOCK_DRAWN_PLANS", usually("1", long="2")))
"""Each takes about a second; more of them when this file is worked on."""
SEEDS = {"false": 1, "true": 2}
FEW = "partition = 1 AND offset < 10"


@pytest.fixture(params=["false", "true"])
def pushdown(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """The option as it is by default, and as a user may set it; with the rest as quick as Spark can be."""
    settings = {PUSHDOWN: request.param, "spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield request.param
    for name, was in before.items():
        spark.conf.set(name, str(was))


@pytest.fixture(scope="module")
def topic(cluster: Cluster, fill_topic: FillTopic) -> str:
    """Records with a time of their own, out of order within each partition."""
    name = fill_topic(partitions=PARTITIONS)
    with Admin(cluster.bootstrap) as admin:  # the times are of 1970: retention would take the records
        admin.alter_topic_config(name, {"retention.ms": "-1"})
    with Producer(cluster.bootstrap) as producer:
        for partition in range(PARTITIONS):
            for offset in range(PER_PARTITION):
                producer.send(name, b"%d" % offset, partition=partition, timestamp_ms=second(offset) * 1000)
        producer.flush()
    return name


def second(offset: int) -> int:
    return offset * 7 % 60


@pytest.fixture
def frame(spark: SparkSession, cluster: Cluster, topic: str, pushdown: str) -> DataFrame:
    return spark.read.format("penstock").options(bootstrap=cluster.bootstrap, subscribe=topic).load()


def the_same_frame_twice(spark: SparkSession, frame: DataFrame) -> list[int]:
    return [frame.where(FEW).count(), frame.count()]


def a_cached_part(spark: SparkSession, frame: DataFrame) -> list[int]:
    part = frame.where(FEW).cache()
    try:
        return [part.count(), frame.where("partition = 0").count(), part.count()]
    finally:
        part.unpersist()


def a_union(spark: SparkSession, frame: DataFrame) -> list[int]:
    return [frame.where(FEW).union(frame).union(frame.where("partition = 2")).count()]


def a_self_join(spark: SparkSession, frame: DataFrame) -> list[int]:
    few, rest = frame.where(FEW).alias("few"), frame.alias("rest")
    same = (col("few.partition") == col("rest.partition")) & (col("few.offset") == col("rest.offset"))
    return [rest.join(few, same, "left_anti").count()]


def counts_in_one_statement(spark: SparkSession, frame: DataFrame) -> list[int]:
    few = f"SELECT count(*) FROM reused WHERE {FEW}"
    row = spark.sql(f"SELECT ({few}), (SELECT count(*) FROM reused WHERE partition = 2), count(*) FROM reused").first()
    return list(row or ())


def ctes_and_subqueries(spark: SparkSession, frame: DataFrame) -> list[int]:
    both = "SELECT * FROM few UNION ALL SELECT * FROM reused WHERE offset > (SELECT max(offset) FROM few)"
    row = spark.sql(f"WITH few AS (SELECT * FROM reused WHERE {FEW}) SELECT count(*) FROM ({both})").first()
    return list(row or ())


def an_explain_between(spark: SparkSession, frame: DataFrame) -> list[int]:
    spark.sql(f"EXPLAIN EXTENDED SELECT * FROM reused WHERE {FEW}").collect()
    return [spark.table("reused").count()]


def a_count_after_a_limit(spark: SparkSession, frame: DataFrame) -> list[int]:
    return [frame.where(FEW).limit(3).count(), frame.limit(25).count()]


WAYS: list[tuple[Callable[[SparkSession, DataFrame], list[int]], list[int]]] = [
    (the_same_frame_twice, [10, ALL]),
    (a_cached_part, [10, 30, 10]),
    (a_union, [10 + ALL + 30]),
    (a_self_join, [ALL - 10]),
    (counts_in_one_statement, [10, 30, ALL]),
    (ctes_and_subqueries, [10 + 20 * PARTITIONS]),
    (an_explain_between, [ALL]),
    (a_count_after_a_limit, [3, 25]),
]


@pytest.mark.parametrize("pushdown", ["true"], indirect=True)
def test_no_way_to_use_a_frame_again_loses_a_row(spark: SparkSession, frame: DataFrame) -> None:
    frame.createOrReplaceTempView("reused")
    found = {way.__name__: way(spark, frame) for way, _ in WAYS}
    assert found == {way.__name__: wanted for way, wanted in WAYS}


@pytest.mark.parametrize("pushdown", ["true"], indirect=True)
def test_a_write_of_a_frame_that_was_filtered_before_writes_all(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, frame: DataFrame
) -> None:
    target = fill_topic(partitions=1)
    assert frame.where(FEW).count() == 10
    frame.limit(40).select("value").write.format("penstock").options(bootstrap=cluster.bootstrap, topic=target).mode(
        "append"
    ).save()
    with Admin(cluster.bootstrap) as admin:
        place = TopicPartition(target, 0)
        deadline = time.monotonic() + 30.0  # the marker, which has an offset, too, comes after the decision is answered
        while (end := admin.list_offsets([place])[place].offset) < 40 + 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert end == 40 + 1


def test_drawn_plans_over_one_frame_give_what_plain_counting_gives(
    spark: SparkSession, topic: str, frame: DataFrame, pushdown: str
) -> None:
    records = [Record(topic, p, o, second(o)) for p in range(PARTITIONS) for o in range(PER_PARTITION)]
    drawer = Drawer(spark, frame, records, random.Random(SEEDS[pushdown]))
    try:
        for step in range(PLANS):
            drawn = drawer.plan()
            found = Counter(Record(*row) for row in drawn.frame.collect())
            assert found == Counter(drawn.records), f"step {step}: {drawn.story}"
            counted, wanted, story = drawer.counts_in_one_statement()
            assert counted == wanted, f"step {step}: {story}"
    finally:
        drawer.close()


def test_our_session_leaves_pushing_off() -> None:
    assert PUSHDOWN not in DEFAULTS
