"""The data source whose rows are Parquet files: a task reads records, writes them itself, and gives their files' names.

It is the source "penstock" but for what a task does (stream_reader.py), so plans, limits and a checkpoint's offsets are
the same. Only jobs use it; a user's own query has no way to commit such files. Spark pickles the class and its
instances: plain values only, and pyarrow is imported in executors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from penstock.errors import PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.pipelines.parquet_table.table_spec import TableSpec
from penstock.spark.options import includes_headers, source_options
from penstock.spark.plain_errors import sentence_first
from penstock.spark.schema import source_schema
from penstock.spark.stream_reader import PenstockStreamReader, RefusedStreamReader

FORMAT = "penstock_table_files"
SPEC_OPTION = "tablespec"
FILES = "name string, directory string, size_bytes bigint, rows bigint"
"""The columns of the source: WrittenFile's fields."""


class TableFilesSource(DataSource):  # type: ignore[misc]
    """The records of topics, written to files by the tasks that read them."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return FILES

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        given = {name.lower(): value for name, value in self.options.items()}
        spec = TableSpec.from_text(given.pop(SPEC_OPTION))
        try:
            options = source_options(given, streaming=True)
        except PenstockError as error:
            return RefusedStreamReader(error)
        columns = source_schema(includes_headers(given))
        return PenstockStreamReader(options, columns, in_task=WriteFiles(spec, columns))


@dataclass(frozen=True)
class WriteFiles:
    """A task's own work: it writes its records, and its rows are the files."""

    spec: TableSpec
    columns: StructType

    def __call__(self, batches: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        from penstock.pipelines.parquet_table.task_files import TaskFiles

        files = TaskFiles(self.spec, self.columns)
        with sentence_first():
            try:
                for batch in batches:
                    files.write(batch)
                written = files.finish()
            except BaseException:
                files.discard()
                raise
        yield from map(tuple, written)


def files_source_options(spec: TableSpec, source: Mapping[str, str]) -> dict[str, str]:
    """The options of a read: those of the source "penstock", and the table."""
    return {**source, SPEC_OPTION: spec.to_text()}
