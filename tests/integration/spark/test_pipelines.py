"""Promises about the jobs that ship, one after another over one click-stream, on a real node and a real JVM."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from examples.pipelines import clicks
from examples.pipelines.clicks import START_MS, ClickStream
from penstock.client.admin.admin import Admin
from penstock.client.producer.producer import Producer
from penstock.errors import ConfigError
from penstock.pipelines.catalog import run_job
from penstock.pipelines.table_files import row_count
from penstock.testing import Cluster
from tests.support.lake import (
    LEAST,
    answers,
    clicks_arguments,
    read_topic,
    wanted_windows,
    windows_of,
    write_confs,
)
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
REST = {"user": "u", "page": "p", "action": "view"}


LATER = START_MS + 60_000
BAD_ONES = [
    (b"k", json.dumps({"event_id": "clock", "event_time": "2033-01-01T00:00:00Z"} | REST).encode()),
    (b"k", json.dumps({"event_id": "in-ms", "event_time": LATER} | REST).encode()),
    (b"big", b"x" * 1_048_480),
]
"""Beside those of the generator: a wrong clock, a time in milliseconds, a record as large as its topic takes."""


def send(bootstrap: str, records: list[tuple[bytes, bytes]]) -> None:
    """All at the time `LATER`."""
    with Producer(bootstrap) as producer:
        for future in [producer.send(TOPIC, value, key, timestamp_ms=LATER) for key, value in records]:
            future.result()


@pytest.fixture
def session_far_from_utc(spark: SparkSession) -> Iterator[None]:
    """As a user's own session may be."""
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Honolulu")
    yield
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.usefixtures("session_far_from_utc")
def test_bronze_silver_and_gold_equal_the_answers_of_the_generator_in_any_time_zone(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    write_confs(tmp_path, cluster.bootstrap, TOPIC)
    sent = clicks.main(clicks_arguments(tmp_path, cluster.bootstrap, TOPIC, events=EVENTS))
    send(cluster.bootstrap, BAD_ONES)
    with pytest.raises(ConfigError, match=r"input: .*/bronze has no Parquet files; run the job bronze first"):
        run_job("silver", tmp_path / "silver.toml", spark=spark)
    lines: list[str] = []
    bronze = run_job("bronze", tmp_path / "bronze.toml", spark=spark, say=lines.append)
    assert (bronze["rows"], bronze["lag"]) == (sent["records"] + len(BAD_ONES), 0)
    assert {path.name for path in (tmp_path / "bronze").glob("date=*")} == {"date=2026-01-01"}
    assert lines[-1].startswith("bronze: batch 0: ") and lines[-1].endswith(", 0 records behind")

    with pytest.raises(
        ConfigError, match="topic 'clicks-dead' does not exist; create it first: penstock topics create"
    ):
        run_job("silver", tmp_path / "silver.toml", spark=spark)
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(f"{TOPIC}-dead", 1)
        admin.create_topic(f"{TOPIC}-gold", 2)
        admin.create_topic(f"{TOPIC}-{LEAST}", 2)
    silver = run_job("silver", tmp_path / "silver.toml", spark=spark)
    kinds = answers(tmp_path)["kinds"]
    assert silver["rows"] == kinds["good"]
    assert silver["duplicates"] == kinds["duplicate"]
    assert (silver["dropped_by_watermark"], silver["exit_code"]) == (0, 0)
    letters = read_topic(cluster.bootstrap, f"{TOPIC}-dead")
    reasons = Counter(dict(letter.headers)["dead.reason"] for letter in letters)
    assert reasons.pop(b"later than 10 m") == kinds["late"] == silver["dead_letters_late"]
    assert reasons.pop(b"ahead of its record by more than 10 m") == 2 == silver["dead_letters_early"]
    (large,) = [letter for letter in letters if "dead.truncated" in dict(letter.headers)]
    assert dict(large.headers)["dead.truncated"] == b"key 3, value 1048480"
    assert large.key == b"big" and large.value is not None and BAD_ONES[2][1].startswith(large.value)
    reasons[b"not JSON of the columns"] -= 1
    assert set(reasons) <= {b"not JSON of the columns", b"event_id is missing"}
    assert sum(reasons.values()) == kinds["malformed"]

    with pytest.raises(ConfigError, match=r"cleanup.policy=delete, but .* penstock configs alter clicks-gold-at-"):
        run_job("gold", tmp_path / f"{LEAST}.toml", spark=spark)
    gold = run_job("gold", tmp_path / "gold.toml", spark=spark)
    written = read_topic(cluster.bootstrap, f"{TOPIC}-gold")
    assert windows_of(written) == wanted_windows(tmp_path)
    assert all(json.loads(record.key or b"")["window_start"].endswith("Z") for record in written)
    assert gold["windows_written"] == len(written) == len(wanted_windows(tmp_path))
    assert gold["dropped_by_watermark"] == 0

    send(cluster.bootstrap, [(b"k", json.dumps({"event_id": "old", "event_time": START_MS // 1000} | REST).encode())])
    run_job("bronze", tmp_path / "bronze.toml", spark=spark)
    behind = run_job("silver", tmp_path / "silver.toml", spark=spark)
    assert (behind["rows"], behind["dropped_by_watermark"], behind["exit_code"]) == (0, 1, 5)

    for job, key in (("gold", 'group_by = ["page"]'), ("silver", 'id_column = "event_id"')):
        conf = tmp_path / f"{job}.toml"
        conf.write_text(conf.read_text().replace(key, key.replace("page", "action").replace("event_id", "session")))
        with pytest.raises(ConfigError, match=f"^{key[:8]}.* but .* was begun with .*; keep that, or choose another"):
            run_job(job, conf, spark=spark)


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


def test_a_backfill_has_every_record_of_its_time_once_and_a_table_comes_back_as_a_topic(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    clicks.main([*clicks_arguments(tmp_path, cluster.bootstrap, "filled", events=2000, seed=3), "--partitions=2"])
    backfill = tmp_path / "backfill.toml"
    backfill.write_text(
        f'bootstrap = "{cluster.bootstrap}"\ntopic = "filled"\noutput = "{tmp_path}/filled"\n'
        "begin = 2026-01-01T00:05:00Z\nend = 2026-01-01T00:25:00Z\n"
        'chunk = "10 m"\n'
    )
    done = run_job("backfill", backfill, spark=spark)
    begin_ms, end_ms = START_MS + 300_000, START_MS + 1_500_000
    wanted = sorted(
        record.value or b"" for record in ClickStream(3, 2000).records() if begin_ms <= record.timestamp_ms < end_ms
    )
    assert (done["rows"], done["chunks_written"], done["chunks_left"]) == (len(wanted), 2, 0)

    (tmp_path / "filled" / "chunk=20260101T001500Z" / "_SUCCESS").unlink()  # as if it had been cut off
    again = run_job("backfill", backfill, spark=spark)
    assert (again["chunks_written"], again["chunks_before"]) == (1, 1)

    backfill.write_text(backfill.read_text().replace("00:25", "01:25"))  # the stream ends before
    longer = run_job("backfill", backfill, spark=spark)
    assert (longer["chunks_written"], longer["chunks_before"], longer["chunks_left"]) == (6, 2, 0)
    wanted = sorted(record.value or b"" for record in ClickStream(3, 2000).records() if begin_ms <= record.timestamp_ms)
    assert done["rows"] + longer["rows"] == len(wanted)

    table_to_topic = tmp_path / "table-to-topic.toml"
    table_to_topic.write_text(
        f'bootstrap = "{cluster.bootstrap}"\ninput = "{tmp_path}/filled"\ntopic = "refilled"\n'
        f'checkpoint = "{tmp_path}/refilled"\nkey = "key"\nvalue = "coalesce(value, binary(\'\'))"\n'
        'timestamp = "timestamp"\n'
    )
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("refilled", 2)
    assert run_job("table-to-topic", table_to_topic, spark=spark)["records_written"] == len(wanted)
    assert run_job("table-to-topic", table_to_topic, spark=spark)["records_written"] == 0
    copied = next((tmp_path / "filled").glob("chunk=20260101T000500Z/*.parquet"))
    rows = row_count(copied)
    shutil.copyfile(copied, copied.with_name("copied.parquet"))
    os.utime(copied.with_name("copied.parquet"), (0, 0))  # an old file that is new here
    assert run_job("table-to-topic", table_to_topic, spark=spark)["records_written"] == rows
    wanted = sorted(wanted + [value or b"" for value in pyarrow.parquet.read_table(copied)["value"].to_pylist()])
    refilled = read_topic(cluster.bootstrap, "refilled")
    assert sorted(record.value or b"" for record in refilled) == wanted
    times = {record.timestamp_ms for record in ClickStream(3, 2000).records()}
    assert {record.timestamp_ms for record in refilled} <= times, "a replay keeps the times of the records"
