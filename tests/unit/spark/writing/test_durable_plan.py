"""Promises about the plan of a micro-batch: it is durable before the batch is decided."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

from penstock.errors import PenstockError
from penstock.spark.writing.batch_key import BATCH_ID, QUERY_ID, RUN_ID
from penstock.spark.writing.durable_plan import keep_plan, local_directory
from penstock.spark.writing.sink import PenstockStreamWriter
from penstock.spark.writing.sink_options import sink_options
from tests.support.fake_atomic_batches import FakeAtomicBatches, tools


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    directory = tmp_path / "check point"
    (directory / "offsets").mkdir(parents=True)
    for name in ("metadata", "offsets/6", "offsets/7"):
        (directory / name).write_text("{}")
    return directory


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were synced, in their order."""
    found: list[str] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (found.append(os.readlink(f"/proc/self/fd/{fd}")), real(fd))[1])
    return found


@pytest.mark.parametrize("scheme", ["{}", "file:{}", "file://{}", "file://localhost{}"])
def test_the_plan_its_name_and_the_querys_id_are_synced(checkpoint: Path, synced: list[str], scheme: str) -> None:
    location = str(checkpoint) if scheme == "{}" else scheme.format(str(checkpoint).replace(" ", "%20"))
    keep_plan(location, 7)
    assert synced == [str(checkpoint / name) for name in ("offsets/7", "offsets", "metadata", "")] or synced == [
        *(str(checkpoint / name) for name in ("offsets/7", "offsets", "metadata")),
        str(checkpoint),
    ]


@pytest.mark.parametrize("location", ["", "hdfs://name/ck", "s3a://bucket/ck", "file://other.host/ck", "/nowhere"])
def test_a_checkpoint_that_is_elsewhere_is_left_alone(location: str, synced: list[str]) -> None:
    keep_plan(location, 7)
    assert not synced


def test_a_stream_syncs_its_plan_before_it_decides(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    atomic = FakeAtomicBatches()
    given = {"bootstrap": "h:1", "topic": "t", "checkpointLocation": str(checkpoint)}
    schema = StructType().add("value", StringType())
    properties = {QUERY_ID: "query", BATCH_ID: "7", RUN_ID: "run"}
    writer = PenstockStreamWriter(sink_options(given, streaming=True), schema, tools(atomic, properties))
    message = writer.write(iter([pa.record_batch({"value": ["a"]})]))

    def fails(_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(
        PenstockError, match=r"plan of micro-batch 7, .*offsets/7, cannot be made durable .*not committed"
    ):
        writer.commit([message], 7)
    assert not atomic.committed
    monkeypatch.undo()
    writer.commit([message], 7)
    assert atomic.committed == [b"a"]


def test_a_file_system_that_syncs_no_directories_is_no_error(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EINVAL, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    keep_plan(checkpoint, 7)
    assert local_directory("relative/ck") == Path("relative/ck")
