"""Writes the rows of one Spark task as Parquet files, from Arrow to the disk, without Java.

    TABLE/_pending/part-6f0c….parquet     all that a task writes, under a name that no other attempt has

Files stay out of the table's directories, where other tools would read them, until the driver has heard of the task's
end and takes them in (commit.py). They are durable before that. A file has the columns of the records but for the one
by which the table is partitioned: that is in the directory's name. Rows wait until they fill a row group, within a
bound for the whole task. Runs in executors, with numpy and pyarrow.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import __version__ as spark_version
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.lazy_dataclass import dataclass
from penstock.pipelines.parquet_table.durable import errors_of_table, sync
from penstock.pipelines.parquet_table.table_spec import PENDING, TableSpec

DAY_US = 24 * 60 * 60 * 1_000_000
RISING = ("offset", "timestamp")
"""Columns whose differences are small, and so are written as differences."""
WITHOUT_STATISTICS = ("value", "headers")
"""The columns without statistics: nobody looks for a range of values of records."""


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """The memory of one task, and the size of what it writes."""

    row_group_bytes: int = 64 * 1024 * 1024
    waiting_bytes: int = 128 * 1024 * 1024
    """All rows of a task that wait for their row groups."""
    open_files: int = 64
    """A task with records of more days writes more, smaller files."""
    file_bytes: int = 1024 * 1024 * 1024
    """A file ends at this many bytes of rows, and another begins."""


class WrittenFile(NamedTuple):
    """A file that a task has written; `directory` is where it belongs, relative to the table."""

    name: str
    directory: str
    size_bytes: int
    rows: int


@dataclass(slots=True)
class _Part:
    """The open file for one directory of the table."""

    directory: str
    name: str
    writer: Any
    rows: int = 0
    written_bytes: int = 0
    waiting: list[Any] = field(default_factory=list)
    waiting_bytes: int = 0

    def flush(self) -> None:
        """Writes what waits as one row group."""
        if self.waiting:
            table = pa.Table.from_batches(self.waiting)
            self.writer.write_table(table, row_group_size=table.num_rows)
            self.written_bytes += self.waiting_bytes
            self.waiting, self.waiting_bytes = [], 0


class TaskFiles:
    """The files of one task; not thread-safe."""

    def __init__(self, spec: TableSpec, columns: StructType, limits: TaskLimits = TaskLimits()) -> None:
        self._spec, self._limits = spec, limits
        self._pending = spec.table / PENDING
        kept = StructType([column for column in columns.fields if column.name != spec.partition_by])
        self._names = kept.names
        self._schema = to_arrow_schema(kept, timezone="UTC")
        self._metadata = {
            "org.apache.spark.version": spark_version,
            "org.apache.spark.sql.parquet.row.metadata": kept.json(),
        }
        self._parts: dict[str, _Part] = {}
        self._done: list[WrittenFile] = []
        self._waiting_bytes = 0

    def write(self, batch: Any) -> None:
        """Takes the rows of an Arrow batch with all columns of the records."""
        with errors_of_table(self._spec.table):
            for directory, rows in directories(batch, self._spec.partition_by):
                self._add(directory, rows.select(self._names).cast(self._schema))

    def finish(self) -> list[WrittenFile]:
        """Every file of the task, durable."""
        with errors_of_table(self._spec.table):
            for part in list(self._parts.values()):
                self._close(part)
            if self._done:
                sync(self._pending)
        return self._done

    def discard(self) -> None:
        """Deletes what a task that fails has written; the driver would find it, too."""
        for part in self._parts.values():
            with suppress(OSError):
                part.writer.close()
            self._pending.joinpath(part.name).unlink(missing_ok=True)
        for done in self._done:
            self._pending.joinpath(done.name).unlink(missing_ok=True)

    def _add(self, directory: str, rows: Any) -> None:
        part = self._parts.pop(directory, None) or self._open(directory)
        self._parts[directory] = part  # the last: the first is the one that had no rows for the longest time
        part.waiting.append(rows)
        part.waiting_bytes += rows.nbytes
        part.rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if part.waiting_bytes >= self._limits.row_group_bytes:
            self._flush(part)
        if part.written_bytes >= self._limits.file_bytes:
            self._close(part)
        if self._waiting_bytes > self._limits.waiting_bytes:
            self._flush(max(self._parts.values(), key=lambda one: one.waiting_bytes))

    def _open(self, directory: str) -> _Part:
        if len(self._parts) >= self._limits.open_files:
            self._close(next(iter(self._parts.values())))
        self._pending.mkdir(parents=True, exist_ok=True)
        name = f"part-{uuid.uuid4().hex}.{self._spec.suffix}"
        nested = [f"{one.name}.list.element.{leaf}" for one in self._schema for leaf in _leaves(one.type)]
        plain = [name for name in self._names if name != "headers"]
        writer = pq.ParquetWriter(
            self._pending / name,
            self._schema,
            compression=self._spec.codec,
            use_dictionary=[*(name for name in plain if name not in RISING), *nested],
            column_encoding={name: "DELTA_BINARY_PACKED" for name in plain if name in RISING},
            write_statistics=[name for name in plain if name not in WITHOUT_STATISTICS],
            write_page_checksum=True,
            store_schema=False,
        )
        writer.add_key_value_metadata(self._metadata)
        return _Part(directory, name, writer)

    def _flush(self, part: _Part) -> None:
        self._waiting_bytes -= part.waiting_bytes
        part.flush()

    def _close(self, part: _Part) -> None:
        self._flush(part)
        part.writer.close()
        path = self._pending / part.name
        sync(path)
        del self._parts[part.directory]
        self._done.append(WrittenFile(part.name, part.directory, path.stat().st_size, part.rows))


def _leaves(kind: Any) -> list[str]:
    return [one.name for one in kind.value_type] if pa.types.is_list(kind) else []


def directories(batch: Any, partition_by: str) -> Iterator[tuple[str, Any]]:
    """The rows of an Arrow batch by the directory of the table that they belong to, in their order."""
    match partition_by:
        case "date":
            numbers = batch.column("timestamp").cast(pa.int64()).to_numpy() // DAY_US
            name = date_directory
        case "partition":
            numbers, name = batch.column("partition").to_numpy(), "partition={}".format
        case _:
            yield "", batch
            return
    if batch.num_rows and numbers.min() == numbers.max():
        yield name(int(numbers[0])), batch
        return
    for number in np.unique(numbers):
        yield name(int(number)), batch.filter(pa.array(numbers == number))


def date_directory(day: int) -> str:
    """The directory of a day, named as Spark names it; years of more than four digits have a sign."""
    text = str(np.datetime64(day, "D"))
    return f"date={text if len(text.lstrip('-').partition('-')[0]) == 4 or text[0] == '-' else '+' + text}"
