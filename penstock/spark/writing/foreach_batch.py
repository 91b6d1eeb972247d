"""write_batch: writes the rows of a micro-batch from within `foreachBatch`, exactly once.

    def on_batch(frame, batch_id):
        write_batch(frame, batch_id, name="totals", bootstrap="127.0.0.1:9192", topic="totals")

    totals.writeStream.outputMode("update").foreachBatch(on_batch).start()

`foreachBatch` is how a stream is written in the output mode `update`, and to several topics. Spark repeats a
micro-batch after a crash; a write that was committed then writes nothing. The name tells the writes of one micro-batch
apart: two with one name would be one, so the second is refused.

Which query this is Spark tells the thread that runs `foreachBatch`. A thread of a pool is told by
`pyspark.inheritable_thread_target`, which hands the properties on; without it the write is refused.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

from penstock.errors import ConfigError
from penstock.spark.writing.batch_key import BATCH_ID, NAME_MARKS, QUERY_ID, run_of
from penstock.spark.writing.durable_plan import keep_plan
from penstock.spark.writing.sink_options import APPLICATION, RUN, VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WriteOptions = TypedDict(
    "WriteOptions",
    {
        "bootstrap": str,
        "bootstrap.servers": str,
        "kafka.bootstrap.servers": str,
        "topic": str,
        "semantics": Literal["exactly-once"],
        "txnGoesBackTo": int | str,
        "txnAcceptsRepetition": int | str,
        "kafka.client.id": str,
        "kafka.request.timeout.ms": int | str,
        "kafka.bootstrap.timeout.ms": int | str,
        "kafka.retry.backoff.ms": int | str,
        "kafka.retry.backoff.max.ms": int | str,
        "kafka.metadata.max.age.ms": int | str,
        "kafka.metadata.max.idle.ms": int | str,
        "kafka.tls": bool | str,
        "kafka.tls.ca": str,
        "kafka.tls.cert": str,
        "kafka.tls.key": str,
        "kafka.tls.server.name": str,
        "kafka.username": str,
        "kafka.password.file": str,
        "kafka.token.file": str,
        "kafka.sasl.mechanism": str,
        "kafka.compression.type": str,
        "kafka.batch.size": int | str,
        "kafka.linger.ms": int | str,
        "kafka.buffer.memory": int | str,
        "kafka.max.block.ms": int | str,
        "kafka.max.request.size": int | str,
        "kafka.max.in.flight.requests.per.connection": int | str,
        "kafka.delivery.timeout.ms": int | str,
        "kafka.retries": int | str,
        "kafka.transaction.timeout.ms": int | str,
    },
    total=False,
)
"""The options of `write_batch` (docs/spark.md). A secret is given by a file: Spark keeps options with its plans."""

_last: dict[str, tuple[str, int]] = {}
"""The run and the batch that were written last in this process, or are being written, by application."""
_looking = threading.Lock()


def write_batch(
    frame: DataFrame, batch_id: int, *, name: str, application: str | None = None, **options: Unpack[WriteOptions]
) -> None:
    """Appends the rows to topics, all or none, once for each name and batch.

    `options` are those of a write with the format "penstock". The application is the query, which is as old as its
    checkpoint. With Spark Connect the query is not known here: give an `application` that no other query has, and
    another one when the query gets a new checkpoint. Beside it the name has no `/` and no `@`.

    Threads of a pool may write frames of one micro-batch at the same time, each with a name of its own: give the pool
    `pyspark.inheritable_thread_target(spark)(function)`.
    """
    if taken := [option for option in options if option.lower() in (APPLICATION.lower(), VERSION.lower())]:
        raise ConfigError(f"option {taken[0]} is set by write_batch; give it a name and, if need be, an application")
    if not name.strip():
        raise ConfigError("write_batch needs a name that no other write of this micro-batch has")
    if application and any(mark in name for mark in NAME_MARKS):
        raise ConfigError(
            f"write_batch's name {name!r} has a '/' or an '@', so beside an application it may be spelt as another"
            " write is, and one of the two would be taken for the other's repetition; give it a name without them"
        )
    query, run = _query_and_run(frame, batch_id)
    if not (application or query):
        raise ConfigError(
            "write_batch cannot tell which query this is: call it in foreachBatch or, with Spark Connect, give it an "
            "application=… that no other query has, and another one for a new checkpoint. A thread of a pool needs "
            "pyspark.inheritable_thread_target(spark)(function) in place of the function"
        )
    full_name = f"{application or query}/{name}"
    before = _take(full_name, run, batch_id, name)
    key = {APPLICATION: full_name, VERSION: str(batch_id), RUN: run}
    try:
        if query:
            _prepare_session(frame, query, batch_id)
        frame.write.format("penstock").options(**{**options, **key}).mode("append").save()
    except BaseException:
        _give_back(full_name, before)
        raise


def _take(full_name: str, run: str, batch_id: int, name: str) -> tuple[str, int] | None:
    """Takes the name for one write of this micro-batch; ConfigError if it is taken. Returns what was written before."""
    with _looking:
        before = _last.get(full_name)
        if before == (run, batch_id):
            raise ConfigError(
                f"batch {batch_id} has a write with the name {name!r} already, and this one would be taken for its "
                "repetition; give each write of a micro-batch a name of its own"
            )
        _last[full_name] = (run, batch_id)
        return before


def _give_back(full_name: str, before: tuple[str, int] | None) -> None:
    """A write that failed may be tried again."""
    with _looking:
        if before is None:
            _last.pop(full_name, None)
        else:
            _last[full_name] = before


def _query_and_run(frame: DataFrame, batch_id: int) -> tuple[str, str]:
    """The query that runs this thread, and its run; empty without a query, and with Spark Connect."""
    from pyspark.sql.utils import is_remote

    if is_remote():
        return "", ""
    context = frame.sparkSession.sparkContext
    query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    if query and batch != str(batch_id):
        raise ConfigError(f"write_batch was called with batch_id={batch_id} in micro-batch {batch}; pass its own on")
    return query or "", run_of(context.getLocalProperty) if query else ""


def _prepare_session(frame: DataFrame, query: str, batch_id: int) -> None:
    """Makes the plan of the micro-batch durable, and the frame's session the active one of this thread, where Spark
    looks for the format. Both ask Spark's JVM, by names that no version promises: where they are not there, the plan is
    Spark's affair, as before."""
    with suppress(Exception):
        jvm_session = frame.sparkSession._jsparkSession
        type_of = frame.sparkSession._jvm.org.apache.spark.sql.classic.SparkSession
        type_of.setActiveSession(jvm_session)
    checkpoint = ""
    with suppress(Exception):
        queries = frame.sparkSession.builder.getOrCreate().streams
        checkpoint = queries.get(query)._jsq.streamingQuery().resolvedCheckpointRoot()
    keep_plan(checkpoint, batch_id)
