"""The name of the atomic batch that a task writes to: an application, its version, and the run that writes.

A stream's application is its query, which is as old as its checkpoint; the version is the micro-batch. So a
micro-batch that Spark repeats has its name again, however its rows are dealt to tasks. Spark tells tasks both as local
properties. The run is one start of the query: two of them at a time have copies of one checkpoint, and the log tells
them apart by it. It is `sql.streaming.runId`. An earlier Spark tells it as the job group alone. A user's `setJobGroup`
in `foreachBatch` replaces that, so there it counts only where it is a UUID, as Spark's are; a sink's own thread runs no
code of a user.

A batch write by itself has an application of its own: two writes of one `foreachBatch` have the same query and
micro-batch, so these do not name them. A user's name for a batch write is a name within its topic, as Delta has it
within a table: two topics that are written under one name are two applications (`named_within`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final
from uuid import UUID

from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.messages.transactions.atomic_batches import APPLICATION_CHARACTERS_MAX
from penstock.spark.writing.sink_options import AT_LEAST_ONCE, SinkOptions

QUERY_ID, BATCH_ID, RUN_ID = "sql.streaming.queryId", "streaming.sql.batchId", "sql.streaming.runId"
"""Spark's names of the local properties that a task of a stream has."""
JOB_GROUP = "spark.jobGroup.id"
"""The run's id, too, until a user sets another."""
NAME_MARKS: Final = ("/", "@")
"""The mark before the name of a write_batch, and the mark before the topic of a user's name. A write_batch with an
application of the user's has neither in its name, so that no two pairs, and no two kinds, share a spelling."""
_DIGEST_CHARACTERS: Final = 32

Properties = Callable[[str], "str | None"]


@dataclass(frozen=True, slots=True)
class BatchKey:
    """The atomic batch of a write, and the run that writes it."""

    application: str
    version: int
    run: str

    def __str__(self) -> str:
        """The batch for people, without its run."""
        return f"version {self.version} of {self.application!r}"


def task_property(name: str) -> str | None:
    """A local property of the task that runs here; None outside of a task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def run_of(properties: Properties) -> str:
    """The start of the query whose `foreachBatch` writes; "" where Spark does not tell it."""
    if run := properties(RUN_ID):
        return run
    group = properties(JOB_GROUP) or ""
    try:
        UUID(group)
    except ValueError:
        return ""
    return group


def stream_key(properties: Properties = task_property) -> BatchKey:
    """The name of a micro-batch; ConfigError where Spark does not tell it: nothing is written under a guess."""
    query, batch, run = properties(QUERY_ID), properties(BATCH_ID), properties(RUN_ID) or properties(JOB_GROUP)
    missing = [name for name, value in ((QUERY_ID, query), (BATCH_ID, batch), (RUN_ID, run)) if not value]
    if not query or not run or not (batch or "").isdecimal():
        raise ConfigError(
            f"Spark did not tell this task which micro-batch it writes ({', '.join(missing) or BATCH_ID} of its local "
            f"properties), so its rows cannot be written exactly once; set the option semantics={AT_LEAST_ONCE}, or "
            "write in foreachBatch with penstock.spark.write_batch"
        )
    return BatchKey(query, int(str(batch)), run)


def batch_write_key(options: SinkOptions, own_name: str, properties: Properties = task_property) -> BatchKey:
    """The name of a batch write: its own, or the given one, which within `foreachBatch` the query's run writes. On the
    driver, which Spark tells no properties, it is the same but for the run of a name that write_batch did not give."""
    if not options.application:
        return BatchKey(own_name, 0, own_name)
    run = options.run or (run_of(properties) if properties(QUERY_ID) else "")
    return BatchKey(application_in(options), options.version, run or own_name)


def application_in(options: SinkOptions) -> str:
    """The application of a write that has a name."""
    return options.application if options.is_write_batch else named_within(options.application, options.topic)


def named_within(name: str, topic: str) -> str:
    """The application of a user's name within a topic; without one, of the rows whose column says where they go. No two
    pairs share one: a topic has no `@`. A name that is too long ends with a digest of all of it."""
    whole = f"{name}@{topic}"
    if len(whole) <= APPLICATION_CHARACTERS_MAX:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{whole[: APPLICATION_CHARACTERS_MAX - _DIGEST_CHARACTERS - 1]}@{digest}"
