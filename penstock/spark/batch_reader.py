"""spark.read.format("penstock"): plans the ranges of a bounded read on the driver, reads one on an executor.

Where a read begins and ends is decided once, in `partitions()`; a task reads exactly its range, so that a retried task
reads the same rows. Spark pickles the reader, so it holds plain values only.

The reader has no `pushFilters`, and must not get one with PySpark 4.3: Spark keeps the ranges of the filters that were
pushed last in the frame itself (PythonScanBuilder calls PythonDataSourceV2.setReadInfo), and every other scan of that
frame, view or statement then reads these ranges. Without the method Spark checks every filter itself, also where
`spark.sql.python.filterPushdown.enabled` is on. A read is bounded by options alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.spark.kafka_options import warn_once
from penstock.spark.log_client import LogClient, log_client
from penstock.spark.options import SourceOptions
from penstock.spark.plain_errors import sentence_first
from penstock.spark.planning import PlannedRange, clamp_to_log, split
from penstock.spark.topics import boundary_offsets, earliest, latest, subscribed


class PenstockBatchReader(DataSourceReader):  # type: ignore[misc]
    """Reads topics between two boundaries."""

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        clients: Callable[[SourceOptions], LogClient] | None = None,
    ) -> None:
        self._options = options
        self._schema = schema
        self._clients = clients

    @sentence_first()
    def partitions(self) -> list[InputPartition]:
        """One task for each range; an empty list for nothing to read."""
        options = self._options
        warn_once(options.without_effect)
        client = self._client()
        found = subscribed(client, options.subscription, must_exist=True)
        los = boundary_offsets(client, options.starting, found)
        his = boundary_offsets(client, options.ending, found)
        log_starts, log_ends = earliest(client, found.partitions), latest(client, found.partitions)
        spans = []
        for tp in found.partitions:
            span = PlannedRange(tp.topic, found.topics[tp.topic].topic_id, tp.partition, los[tp].offset, his[tp].offset)
            spans.append(clamp_to_log(span, log_starts[tp].offset, log_ends[tp].offset, options.fail_on_data_loss))
        pieces = split(spans, options.min_partitions, options.max_records_per_partition)
        return [InputPartition(span) for span in pieces]

    @sentence_first()
    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one range, as Arrow batches."""
        if partition.value is None:  # Spark replaces an empty list of partitions with this
            return iter(())
        return read_partition(self._client(), partition.value, self._options, self._schema)

    def _client(self) -> LogClient:
        return client_for(self._options, self._clients)


def client_for(options: SourceOptions, clients: Callable[[SourceOptions], LogClient] | None) -> LogClient:
    """The process's client, or what a test gave instead."""
    return clients(options) if clients is not None else log_client(options.bootstrap, options.client)


def read_partition(client: LogClient, span: PlannedRange, options: SourceOptions, schema: StructType) -> Iterator[Any]:
    """The rows of one range. Imports numpy and pyarrow, and so belongs to executors."""
    from penstock.spark.arrow_read import ReadSettings, read_range

    skipped = options.skip_undecodable.get(span.topic_partition, frozenset())
    settings = ReadSettings(schema, options.fail_on_data_loss, bool(options.client.get("check_crcs", True)), skipped)
    with sentence_first():
        yield from read_range(client, span, settings)
