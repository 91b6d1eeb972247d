"""df.write.format("penstock") and writeStream: rows become records, and all are acked before their task ends.

Exactly once, unless the options say otherwise: a micro-batch, or a batch write, is one atomic batch of the log. Each
attempt of a task writes with a producer of its own; Spark's driver then commits the attempts that it accepts, and what
others wrote is aborted. A micro-batch that Spark repeats after its commit writes nothing; its rows are taken all the
same, because what computes them may keep state. With at-least-once a task that is repeated writes its rows again, as
with Spark's Kafka sink.

Within one task, rows of one partition keep their order. `acks=all` always. Spark pickles the writers, so they hold
plain values; clients are the worker process's own (log_client.py).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.errors import ConfigError, PenstockError
from penstock.spark.kafka_options import warn_once
from penstock.spark.log_client import atomic_batches, producer
from penstock.spark.machine.worker_memory import WORKER_MEMORY
from penstock.spark.plain_errors import sentence_first
from penstock.spark.schema import check_sink_schema
from penstock.spark.writing.batch_key import BatchKey, Properties, batch_write_key, stream_key, task_property
from penstock.spark.writing.refusals import check_repetition, with_remedy
from penstock.spark.writing.sink_options import SinkOptions

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Written(WriterCommitMessage):  # type: ignore[misc]
    """A task's message to the driver."""

    rows: int
    """Rows that were acked; where the batch was committed before, those that would have been sent."""
    key: BatchKey | None = None
    """The atomic batch; None where nothing was begun."""
    writer: tuple[int, int] | None = None
    """The id and the epoch of the producer that wrote them; None: there is none, because the batch was committed
    before."""


@dataclass(frozen=True)
class Tools:
    """The clients of the process that a write runs in, and what Spark tells there; tests give others."""

    producer: Callable[[SinkOptions], Any] = field(default=lambda options: producer(options.bootstrap, options.client))
    atomic_batches: Callable[[SinkOptions], Any] = field(
        default=lambda options: atomic_batches(options.bootstrap, options.client)
    )
    properties: Properties = task_property


class PenstockBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Appends the rows of a DataFrame to topics: all of them, or none."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool, tools: Tools | None = None) -> None:
        if overwrite:
            raise ConfigError(
                "mode 'overwrite' is refused: records of a topic are not replaced, and deleting a topic "
                "is not a write; use .mode('append')"
            )
        warn_once(options.without_effect)
        self._name = f"spark-write-{uuid.uuid4().hex}"
        self._writing = Writing(options, schema, tools)

    @sentence_first()
    def write(self, iterator: Iterable[Any]) -> WriterCommitMessage:
        writing = self._writing
        if not writing.options.is_exactly_once:
            return writing.at_least_once(iterator)
        key = batch_write_key(writing.options, self._name, writing.properties)
        return writing.exactly_once(iterator, key, one_off=not writing.options.application)

    @sentence_first()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Decides: the rows of all tasks are there from now on."""
        self._writing.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """The rows of no task will ever be read. With at-least-once, those that were acked stay."""
        own = BatchKey(self._name, 0, self._name)
        is_own = self._writing.options.is_exactly_once and not self._writing.options.application
        self._writing.abort(messages, {own} if is_own else set())


class PenstockStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Appends the rows of every micro-batch to topics; in complete mode, all rows of the result each time."""

    def __init__(self, options: SinkOptions, schema: StructType, tools: Tools | None = None) -> None:
        self._writing = Writing(options, schema, tools)

    @sentence_first()
    def write(self, iterator: Iterable[Any]) -> WriterCommitMessage:
        writing = self._writing
        if not writing.options.is_exactly_once:
            return writing.at_least_once(iterator)
        return writing.exactly_once(iterator, stream_key(writing.properties))

    @sentence_first()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Decides: the rows of the micro-batch are there from now on, however often Spark repeats it."""
        if batchId == 0:  # each micro-batch has a writer of its own, in a process of its own
            warn_once(self._writing.options.without_effect)
        self._writing.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """The rows of this attempt will never be read. With at-least-once, those that were acked stay."""
        self._writing.abort(messages)


class Writing:
    """One write: checked when it is planned, run in every task, decided by the driver."""

    def __init__(self, options: SinkOptions, schema: StructType, tools: Tools | None) -> None:
        check_sink_schema(schema, bool(options.topic))
        self.options = options
        self._tools = tools

    # -- in a task -----------------------------------------------------------------------------------------------------

    @property
    def tools(self) -> Tools:
        return self._tools or Tools()

    @property
    def properties(self) -> Properties:
        return self.tools.properties

    def at_least_once(self, batches: Iterable[Any]) -> Written:
        """Sends every row of a task and waits for every ack; the first failure fails the task."""
        WORKER_MEMORY.begin_task()
        return Written(self._send(self.tools.producer(self.options), batches))

    def exactly_once(self, batches: Iterable[Any], key: BatchKey, *, one_off: bool = False) -> Written:
        """The same with a producer of the attempt's own. A task without rows begins nothing. `one_off`: nobody will
        write under this name again."""
        WORKER_MEMORY.begin_task()
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return Written(0)
        options = self.options
        with with_remedy(key, options):
            writer = self.tools.atomic_batches(options).begin(
                key.application,
                key.version,
                timeout_ms=options.timeout_ms,
                run=key.run,
                goes_back=self._goes_back(key),
                one_off=one_off,
            )
        if writer is None:
            return Written(first.num_rows + sum(batch.num_rows for batch in filled), key)
        try:
            with with_remedy(key, options):
                rows = self._send(writer, chain([first], filled))
            return Written(rows, key, (writer.identity.producer_id, writer.identity.epoch))
        finally:
            writer.close()

    def _send(self, sender: Any, batches: Iterable[Any]) -> int:
        from penstock.spark.writing.arrow_write import TaskWriter

        writer = TaskWriter(sender, self.options.topic)
        for batch in batches:
            writer.write(batch)
        return writer.finish()

    # -- on the driver -------------------------------------------------------------------------------------------------

    def commit(self, messages: Sequence[Any]) -> None:
        """One decision over what the accepted attempts wrote; nothing where no task had rows."""
        written = [message for message in messages if message is not None and message.key is not None]
        if not written:
            return
        key, rows = written[0].key, sum(message.rows for message in written)
        writers = [message.writer for message in written if message.writer is not None]
        if {message.key for message in written} != {key} or len(writers) not in (0, len(written)):
            raise PenstockError(
                f"the tasks of one write do not agree on it: {sorted({str(message.key) for message in written})}, of "
                f"which {len(written) - len(writers)} found it committed; nothing is committed"
            )
        with with_remedy(key, self.options):
            committed = self.tools.atomic_batches(self.options).commit(
                key.application, key.version, writers, run=key.run, records=rows, goes_back=self._goes_back(key)
            )
        if committed.was_committed:
            check_repetition(key, rows, committed.records)

    def _goes_back(self, key: BatchKey) -> bool:
        return key.version == self.options.goes_back_to

    def abort(self, messages: Sequence[Any], known: Set[BatchKey] = frozenset()) -> None:
        """As far as the driver knows what was begun; the rest is aborted by its time-out, or when the batch begins
        again."""
        told = {message.key for message in messages if message is not None and message.writer is not None}
        for key in known | told:
            try:
                self.tools.atomic_batches(self.options).abort(key.application, key.version, run=key.run)
            except PenstockError as error:
                _log.warning("%s was not aborted, and waits for its time-out or its next attempt: %s", key, error)
