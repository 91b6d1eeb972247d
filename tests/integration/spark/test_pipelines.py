"""Promises about the jobs that ship, one after another over one click-stream, on a real node and a real JVM."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.client.admin.admin import Admin
from penstock.errors import ConfigError
from penstock.pipelines.catalog import run_job
from penstock.testing import Cluster
from tests.support.lake import answers, read_topic, wanted_windows, windows_of, write_confs
from tests.support.replica_dirs import (
    batch_bytes,
    flip_bit,
    make_log_dirs,
    replace_batch,
    segment_path,
    write_checkpoint,
)

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


def test_an_audit_names_a_planted_bit_a_missing_batch_and_a_diverged_replica(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dirs = make_log_dirs(tmp_path)
    conf = tmp_path / "audit.toml"
    conf.write_text(f"log_dirs = {json.dumps(log_dirs)}\n")
    clean = run_job("audit", conf, spark=spark)
    assert (clean["segments"], clean["batches"], clean["records"], clean["findings"]) == (6, 24, 120, [])
    assert (clean["exit_code"], clean["not_compared"]) == (0, [])

    size = len(batch_bytes(0))
    rotten, short, other = (
        segment_path(Path(log_dir), base) for log_dir, base in zip(log_dirs, (0, 20, 20), strict=True)
    )
    flip_bit(rotten, size + 70)
    replace_batch(short, 1, b"")
    replace_batch(other, 2, batch_bytes(30, b"w"))
    found = run_job("audit", conf, spark=spark)
    assert found["exit_code"] == 4
    assert [finding["sentence"] for finding in found["findings"]] == [
        f"rot: orders-0 on node 0: {rotten} at byte {size}: the batch at offset 5 has a wrong checksum",
        f"missing: orders-0 on node 1: {short} at byte {size}: offsets [25, 30) are missing",
        f"diverged: orders-0 on node 2: {other} at byte {2 * size}: "
        "the batch at offset 30 is not what the other replicas have",
    ]

    for log_dir in log_dirs:  # not committed, or compacted: then replicas may differ
        write_checkpoint(Path(log_dir) / "replication-offset-checkpoint", 30)
    assert [finding["kind"] for finding in run_job("audit", conf, spark=spark)["findings"]] == ["rot", "missing"]
