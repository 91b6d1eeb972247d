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
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import field
from itertools import chain
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.errors import ConfigError, InvalidRequestError, PenstockError, TransactionalIdAuthorizationFailedError
from penstock.lazy_dataclass import dataclass
from penstock.spark.kafka_options import warn_once
from penstock.spark.log_client import atomic_batches, producer
from penstock.spark.machine.cut_off import is_cut_off
from penstock.spark.machine.worker_memory import WORKER_MEMORY
from penstock.spark.plain_errors import sentence_first
from penstock.spark.schema import check_sink_schema
from penstock.spark.writing.batch_key import BatchKey, Properties, batch_write_key, stream_key, task_property
from penstock.spark.writing.durable_plan import keep_plan
from penstock.spark.writing.last_will import LAST_WILLS, LastWills, Will
from penstock.spark.writing.refusals import (
    RowsWritten,
    check_repetition,
    check_spelling,
    warn_of_time,
    with_remedy,
)
from penstock.spark.writing.sink_options import SinkOptions

_log = logging.getLogger(__name__)

OWN_NAME = "spark-write-"
"""The beginning of the name of a batch write that was given none: nobody repeats it."""
CHECK_S, GIVE_UP_S = 3.0, 3.0
"""The time of the driver's look at its rights before a write, and of a task that fails: neither may hold Spark up."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):  # type: ignore[misc]
    """A task's message to the driver."""

    rows: int
    """Rows that were acked; where the batch was committed before, those that would have been sent."""
    key: BatchKey | None = None
    """The atomic batch; None with at-least-once."""
    writer: tuple[int, int] | None = None
    """The id and the epoch of the producer that wrote the rows; None without a producer, because the batch was
    committed before, or because the task has no rows."""
    total: int = 0
    """The sum over the rows (checksum.py)."""
    begun_ms: int = 0
    """The time when the writer began, by the executor's calendar."""


@dataclass(frozen=True)
class Tools:
    """The clients of the process that a write runs in, and what Spark tells there; tests give others."""

    producer: Callable[[SinkOptions], Any] = field(default=lambda options: producer(options.bootstrap, options.client))
    atomic_batches: Callable[[SinkOptions], Any] = field(
        default=lambda options: atomic_batches(options.bootstrap, options.client)
    )
    properties: Properties = task_property
    is_cut_off: Callable[[], bool] = is_cut_off
    last_wills: LastWills = LAST_WILLS
    wall_ms: Callable[[], int] = field(default=lambda: int(time.time() * 1000))


class PenstockBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Appends the rows of a DataFrame to topics: all of them, or none."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool, tools: Tools | None = None) -> None:
        if overwrite:
            raise ConfigError(
                "mode 'overwrite' is refused: records of a topic are not replaced, and deleting a topic "
                "is not a write; use .mode('append')"
            )
        warn_once(options.without_effect)
        self._name = f"{OWN_NAME}{uuid.uuid4().hex}"
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
        options = self._writing.options
        known = batch_write_key(options, self._name, self._writing.properties)
        self._writing.abort(messages, {known} if options.is_exactly_once else set())

    def check_rights(self) -> None:
        """Refuses on the driver what every task would be refused, before Spark has begun one."""
        self._writing.check_rights(batch_write_key(self._writing.options, self._name, self._writing.properties))


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
        options = self._writing.options
        if batchId == 0:  # each micro-batch has a writer of its own, in a process of its own
            warn_once(options.without_effect)
        if options.is_exactly_once:
            keep_plan(options.checkpoint, batchId)
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
        """Sends every row like `at_least_once`, with a producer of the attempt's own. A task without rows begins
        nothing. A task that fails aborts what it wrote. The last will of a task that is killed has it aborted: other
        attempts go on, and no reader waits for it. `one_off`: nobody will write under this name again."""
        from penstock.spark.writing.checksum import RowSum

        WORKER_MEMORY.begin_task()
        summed = RowSum(self.options.topic)
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return Written(0, key)
        begun_ms = self.tools.wall_ms()
        with with_remedy(key, self.options):
            writer = self._begin(key, one_off)
        rows = summed.over(chain([first], filled))
        if writer is None:
            deque(rows, maxlen=0)
            return Written(summed.rows, key, None, summed.total, begun_ms)
        will = self._will(key, writer)
        self.tools.last_wills.leave(will)
        try:
            with with_remedy(key, self.options):
                count = self._send(writer, rows)
            if self.tools.is_cut_off():
                raise PenstockError(f"{key}: the task failed in front of the sink, after {count} rows; see its error")
        except BaseException:
            if _give_up(writer, key):
                self.tools.last_wills.revoke(will)
            raise
        writer.close()
        self.tools.last_wills.revoke(will)
        return Written(count, key, (writer.identity.producer_id, writer.identity.epoch), summed.total, begun_ms)

    def _begin(self, key: BatchKey, one_off: bool) -> Any:
        """Begins a writer of the batch; None if the version is committed already."""
        return self.tools.atomic_batches(self.options).begin(
            key.application,
            key.version,
            timeout_ms=self.options.timeout_ms,
            run=key.run,
            goes_back=self._goes_back(key),
            one_off=one_off,
        )

    def _will(self, key: BatchKey, writer: Any) -> Will:
        identity, client = writer.identity, self.options.client
        return Will(self.options.bootstrap, key.application, key.run, identity.producer_id, identity.epoch, client)

    def _send(self, sender: Any, batches: Iterable[Any]) -> int:
        from penstock.spark.writing.arrow_write import TaskWriter

        writer = TaskWriter(sender, self.options.topic)
        for batch in batches:
            writer.write(batch)
        return writer.finish()

    # -- on the driver -------------------------------------------------------------------------------------------------

    def check_rights(self, key: BatchKey) -> None:
        """Any other error than a refusal is left to the tasks, which meet it, too, and have more patience."""
        if not self.options.is_exactly_once:
            return
        try:
            with with_remedy(key, self.options):
                self.tools.atomic_batches(self.options).last_version(key.application, timeout=CHECK_S)
        except TransactionalIdAuthorizationFailedError:
            raise
        except PenstockError as error:
            _log.debug("the rights of %s were not checked: %s", key, error)

    def commit(self, messages: Sequence[Any]) -> None:
        """One decision over what the accepted attempts wrote; nothing where no task had rows."""
        begun = [message for message in messages if message is not None and message.key is not None]
        if not begun:
            return
        key, written = begun[0].key, [message for message in begun if message.rows]
        writers = [message.writer for message in written if message.writer is not None]
        if {message.key for message in begun} != {key} or len(writers) not in (0, len(written)):
            raise PenstockError(
                f"the tasks of one write do not agree on it: {sorted({str(message.key) for message in begun})}, of "
                f"which {len(written) - len(writers)} found it committed; nothing is committed"
            )
        rows = RowsWritten.of((one.rows, one.total) for one in written)
        is_known = bool(written) and not writers
        with with_remedy(key, self.options):
            is_of_earlier = not is_known and self._is_of_earlier_release(key)
        if is_of_earlier:
            check_spelling(key, self.options)
        with with_remedy(key, self.options):
            decided = self._decided_before(key, rows, is_of_earlier)
            if decided is None and written:
                answer = self._commit(key.application, key, writers, rows)
                decided = RowsWritten(answer.records, answer.checksum) if answer.was_committed else None
        if decided is not None:
            check_repetition(key, rows, decided, self.options)
        elif writers:
            warn_of_time(key, self.tools.wall_ms() - min(one.begun_ms for one in written), self.options)

    def _commit(self, application: str, key: BatchKey, writers: Sequence[Any], rows: RowsWritten) -> Any:
        return self.tools.atomic_batches(self.options).commit(
            application,
            key.version,
            writers,
            run=key.run,
            records=rows.number,
            checksum=rows.checksum,
            goes_back=self._goes_back(key),
        )

    def _is_of_earlier_release(self, key: BatchKey) -> bool:
        """True if the version, or a later one, was committed under the user's name alone: the names of an earlier
        release had no topic."""
        earlier = self.options.application
        is_renamed = bool(earlier) and not self.options.is_write_batch and not self._goes_back(key)
        return is_renamed and _last_version(self.tools.atomic_batches(self.options), earlier, key) >= key.version

    def _decided_before(self, key: BatchKey, rows: RowsWritten, is_of_earlier: bool) -> RowsWritten | None:
        """Asks what was committed by an earlier release; or before a repetition without rows, whose tasks have asked
        nothing."""
        batches = self.tools.atomic_batches(self.options)
        if is_of_earlier:
            batches.abort(key.application, key.version, run=key.run)
            application = self.options.application
        elif rows.number or key.application.startswith(OWN_NAME):
            return None
        elif batches.abort(key.application, key.version, run=key.run):
            application = key.application
        else:
            return None
        answer = self._commit(application, key, [], rows)  # it is committed: the answer has what it had
        return RowsWritten(answer.records, answer.checksum)

    def _goes_back(self, key: BatchKey) -> bool:
        return key.version == self.options.goes_back_to

    def abort(self, messages: Sequence[Any], known: Set[BatchKey] = frozenset()) -> None:
        """Aborts what the driver knows to be begun. A task that failed has aborted its own part; what is left is
        aborted by its time-out, or when the batch begins again."""
        begun = {message.key for message in messages if message is not None and message.writer is not None}
        for key in known | begun:
            try:
                self.tools.atomic_batches(self.options).abort(key.application, key.version, run=key.run)
            except PenstockError as error:
                _log.warning("%s was not aborted, and waits for its time-out or its next attempt: %s", key, error)


def _last_version(batches: Any, earlier: str, key: BatchKey) -> int:
    try:
        return int(batches.last_version(earlier, timeout=CHECK_S))
    except InvalidRequestError:  # a coordinator of an earlier version knows no such question
        return key.version if batches.abort(earlier, key.version, run=key.run) else -1


def _give_up(writer: Any, key: BatchKey) -> bool:
    """Aborts the writer of a task that failed; no error is raised, because the task raises its own. False: the writer
    is not aborted, and its last will is left for the end of this process."""
    try:
        writer.abort(timeout=GIVE_UP_S)
    except PenstockError as error:
        _log.warning("a part of %s was not aborted, and waits for the others or its time-out: %s", key, error)
        return False
    return True
