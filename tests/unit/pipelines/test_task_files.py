"""Promises about the Parquet files that a task writes: every row once, in its directory, readable by any tool."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.parquet_table.files_source import FORMAT, TableFilesSource, WriteFiles, files_source_options
from penstock.pipelines.parquet_table.table_spec import PENDING, TableSpec, codec_of
from penstock.pipelines.parquet_table.task_files import DAY_US, TaskFiles, TaskLimits, date_directory
from penstock.spark.schema import source_schema

START_US = round(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1_000_000)
DAY = "date=2026-01-{:02d}".format


def rows(first: int, times_us: list[int], partition: int = 0, headers: bool = False, value: bytes = b"v") -> Any:
    count = len(times_us)
    arrays = [
        pa.array([b"k"] * (count - 1) + [None], pa.binary()),
        pa.array([value + b"%d" % number for number in range(first, first + count)], pa.binary()),
        pa.array(["t"] * count),
        pa.array([partition] * count, pa.int32()),
        pa.array(range(first, first + count), pa.int64()),
        pa.array(times_us, pa.timestamp("us", tz="UTC")),
        pa.array([0] * count, pa.int32()),
    ]
    schema = to_arrow_schema(source_schema(headers), timezone="UTC")
    if headers:
        arrays.append(pa.array([[{"key": "h", "value": b"1"}]] * count).cast(schema.field("headers").type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def written(table: Path, batches: list[Any], partition_by: str = "date", headers: bool = False) -> dict[str, list[Any]]:
    """The rows of each directory, of all its files; checks what the driver is told."""
    files = TaskFiles(TableSpec(str(table), partition_by), source_schema(headers))
    for batch in batches:
        files.write(batch)
    found: dict[str, list[Any]] = {}
    for name, directory, size_bytes, count in files.finish():
        path = table / PENDING / name
        read = pq.ParquetFile(path).read().to_pylist()
        assert (path.stat().st_size, len(read)) == (size_bytes, count)
        found.setdefault(directory, []).extend(read)
    return found


def test_rows_go_to_the_directory_of_their_day_in_their_order(tmp_path: Path) -> None:
    first = rows(0, [START_US, START_US + DAY_US - 1, START_US + DAY_US, START_US + 5])
    second = rows(4, [START_US + 1, START_US + 2])
    found = written(tmp_path, [first, second])
    assert {day: [row["offset"] for row in read] for day, read in found.items()} == {
        DAY(1): [0, 1, 3, 4, 5],
        DAY(2): [2],
    }
    whole = [row for batch in (first, second) for row in batch.to_pylist()]
    assert sorted((row for read in found.values() for row in read), key=lambda row: row["offset"]) == whole


@pytest.mark.parametrize(("partition_by", "directory"), [("none", ""), ("partition", "partition=7")])
def test_the_column_of_the_directories_is_not_in_the_files(tmp_path: Path, partition_by: str, directory: str) -> None:
    found = written(tmp_path, [rows(0, [START_US], partition=7)], partition_by)
    assert list(found) == [directory] and ("partition" in found[directory][0]) is (partition_by == "none")


def test_partitions_of_one_task_go_apart(tmp_path: Path) -> None:
    found = written(tmp_path, [rows(0, [START_US], 1), rows(0, [START_US], 2), rows(1, [START_US], 1)], "partition")
    assert {name: len(read) for name, read in found.items()} == {"partition=1": 2, "partition=2": 1}


def test_headers_come_back(tmp_path: Path) -> None:
    found = written(tmp_path, [rows(0, [START_US], headers=True)], headers=True)
    assert found[DAY(1)][0]["headers"] == [{"key": "h", "value": b"1"}]


@pytest.mark.parametrize(
    ("day", "name"),
    [(0, "1970-01-01"), (-1, "1969-12-31"), (20454, "2026-01-01"), (2932897, "+10000-01-01")],
)
def test_a_day_has_the_name_that_spark_gives_it(day: int, name: str) -> None:
    assert date_directory(day) == f"date={name}"


def test_a_task_without_rows_has_no_files(tmp_path: Path) -> None:
    assert written(tmp_path, []) == {} == written(tmp_path, [rows(0, [START_US])[:0]])


def test_memory_files_and_open_files_are_bounded(tmp_path: Path) -> None:
    limits = TaskLimits(row_group_bytes=4_000, waiting_bytes=6_000, open_files=3, file_bytes=9_000)
    files = TaskFiles(TableSpec(str(tmp_path), "date"), source_schema(False), limits)
    for number in range(60):
        day = number % 5 if number < 30 else 0
        files.write(rows(number, [START_US + day * DAY_US], value=b"x" * 1_000))
        assert files._waiting_bytes <= 6_000 and len(files._parts) <= 3
        assert files._waiting_bytes == sum(part.waiting_bytes for part in files._parts.values())
    done = files.finish()
    offsets = [
        offset
        for file in done
        for offset in pq.ParquetFile(tmp_path / PENDING / file.name).read(["offset"])["offset"].to_pylist()
    ]
    assert sorted(offsets) == list(range(60)) and len({file.name for file in done}) == len(done) > 5
    groups = [pq.ParquetFile(tmp_path / PENDING / file.name).num_row_groups for file in done]
    assert max(groups) > 1


def test_a_file_has_sparks_schema_checksums_and_ranges_of_what_people_look_for(tmp_path: Path) -> None:
    files = TaskFiles(TableSpec(str(tmp_path), "date", "zstd"), source_schema(True))
    files.write(rows(5, [START_US, START_US + 9], headers=True))
    (file,) = files.finish()
    assert file.name.endswith(".zstd.parquet")
    meta = pq.read_metadata(tmp_path / PENDING / file.name)
    assert json.loads(meta.metadata[b"org.apache.spark.sql.parquet.row.metadata"]) == json.loads(
        source_schema(True).json()
    )
    columns = {meta.row_group(0).column(number).path_in_schema: number for number in range(meta.num_columns)}
    assert "headers.list.element.key" in columns
    offset = meta.row_group(0).column(columns["offset"])
    assert (offset.statistics.min, offset.statistics.max, offset.compression) == (5, 6, "ZSTD")
    assert "DELTA_BINARY_PACKED" in offset.encodings
    assert meta.row_group(0).column(columns["value"]).statistics is None
    for tool in (pq.read_table, lambda path: pq.read_table(path, page_checksum_verification=True)):
        assert tool(tmp_path / PENDING / file.name).num_rows == 2


def test_an_attempt_that_fails_leaves_nothing_and_two_attempts_have_different_names(tmp_path: Path) -> None:
    def failing() -> Any:
        yield rows(0, [START_US])
        raise PenstockError("no more")

    work = WriteFiles(TableSpec(str(tmp_path), "date"), source_schema(False))
    with pytest.raises(PenstockError, match="no more"):
        list(work(failing()))
    assert list((tmp_path / PENDING).iterdir()) == []
    one, two = (list(work(iter([rows(0, [START_US])]))) for _ in range(2))
    assert one[0][0] != two[0][0] and one[0][1:] == two[0][1:]


def test_what_a_task_cannot_write_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / PENDING).write_text("a file where the directory should be")
    files = TaskFiles(TableSpec(str(tmp_path), "none"), source_schema(False))
    with pytest.raises(PenstockError, match=r"^the table .* cannot be written \(File exists\); when that is mended"):
        files.write(rows(0, [START_US]))


def test_a_codec_that_arrow_has_not_is_refused_with_those_that_it_has() -> None:
    assert (codec_of("SNAPPY"), codec_of("uncompressed"), codec_of("lz4_raw")) == ("snappy", "none", "lz4")
    with pytest.raises(ConfigError, match=r"compression.codec = 'lzo' must be one of none, uncompressed, snappy, gzip"):
        codec_of("lzo")


def test_the_source_takes_the_options_of_penstock_and_says_what_is_wrong_with_one() -> None:
    spec = TableSpec("/t", "date")
    assert TableFilesSource.name() == FORMAT
    good = TableFilesSource(files_source_options(spec, {"bootstrap": "b:1", "subscribe": "t"}))
    reader = pickle.loads(pickle.dumps(good.streamReader(good.schema())))  # type: ignore[arg-type]
    assert reader._in_task == WriteFiles(spec, source_schema(False))
    bad = TableFilesSource(files_source_options(spec, {"bootstrap": "b:1", "subscribe": "t", "startingOfsets": "x"}))
    with pytest.raises(ConfigError, match="startingOffsets"):
        bad.streamReader(bad.schema()).initialOffset()  # type: ignore[arg-type]
