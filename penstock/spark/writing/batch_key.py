"""The name of the atomic batch that a task writes to: an application, its version, and the run that writes.

A stream's application is its query, which is as old as its checkpoint; the version is the micro-batch. So a
micro-batch that Spark repeats has its name again, however its rows are dealt to tasks. Spark tells tasks both as local
properties. The run is one start of the query: two of them at a time have copies of one checkpoint, and the log tells
them apart by it.

A batch write by itself has an application of its own: two writes of one `foreachBatch` have the same query and
micro-batch, so these do not name them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.spark.writing.sink_options import AT_LEAST_ONCE, SinkOptions

QUERY_ID, BATCH_ID, RUN = "sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"
"""Spark's names of the local properties that a task of a stream has."""

Properties = Callable[[str], "str | None"]


@dataclass(frozen=True, slots=True)
class BatchKey:
    """The atomic batch of a write, and who writes."""

    application: str
    version: int
    run: str

    def __str__(self) -> str:
        return f"version {self.version} of {self.application!r}"


def task_property(name: str) -> str | None:
    """A local property of the task that runs here; None outside of a task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def stream_key(properties: Properties = task_property) -> BatchKey:
    """The name of a micro-batch; ConfigError where Spark does not tell it: nothing is written under a guess."""
    told = {name: properties(name) for name in (QUERY_ID, BATCH_ID, RUN)}
    missing = [name for name, value in told.items() if not value]
    if missing or not str(told[BATCH_ID]).isdecimal():
        raise ConfigError(
            f"Spark did not tell this task which micro-batch it writes ({', '.join(missing) or BATCH_ID} of its local "
            f"properties), so its rows cannot be written exactly once; set the option semantics={AT_LEAST_ONCE}, or "
            "write in foreachBatch with penstock.spark.write_batch"
        )
    return BatchKey(str(told[QUERY_ID]), int(str(told[BATCH_ID])), str(told[RUN]))


def batch_write_key(options: SinkOptions, own_name: str, properties: Properties = task_property) -> BatchKey:
    """The name of a batch write: its own, or the given one, which within `foreachBatch` the query's run writes."""
    if not options.application:
        return BatchKey(own_name, 0, own_name)
    run = properties(RUN) if properties(QUERY_ID) else None
    return BatchKey(options.application, options.version, run or own_name)
