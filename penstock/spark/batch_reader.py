"""spark.read.format("penstock"): plans the ranges of a bounded read on the driver, reads a task's on an executor.

Where a read begins and ends is decided once, in `partitions()`; a task reads exactly its ranges, so that a retried task
reads the same rows. Spark pickles the reader, so it holds plain values only.

The reader has no `pushFilters`, and must not get one with PySpark 4.3: Spark keeps the ranges of the filters that were
pushed last in the frame itself (PythonScanBuilder calls PythonDataSourceV2.setReadInfo), and every other scan of that
frame, view or statement then reads these ranges. Without the method Spark checks every filter itself, also where
`spark.sql.python.filterPushdown.enabled` is on. A read is bounded by options alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.spark.admission import packed_tasks, sampler
from penstock.spark.kafka_options import warn_once
from penstock.spark.log_client import LogClient, log_client
from penstock.spark.machine.worker_memory import WORKER_MEMORY
from penstock.spark.options import SourceOptions
from penstock.spark.plain_errors import sentence_first
from penstock.spark.planning import PlannedRange, Task, clamp_to_log, report_loss, split
from penstock.spark.topics import boundary_offsets, earliest, ends_of_logs, latest, subscribed


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
        furthest = {tp: max(los[tp].offset, his[tp].offset) for tp in found.partitions}
        ends, spans, seen = ends_of_logs(client, furthest, log_ends), [], client.seen()
        for tp in found.partitions:
            topic_id, end = found.topics[tp.topic].topic_id, log_ends[tp]
            lo, hi = los[tp].offset, his[tp].offset
            if lo > ends[tp]:
                what = f"{tp}: option {options.starting.option} begins at {lo}, and the log ends at {ends[tp]}"
                report_loss(what, options.fail_on_data_loss)
            span = PlannedRange(tp.topic, topic_id, tp.partition, lo, hi, end.leader_epoch, seen)
            start = log_starts[tp].offset
            spans.append(clamp_to_log(span, start, ends[tp], end.offset, options.fail_on_data_loss))
        return tasks_for(client, spans, options)

    @sentence_first()
    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a task's ranges, as Arrow batches."""
        if partition.value is None:  # Spark replaces an empty list of partitions with this
            return iter(())
        return read_task(self._client(), partition.value, self._options, self._schema)

    def _client(self) -> LogClient:
        return client_for(self._options, self._clients)


def client_for(options: SourceOptions, clients: Callable[[SourceOptions], LogClient] | None) -> LogClient:
    """The process's client, or what a test gave instead."""
    return clients(options) if clients is not None else log_client(options.bootstrap, options.client)


def tasks_for(client: LogClient, spans: Iterable[PlannedRange], options: SourceOptions) -> list[InputPartition]:
    """Spark's tasks for these ranges: large ranges cut, small ones put together, as the options say."""
    pieces = split(spans, options.min_partitions, options.max_records_per_partition)
    take = sampler(client, {piece.topic: piece.topic_id for piece in pieces})
    tasks = packed_tasks(take, pieces, options.max_records_per_partition, options.min_partitions)
    return [InputPartition(task) for task in tasks]


def read_task(client: LogClient, task: Task, options: SourceOptions, schema: StructType) -> Iterator[Any]:
    """The rows of its ranges, one after another. Imports numpy and pyarrow, and so belongs to executors."""
    from penstock.spark.arrow_read import ReadSettings, read_range

    WORKER_MEMORY.begin_task()
    check_crcs = bool(options.client.get("check_crcs", True))
    with sentence_first():
        for span in task:
            skipped = options.skip_undecodable.get(span.topic_partition, frozenset())
            yield from read_range(client, span, ReadSettings(schema, options.fail_on_data_loss, check_crcs, skipped))
