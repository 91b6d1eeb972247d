"""Finds the files that belong to a table: reads the log of Spark's file sink, without Spark.

A streaming write that crashes leaves files of an unfinished micro-batch behind; the sink's own log, one file of JSON
lines for each micro-batch in `_spark_metadata`, names those that belong to the table. Pure but for reading.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlparse

METADATA_DIRECTORY = "_spark_metadata"


def table_files(output: str | Path) -> list[Path]:
    """The table's Parquet files, from the log of Spark's file sink: one file of JSON lines for each micro-batch.

    Every tenth is compacted and holds all lines before it (`9.compact`).
    """
    directory = Path(output) / METADATA_DIRECTORY
    if not directory.is_dir():
        return []
    logs = {log.name: log for log in directory.iterdir() if log.name.split(".")[0].isdecimal()}
    compacted = [int(name.split(".")[0]) for name in logs if name.endswith(".compact")]
    first = max(compacted, default=-1)
    files: dict[Path, None] = {}
    for name, log in sorted(logs.items(), key=lambda item: int(item[0].split(".")[0])):
        number = int(name.split(".")[0])
        if number < first or (number == first and not name.endswith(".compact")):
            continue
        for line in log.read_text(encoding="utf-8").splitlines()[1:]:
            files[Path(unquote(urlparse(json.loads(line)["path"]).path))] = None
    return list(files)


def row_count(path: Path) -> int:
    """From the footer of a Parquet file."""
    import pyarrow.parquet

    return int(pyarrow.parquet.read_metadata(path).num_rows)
