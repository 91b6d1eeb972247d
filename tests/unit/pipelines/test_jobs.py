"""Promises about what jobs refuse before anything is started, and how a backfill divides its time."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.catalog import run_job
from penstock.pipelines.frame.checks import check_table
from penstock.pipelines.frame.conf import DEFAULT_RUN, Duration
from penstock.pipelines.frame.job_context import JobContext
from penstock.pipelines.jobs import backfill as backfill_job
from penstock.pipelines.jobs.audit import AuditConf, check_audit
from penstock.pipelines.jobs.backfill import (
    BackfillConf,
    check_backfill,
    check_shape,
    chunks_of,
    first_offsets,
    id_of_topic,
    run_backfill,
    write_shape,
)
from penstock.pipelines.jobs.bronze import BronzeConf, check_bronze
from penstock.pipelines.jobs.gold import GoldConf
from penstock.pipelines.jobs.silver import SilverConf, check_silver
from penstock.spark.planning import DataLossError
from penstock.types import TopicPartition
from tests.support.fake_broker import FakeCluster
from tests.support.fake_log_client import FakeLogClient
from tests.support.replica_dirs import make_log_dirs

HOUR = Duration(3_600_000)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def backfill(**more: Any) -> BackfillConf:
    given = {"begin": BEGIN, "end": BEGIN + timedelta(hours=3), "output": Path("/t"), **more}
    return BackfillConf(bootstrap="127.0.0.1:1", topic="t", **given)


def silver(**more: Any) -> SilverConf:
    given: dict[str, Any] = {
        "columns": {"id": "string", "at": "timestamp"},
        "id_column": "id",
        "time_column": "at",
        **more,
    }
    paths = {"input": Path("/in"), "output": Path("/out")}
    return SilverConf(bootstrap="127.0.0.1:1", dead_letter_topic="d", **{**paths, **given})


def gold(**more: Any) -> GoldConf:
    given: dict[str, Any] = {"measures": {"views": "count(*)"}, **more}
    paths = {"input": Path("/in"), "checkpoint": Path("/c")}
    return GoldConf(bootstrap="127.0.0.1:1", topic="t", time_column="at", **paths, **given)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: silver(id_column="ID"), "id_column: 'ID' is not in [columns]"),
        (lambda: silver(required=("ad",)), "required: 'ad' is not in [columns]"),
        (lambda: silver(time_column="id"), "time_column: 'id' must have the type \"timestamp\" in [columns]"),
        (
            lambda: silver(columns={"id": "string", "at": "timestamp", "_x": "int"}),
            "[columns] _x: names that begin with",
        ),
        (
            lambda: silver(watermark=Duration(15 * 60_000)),
            "watermark = '15 m' must be at least max_lateness = '10 m' and max_earliness = '10 m' together",
        ),
        (lambda: gold(measures={}), "measures is empty; name at least one"),
        (lambda: gold(group_by=("views",)), "[measures] views: the name is taken by the window or a group"),
        (lambda: gold(window=Duration(0)), "window must be longer than 0 s"),
        (lambda: backfill(end=BEGIN), "must be after begin = 2026-01-01T00:00:00+00:00"),
        (lambda: backfill(chunk=Duration(1)), "chunk = '1 ms' makes more than 10000 chunks; choose a longer one"),
        (lambda: backfill(chunk=Duration(2 * HOUR.ms)), "must be a whole number of chunks (2 h) after begin"),
        (lambda: AuditConf(log_dirs=()), "log_dirs is empty; name the log dir of each node"),
    ],
)
def test_a_conf_that_contradicts_itself_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert message in str(caught.value)


def test_files_that_do_not_belong_to_a_table_yet_are_no_table(tmp_path: Path) -> None:
    for directory, is_table in (("_pending", False), ("date=2026-01-01", True)):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "part-1.parquet").touch()
        if is_table:
            check_table(tmp_path, "bronze")
        else:
            with pytest.raises(ConfigError, match="has no Parquet files; run the job bronze first"):
                check_table(tmp_path, "bronze")


def test_bronze_and_silver_refuse_a_table_of_another_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / "_spark_metadata" / "0").write_text("v1")
    bronze = BronzeConf(bootstrap="127.0.0.1:1", topic="t", output=tmp_path)
    with pytest.raises(ConfigError, match=r"has micro-batch 0, but the checkpoint .*/_checkpoint has none"):
        check_bronze(bronze)
    with pytest.raises(ConfigError, match=r"has micro-batch 0, but the checkpoint .*/_checkpoint/silver has none"):
        check_silver(silver(output=tmp_path))


def test_a_topic_that_is_not_there_is_a_mistake_in_the_conf() -> None:
    with FakeCluster() as fake:
        bronze = BronzeConf(bootstrap=fake.bootstrap, topic="t", output=Path("/t"))
        for check in (
            lambda: check_bronze(bronze),
            lambda: check_backfill(replace(backfill(), bootstrap=fake.bootstrap)),
        ):
            with pytest.raises(
                ConfigError, match=r"^topic 't' does not exist; create it first: penstock topics create t$"
            ):
                check()


def test_chunks_cover_the_time_without_overlap() -> None:
    chunks = chunks_of(backfill())
    assert [chunk.name for chunk in chunks] == [
        "chunk=20260101T000000Z",
        "chunk=20260101T010000Z",
        "chunk=20260101T020000Z",
    ]
    assert [chunk.end_ms for chunk in chunks[:-1]] == [chunk.begin_ms for chunk in chunks[1:]]
    assert chunks[-1].end_ms - chunks[0].begin_ms == 3 * HOUR.ms
    assert len(chunks_of(backfill(end=BEGIN + timedelta(seconds=10), chunk=Duration(1)))) == 10_000


def test_a_time_for_which_records_may_still_come_is_refused() -> None:
    end = datetime.now(UTC) - timedelta(minutes=5)
    conf = backfill(begin=end - timedelta(hours=1), end=end)
    with pytest.raises(ConfigError, match="records may still come for this time; choose an end before 20"):
        check_backfill(conf)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"chunk": Duration(30 * 60_000)}, "chunk = '30 m', but .* was begun with '1 h'; keep that, or choose another"),
        ({"begin": BEGIN - timedelta(minutes=30), "end": BEGIN + timedelta(minutes=30)}, "begin = '2025-12-31T23:30:"),
        ({"include_headers": True}, "include_headers = True, but .* was begun with False"),
    ],
)
def test_an_output_that_was_begun_with_other_chunks_is_refused(
    tmp_path: Path, more: dict[str, Any], message: str
) -> None:
    write_shape(backfill(output=tmp_path), "id-1")
    check_shape(backfill(output=tmp_path, end=BEGIN + timedelta(hours=9)))
    with pytest.raises(ConfigError, match=message):
        check_shape(backfill(output=tmp_path, **more))


def test_an_output_that_was_begun_with_a_topic_since_deleted_and_made_anew_is_refused(tmp_path: Path) -> None:
    client = FakeLogClient()
    client.create("t", topic_id="id-1")
    conf = backfill(output=tmp_path)
    write_shape(conf, id_of_topic(client, conf))
    check_shape(conf, id_of_topic(client, conf))
    client.create("t", topic_id="id-2")
    with pytest.raises(ConfigError, match=r"topic .t. is not the one that .* was begun with: it was deleted and made"):
        check_shape(conf, id_of_topic(client, conf))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("part-0.parquet", b"", "has files of something else; choose another output"),
        ("_backfill.json", b"{", "_backfill.json is damaged; choose another output"),
        ("_backfill.json", b"[]", "_backfill.json is damaged; choose another output"),
    ],
)
def test_an_output_that_is_no_backfills_is_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    check_shape(backfill(output=tmp_path / "none"))
    check_shape(backfill(output=tmp_path))
    (tmp_path / "_backfill.json.tmp").write_bytes(b"{")  # of a run that ended there
    check_shape(backfill(output=tmp_path))
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        check_shape(backfill(output=tmp_path))


def test_an_output_that_an_earlier_version_began_goes_on_and_then_has_its_topics_id(tmp_path: Path) -> None:
    conf = backfill(output=tmp_path)
    write_shape(conf, "id-1")
    shape = tmp_path / "_backfill.json"
    begun = json.loads(shape.read_text())
    del begun["topic_id"]
    shape.write_text(json.dumps(begun))
    check_shape(conf, "id-1")
    write_shape(conf, "id-1")
    with pytest.raises(ConfigError, match="made anew"):
        check_shape(conf, "id-2")


def test_an_output_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"file is not a directory; choose another output"):
        check_shape(backfill(output=tmp_path / "file"))


def test_a_topic_made_anew_between_the_check_and_the_run_does_not_take_the_output_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = FakeLogClient()
    client.create("t", topic_id="id-2")
    monkeypatch.setattr(backfill_job, "PenstockLogClient", lambda *_: nullcontext(client))
    conf = backfill(output=tmp_path)
    write_shape(conf, "id-1")
    with pytest.raises(ConfigError, match="made anew"):
        run_backfill(conf, cast(JobContext, SimpleNamespace(run=DEFAULT_RUN)))
    check_shape(conf, "id-1")


def test_a_chunk_begins_at_its_first_record_or_at_the_end() -> None:
    client, chunk = FakeLogClient(), chunks_of(backfill())[1]
    client.create("t", 2)
    client.append("t", 0, 5, timestamp_ms=chunk.begin_ms - HOUR.ms - 1)
    client.append("t", 0, 5, timestamp_ms=chunk.begin_ms)
    client.append("t", 1, 3, timestamp_ms=chunk.begin_ms - 1)
    assert first_offsets(client, backfill(), chunk) == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 3}
    client.delete_below("t", 0, 2)  # only records from before: what is left begins more than `disorder` earlier
    assert first_offsets(client, backfill(), chunk)[TopicPartition("t", 0)] == 5


@pytest.mark.parametrize("below", [2, 5, 6, 10])
def test_a_chunk_whose_records_may_be_deleted_is_a_loss(below: int) -> None:
    """Also where the first that is left is older than the chunk: what was deleted before it may have been later."""
    client, chunk = FakeLogClient(), chunks_of(backfill())[0]
    client.create("t")
    client.append("t", 0, 5, timestamp_ms=chunk.begin_ms - HOUR.ms)
    client.append("t", 0, 5, timestamp_ms=chunk.begin_ms)
    client.delete_below("t", 0, below)
    with pytest.raises(DataLossError, match=r"t-0: records older than .* may have been of chunk=20260101T000000Z"):
        first_offsets(client, backfill(), chunk)
    found = first_offsets(client, backfill(fail_on_data_loss=False), chunk)
    assert found == {TopicPartition("t", 0): max(below, 5)}


def test_an_audit_leaves_signals_alone_so_that_one_ends_it_at_once(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\n")
    conf = tmp_path / "audit.toml"
    conf.write_text(f'log_dirs = ["{tmp_path}"]\n')
    result = run_job("audit", conf, catch_signals=lambda: pytest.fail("signals would be without effect"))
    assert result["findings"] == []


def test_an_audit_of_a_topic_that_no_log_dir_has_is_refused(tmp_path: Path) -> None:
    (log_dir, other) = make_log_dirs(tmp_path, 2)
    check_audit(AuditConf(log_dirs=(log_dir, other), topics=("orders",)))
    with pytest.raises(
        ConfigError, match=r"^topics: no log dir has a replica of order; check the names, and log_dirs$"
    ):
        check_audit(AuditConf(log_dirs=(log_dir, other), topics=("orders", "order")))
