"""df.write.format("penstock") and writeStream: rows become records, and all are acked before their task ends.

At least once: a task or a micro-batch that Spark repeats writes its rows again (Spark's Kafka sink does the same).
Within one task, rows of one partition keep their order. `acks=all` always. Spark pickles the writers, so they hold
plain values; the producer is the worker process's own (log_client.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.errors import ConfigError
from penstock.spark.kafka_options import warn_once
from penstock.spark.log_client import producer
from penstock.spark.machine.worker_memory import WORKER_MEMORY
from penstock.spark.options import SinkOptions
from penstock.spark.plain_errors import sentence_first
from penstock.spark.schema import check_sink_schema

Producers = Callable[[SinkOptions], Any]


@dataclass(frozen=True)
class Written(WriterCommitMessage):  # type: ignore[misc]
    """A task's message to the driver: how many rows were acked."""

    rows: int


class PenstockBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Appends the rows of a DataFrame to topics."""

    def __init__(
        self, options: SinkOptions, schema: StructType, overwrite: bool, producers: Producers | None = None
    ) -> None:
        if overwrite:
            raise ConfigError(
                "mode 'overwrite' is refused: records of a topic are not replaced, and deleting a topic "
                "is not a write; use .mode('append')"
            )
        warn_once(options.without_effect)
        self._writing = Writing(options, schema, producers)

    @sentence_first()
    def write(self, iterator: Iterable[Any]) -> WriterCommitMessage:
        return self._writing.run(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Does nothing: every row was acked before its task ended."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Does nothing: acked records stay in the log, and a repeated write adds them again."""


class PenstockStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Appends the rows of every micro-batch to topics; in complete mode, all rows of the result each time."""

    def __init__(self, options: SinkOptions, schema: StructType, producers: Producers | None = None) -> None:
        self._without_effect = options.without_effect
        self._writing = Writing(options, schema, producers)

    @sentence_first()
    def write(self, iterator: Iterable[Any]) -> WriterCommitMessage:
        return self._writing.run(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to commit: every row was acked before its task ended."""
        if batchId == 0:  # each micro-batch has a writer of its own, in a process of its own
            warn_once(self._without_effect)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Does nothing: acked records stay in the log, and the repeated micro-batch adds them again."""


class Writing:
    """One write, checked when it is planned and run in every task."""

    def __init__(self, options: SinkOptions, schema: StructType, producers: Producers | None) -> None:
        check_sink_schema(schema, bool(options.topic))
        self._options = options
        self._producers = producers

    def run(self, batches: Iterable[Any]) -> Written:
        """Sends every row of a task and waits for every ack; the first failure fails the task."""
        from penstock.spark.arrow_write import TaskWriter

        WORKER_MEMORY.begin_task()
        options = self._options
        made = self._producers(options) if self._producers else producer(options.bootstrap, options.client)
        writer = TaskWriter(made, options.topic)
        for batch in batches:
            writer.write(batch)
        return Written(writer.finish())
