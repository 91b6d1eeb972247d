"""The format "penstock" of Spark: makes the readers and writers, after their options and schema were checked.

Spark finds this class by itself through the module `pyspark_penstock`, imports it in each of its planner workers, and
pickles its instances; so this module imports neither gRPC nor numpy nor pyarrow, and holds plain values only. Method
and parameter names are Spark's (it calls `streamWriter` by keyword when it commits).
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.errors import PenstockError
from penstock.spark.batch_reader import PenstockBatchReader
from penstock.spark.options import includes_headers, source_options
from penstock.spark.plain_errors import sentence_first
from penstock.spark.schema import check_source_schema, read_options, source_schema, with_options, write_options
from penstock.spark.stream_reader import PenstockStreamReader, RefusedStreamReader
from penstock.spark.writing.sink import PenstockBatchWriter, PenstockStreamWriter
from penstock.spark.writing.sink_options import sink_options


class PenstockDataSource(DataSource):  # type: ignore[misc]
    """Topics of a Penstock cluster as tables, batch and streaming, read and write."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    @sentence_first()
    def schema(self) -> StructType:
        return with_options(source_schema(includes_headers(self.options)), self.options)

    @sentence_first()
    def reader(self, schema: StructType) -> DataSourceReader:
        options = source_options(read_options(self.options, schema, streaming=False), streaming=False)
        check_source_schema(schema, options.include_headers)
        return PenstockBatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            options = source_options(read_options(self.options, schema, streaming=True), streaming=True)
            check_source_schema(schema, options.include_headers)
        except PenstockError as error:
            return RefusedStreamReader(error)
        return PenstockStreamReader(options, schema)

    @sentence_first()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = sink_options(write_options(self.options, schema, streaming=False))
        writer = PenstockBatchWriter(options, schema, overwrite)
        writer.check_rights()
        return writer

    @sentence_first()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        options = sink_options(write_options(self.options, schema, streaming=True), streaming=True)
        return PenstockStreamWriter(options, schema)
