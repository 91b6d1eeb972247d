"""Promises about the jobs that ship, one after another over one click-stream, on a real node and a real JVM."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.client.admin.admin import Admin
from penstock.errors import ConfigError
from penstock.pipelines.catalog import run_job
from penstock.testing import Cluster
from tests.integration.spark.lake import answers, read_topic, wanted_windows, windows_of, write_confs

pytestmark = pytest.mark.spark

EVENTS = 5_000
TOPIC = "clicks"


def test_bronze_silver_and_gold_equal_the_answers_of_the_generator(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    write_confs(tmp_path, cluster.bootstrap, TOPIC, events=EVENTS)
    sent = run_job("clicks", tmp_path / "clicks.toml")
    with pytest.raises(ConfigError, match=r"input: .*/bronze has no Parquet files; run the job bronze first"):
        run_job("silver", tmp_path / "silver.toml", spark=spark)
    told: list[str] = []
    bronze = run_job("bronze", tmp_path / "bronze.toml", spark=spark, say=told.append)
    assert (bronze["rows"], bronze["lag"]) == (sent["records"], 0)
    assert told[-1].startswith("bronze: batch 0: ") and told[-1].endswith(", 0 records behind")

    with pytest.raises(
        ConfigError, match="topic 'clicks-dead' does not exist; create it first: penstock topics create"
    ):
        run_job("silver", tmp_path / "silver.toml", spark=spark)
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(f"{TOPIC}-dead", 1)
        admin.create_topic(f"{TOPIC}-gold", 2)
    silver = run_job("silver", tmp_path / "silver.toml", spark=spark)
    kinds = answers(tmp_path)["kinds"]
    assert silver["rows"] == kinds["good"]
    assert silver["duplicates"] == kinds["duplicate"]
    assert silver["dropped_by_watermark"] == 0
    reasons = Counter(dict(letter.headers)["dead.reason"] for letter in read_topic(cluster.bootstrap, f"{TOPIC}-dead"))
    assert reasons.pop(b"later than 10 m") == kinds["late"]
    assert set(reasons) <= {b"not JSON of the columns", b"event_id is missing"}
    assert sum(reasons.values()) == kinds["malformed"]

    with pytest.raises(ConfigError, match=r"cleanup.policy=delete, but .* penstock configs alter clicks-gold --set "):
        run_job("gold", tmp_path / "gold.toml", spark=spark)
    with Admin(cluster.bootstrap) as admin:
        admin.alter_topic_config(f"{TOPIC}-gold", {"cleanup.policy": "compact"})
    gold = run_job("gold", tmp_path / "gold.toml", spark=spark)
    written = read_topic(cluster.bootstrap, f"{TOPIC}-gold")
    assert windows_of(written) == wanted_windows(tmp_path)
    assert gold["windows_written"] == len(written) == len(wanted_windows(tmp_path))
    assert gold["dropped_by_watermark"] == 0
