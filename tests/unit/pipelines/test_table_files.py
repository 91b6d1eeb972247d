"""Promises about which files of a table count."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.pipelines.table_files import table_files


def log(directory: Path, name: str, *paths: str) -> None:
    metadata = directory / "_spark_metadata"
    metadata.mkdir(exist_ok=True)
    lines = [json.dumps({"path": path, "size": 1}) for path in paths]
    (metadata / name).write_text("\n".join(["v1", *lines]))


def test_files_are_those_of_the_last_compacted_log_and_of_what_came_after(tmp_path: Path) -> None:
    log(tmp_path, "8", "file:///t/gone")
    log(tmp_path, "9.compact", "file:///t/a", "file:///t/date=2026-01-01/b%20c")
    log(tmp_path, "10", "file:///t/d")
    log(tmp_path, ".10.crc", "file:///t/x")
    assert table_files(tmp_path) == [Path("/t/a"), Path("/t/date=2026-01-01/b c"), Path("/t/d")]


def test_a_directory_without_a_log_has_no_files(tmp_path: Path) -> None:
    assert table_files(tmp_path) == []
