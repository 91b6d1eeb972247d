"""Finds the files that belong to a table: reads the log of a streaming write, without Spark.

A streaming write that crashes leaves files of an unfinished micro-batch behind; the sink's own log, one file of JSON
lines for each micro-batch in `_spark_metadata`, names those that belong to the table. Pure but for reading.
"""

from __future__ import annotations

from pathlib import Path

from penstock.pipelines.parquet_table.sink_log import SinkLog


def table_files(output: str | Path) -> list[Path]:
    """The table's Parquet files, of a table of this package or of Spark's own file sink."""
    return SinkLog(Path(output)).paths()


def row_count(path: Path) -> int:
    """The row count in the footer of a Parquet file."""
    import pyarrow.parquet

    return int(pyarrow.parquet.read_metadata(path).num_rows)
