"""A Spark query whose executors name their rack reads at the follower there, and at the leader while that hangs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock import Producer
from penstock.testing import Cluster
from tests.integration.test_follower_reads import RACKS, series
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

ROWS = 400
NAME = "racked"


def test_a_query_goes_on_at_the_leader_when_the_follower_in_its_rack_is_stopped(
    spark: SparkSession, tmp_path: Path
) -> None:
    racks = [{"broker.rack": rack, "replica.selector.class": "rack-aware"} for rack in RACKS]
    with Cluster(3, node_configs=racks) as cluster, Producer(cluster.bootstrap, acks="all") as producer:
        topic = cluster.topic(partitions=1, replication_factor=3)
        producer.send_many(topic, [b"%d" % number for number in range(ROWS)]).result(60)
        follower = (cluster.leader(topic) + 1) % 3
        options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        frame = spark.readStream.format("penstock").options(**options, **{"kafka.client.rack": RACKS[follower]}).load()
        rows = frame.selectExpr("CAST(value AS STRING) AS value").writeStream.format("memory").queryName(NAME)
        query = rows.option("checkpointLocation", str(tmp_path)).start()

        def read() -> list[int]:
            assert query.isActive, query.exception()
            return sorted(int(row.value) for row in spark.table(NAME).collect())

        try:
            wait_until(lambda: len(read()) >= ROWS)
            at_follower = series(cluster, follower, "penstock_follower_bytes_out_total")
            assert (
                at_follower > 0
                and sum(series(cluster, index, "penstock_cross_rack_bytes_out_total") for index in range(3)) == 0
            )
            cluster.pause(follower)
            try:
                producer.send_many(topic, [b"%d" % number for number in range(ROWS, 2 * ROWS)]).result(60)
                wait_until(lambda: len(read()) >= 2 * ROWS)
            finally:
                cluster.resume(follower)
            assert read() == list(range(2 * ROWS)), "each row once"
        finally:
            query.stop()
