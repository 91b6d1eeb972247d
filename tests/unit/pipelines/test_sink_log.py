"""Promises about the log of a Parquet table: what Spark's own reader needs, and which files belong to the table."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.pipelines.parquet_table.durable import write_durably
from penstock.pipelines.parquet_table.sink_log import SinkLog, TableFile, interval_of, last_batch


def add(log: SinkLog, table: Path, batch: int, *names: str) -> None:
    entry = table / "entry"
    write_durably(entry, log.text(batch, [TableFile(table / name, 7, 1_700_000_000_000) for name in names]))
    log.add(batch, entry)


def test_a_batch_is_a_file_of_json_lines_with_the_fields_that_spark_reads(tmp_path: Path) -> None:
    table = tmp_path / "a b"
    table.mkdir()
    add(SinkLog(table), table, 0, "date=2026-01-01/x.parquet")
    header, line = (table / "_spark_metadata" / "0").read_text().split("\n")
    assert header == "v1"
    assert json.loads(line) == {
        "path": f"file://{tmp_path}/a%20b/date=2026-01-01/x.parquet",
        "size": 7,
        "isDir": False,
        "modificationTime": 1_700_000_000_000,
        "blockReplication": 1,
        "blockSize": 33554432,
        "action": "add",
    }
    assert SinkLog(table).paths() == [table / "date=2026-01-01/x.parquet"]


def test_an_empty_batch_is_a_batch(tmp_path: Path) -> None:
    log = SinkLog(tmp_path)
    add(log, tmp_path, 0)
    assert (log.last_batch(), log.paths()) == (0, [])
    assert (tmp_path / "_spark_metadata" / "0").read_text() == "v1"


def test_every_tenth_batch_has_all_before_it_and_nothing_is_named_twice(tmp_path: Path) -> None:
    log = SinkLog(tmp_path)
    for batch in range(23):
        add(log, tmp_path, batch, f"{batch}.parquet")
    names = {path.name for path in (tmp_path / "_spark_metadata").iterdir()}
    compacted = {name for name in names if name.endswith(".compact")}
    assert compacted == {"9.compact", "19.compact"} and len(names) == 23
    assert log.paths() == [tmp_path / f"{batch}.parquet" for batch in range(23)]


@pytest.mark.parametrize(
    ("compacted", "default", "interval"),
    [
        ((), 10, 10),
        ((9,), 10, 10),
        ((3,), 10, 4),  # the table was begun with 4
        ((9,), 4, 5),
        ((9,), 5, 10),
        ((9,), 6, 10),
        ((16,), 5, 17),
        ((59,), 10, 10),
        ((3, 7, 11), 10, 4),
    ],
)
def test_how_often_is_compacted_is_what_a_reader_of_spark_will_find(
    compacted: tuple[int, ...], default: int, interval: int
) -> None:
    assert interval_of(compacted, default) == interval


def test_a_table_that_spark_began_with_another_interval_goes_on_with_it(tmp_path: Path) -> None:
    for batch in range(6):
        add(SinkLog(tmp_path, 3), tmp_path, batch, f"{batch}.parquet")
    for batch in range(6, 10):
        add(SinkLog(tmp_path), tmp_path, batch, f"{batch}.parquet")
    assert (tmp_path / "_spark_metadata" / "8.compact").exists()
    assert [path.stem for path in SinkLog(tmp_path).paths()] == list(map(str, range(10)))


def test_old_batches_go_once_a_compacted_one_stands_for_them_and_no_reader_can_be_at_them(tmp_path: Path) -> None:
    log = SinkLog(tmp_path)
    directory = tmp_path / "_spark_metadata"
    for batch in range(129):
        add(log, tmp_path, batch, f"{batch}.parquet")
        os.utime(directory / (f"{batch}.compact" if batch % 10 == 9 else str(batch)), (0, 0))
    (directory / ".28.crc").write_bytes(b"of Spark's own")
    add(log, tmp_path, 129)
    kept = {f"{batch}.compact" if batch % 10 == 9 else str(batch) for batch in range(29, 130)}
    assert {path.name for path in directory.iterdir()} == kept
    assert [path.stem for path in log.paths()] == list(map(str, range(129)))


def test_a_batch_that_somebody_else_wrote_meanwhile_is_left_alone(tmp_path: Path) -> None:
    add(SinkLog(tmp_path), tmp_path, 0, "mine.parquet")
    with pytest.raises(PenstockError, match=r"_spark_metadata/0 was written by somebody else meanwhile: two runs"):
        add(SinkLog(tmp_path), tmp_path, 0, "other.parquet")
    assert SinkLog(tmp_path).paths() == [tmp_path / "mine.parquet"]


@pytest.mark.parametrize("text", [None, "", "v2\n", 'v1\n{"path":"file:///ta', "v1\n{}", "v1\n[]", 'v1\n{"path":1}'])
def test_a_damaged_log_is_an_error_and_not_a_smaller_table(tmp_path: Path, text: str | None) -> None:
    log = SinkLog(tmp_path, 4)
    for batch in range(3):
        add(log, tmp_path, batch, f"{batch}.parquet")
    broken = tmp_path / "_spark_metadata" / "1"
    broken.unlink() if text is None else broken.write_text(text)
    with pytest.raises(PenstockError, match=r"_spark_metadata/1 is missing or damaged.*bring it back from a copy"):
        log.paths()
    with pytest.raises(PenstockError, match=r"_spark_metadata/1 is missing or damaged.*bring it back from a copy"):
        log.text(3, [])  # a compacted one, which would take the damage in


def test_the_last_batch_of_a_checkpoint_is_that_of_its_files_and_not_of_temporary_ones(tmp_path: Path) -> None:
    for name in ("0", "1", ".1.crc", ".2.7f3a.tmp"):
        (tmp_path / name).touch()
    assert last_batch(tmp_path) == 1
    assert last_batch(tmp_path / "nowhere") == -1
