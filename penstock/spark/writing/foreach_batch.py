"""write_batch: writes the rows of a micro-batch from within `foreachBatch`, exactly once.

    def on_batch(frame, batch_id):
        write_batch(frame, batch_id, name="totals", bootstrap="127.0.0.1:9192", topic="totals")

    totals.writeStream.outputMode("update").foreachBatch(on_batch).start()

`foreachBatch` is how a stream is written in the output mode `update`, and to several topics. Spark repeats a
micro-batch after a crash; a write that was committed then writes nothing. The name tells the writes of one micro-batch
apart: two with one name would be one, so the second is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError
from penstock.spark.writing.batch_key import BATCH_ID, QUERY_ID, RUN
from penstock.spark.writing.sink_options import APPLICATION, VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_last: dict[str, tuple[str, int]] = {}
"""The run and the batch that were written last in this process, by application."""


def write_batch(frame: DataFrame, batch_id: int, *, name: str, application: str | None = None, **options: Any) -> None:
    """Appends the rows to topics, all or none, once for each name and batch.

    `options` are those of a write with the format "penstock". The application is the query, which is as old as its
    checkpoint. With Spark Connect the query is not known here: give an `application` that no other query has, and
    another one when the query gets a new checkpoint.
    """
    if taken := [option for option in options if option.lower() in (APPLICATION.lower(), VERSION.lower())]:
        raise ConfigError(f"option {taken[0]} is set by write_batch; give it a name and, if need be, an application")
    if not name.strip():
        raise ConfigError("write_batch needs a name that no other write of this micro-batch has")
    query, run = _query_and_run(frame, batch_id)
    if not (application or query):
        raise ConfigError(
            "write_batch cannot tell which query this is: call it in foreachBatch or, with Spark Connect, give it an "
            "application=… that no other query has, and another one for a new checkpoint"
        )
    full_name = f"{application or query}/{name}"
    if _last.get(full_name) == (run, batch_id):
        raise ConfigError(
            f"batch {batch_id} has a write with the name {name!r} already, and this one would be taken for its "
            "repetition; give each write of a micro-batch a name of its own"
        )
    key = {APPLICATION: full_name, VERSION: str(batch_id)}
    frame.write.format("penstock").options(**{**options, **key}).mode("append").save()
    _last[full_name] = (run, batch_id)


def _query_and_run(frame: DataFrame, batch_id: int) -> tuple[str, str]:
    """The query that runs this thread, and its run; empty where there is none, and with Spark Connect."""
    from pyspark.sql.utils import is_remote

    if is_remote():
        return "", ""
    context = frame.sparkSession.sparkContext
    query, batch, run = map(context.getLocalProperty, (QUERY_ID, BATCH_ID, RUN))
    if query and batch != str(batch_id):
        raise ConfigError(f"write_batch was called with batch_id={batch_id} in micro-batch {batch}; pass its own on")
    return query or "", run or ""
