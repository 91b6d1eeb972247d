"""Runs the streaming queries of a job to their end: progress lines, lag, metrics, a clean stop, one-sentence errors.

A stop (SIGTERM, Ctrl-C) waits until no query is within a micro-batch that it had begun before, then ends the query. A
micro-batch that begins meanwhile is cut off and is done again by the next run: the checkpoint decides. If one query
fails, the others are stopped, and its error is raised.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.lazy_dataclass import dataclass
from penstock.pipelines.frame.conf import RunConf
from penstock.pipelines.frame.figures import BatchFigures
from penstock.pipelines.frame.job_context import JobContext
from penstock.pipelines.frame.plain_error import plain_errors
from penstock.spark.positions import lags

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamReader, DataStreamWriter, StreamingQuery

EXIT_LEFT_OUT = 5
"""Exit code of a job that is done, but whose watermark has dropped rows: they are in no result, and no later run brings
them."""
DEAD_LETTERS = "dead-letters"
"""The name under which a query observes how many dead letters of each kind it writes."""
ROWS = "rows"
"""The name under which a query whose rows are files observes how many rows these have."""
LOOK_EVERY_S = 0.2
STOP_WAIT_S = 60.0
"""How long a stop waits for a micro-batch; then it is cut off."""


@dataclass(slots=True)
class Totals:
    """The figures of one query in this run."""

    batches: int = 0
    rows: int = 0
    late_rows: int = 0
    duplicate_rows: int = 0
    written: int = 0
    lag: int | None = None
    dead_letters: Counter[str] = field(default_factory=Counter)


def table_reader(spark: SparkSession, table: Path) -> DataStreamReader:
    """Reads a Parquet table as a stream of its files, with the columns that it has now."""
    return spark.readStream.schema(spark.read.parquet(str(table)).schema)


def triggered(writer: DataStreamWriter, run: RunConf) -> DataStreamWriter:
    """The writer with the trigger that `[run]` says."""
    if run.every.ms:
        return writer.trigger(processingTime=run.every.spark)
    return writer.trigger(availableNow=True)


def run_queries(queries: Sequence[StreamingQuery], context: JobContext) -> dict[str, Totals]:
    """Returns when every query has ended, or was stopped; totals by the query's name."""
    watched = [_Watched(query, context) for query in queries]
    try:
        with plain_errors():
            while any(one.is_running() for one in watched):
                if context.stop.is_set():
                    _stop(watched, context)
                time.sleep(LOOK_EVERY_S)
                for one in watched:
                    one.look()
                    one.raise_failure()
            for one in watched:
                one.query.awaitTermination()
                one.look()
    finally:
        with plain_errors():
            for query in queries:
                query.stop()
    return {one.name: one.totals for one in watched}


def _stop(watched: Sequence[_Watched], context: JobContext) -> None:
    deadline = time.monotonic() + STOP_WAIT_S
    context.say("stopping after the micro-batch under way; a second signal ends the job at once")
    for one in watched:
        begun = one.progress_count
        while one.in_batch() and one.progress_count == begun and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_S / 4)
            one.look()
        context.hush()
        one.query.stop()


class _Watched:
    """One query and what it has told so far."""

    def __init__(self, query: StreamingQuery, context: JobContext) -> None:
        self.query = query
        self.name = query.name or context.job
        self.totals = Totals()
        self.progress_count = 0
        self._seen = ""
        self._context = context

    def is_running(self) -> bool:
        return bool(self.query.isActive)

    def raise_failure(self) -> None:
        """Raises the error of a query that ended with one; the others may run for ever."""
        if not self.query.isActive and self.query.exception() is not None:
            self.query.awaitTermination()

    def in_batch(self) -> bool:
        return bool(self.query.isActive and self.query.status["isTriggerActive"])

    def look(self) -> None:
        """Takes what is new since the last look."""
        last = self.query.lastProgress
        if last is None or last["timestamp"] == self._seen:
            return
        for progress in self.query.recentProgress:
            if progress["timestamp"] > self._seen:
                self.progress_count += 1
                self._take(progress)
        self._seen = last["timestamp"]

    def _take(self, progress: Any) -> None:
        batch = batch_figures(progress)
        totals = self.totals
        totals.batches += 1 if batch.rows else 0
        totals.rows += batch.rows
        totals.late_rows += batch.late_rows
        totals.duplicate_rows += batch.duplicate_rows
        totals.written += max(0, progress["sink"]["numOutputRows"])
        totals.dead_letters.update(batch.dead_letters)
        totals.lag = batch.lag if batch.lag is not None else totals.lag
        self._context.figures.take(self.name, batch)
        if batch.rows:
            of = f" of {', '.join(batch.topics)}" if batch.topics else ""
            behind = "" if batch.lag is None else f", {batch.lag:,} records behind"
            late = f", {batch.late_rows:,} too late and dropped" if batch.late_rows else ""
            took = f"{batch.rows:,} rows{of} in {batch.seconds:.1f} s"
            self._context.say(f"{self.name}: batch {progress['batchId']}: {took}{late}{behind}")


def batch_figures(progress: Any) -> BatchFigures:
    """The numbers of Spark's progress report (its JSON, or the object that PySpark makes of it)."""
    operators = progress["stateOperators"] or []
    behind = lags(progress)
    seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
    began = datetime.fromisoformat(progress["timestamp"]).timestamp()
    rows = _observed(progress, ROWS).get(ROWS)
    return BatchFigures(
        rows=progress["numInputRows"] if rows is None else rows,
        seconds=seconds,
        ended_at_seconds=began + seconds,
        late_rows=sum(one["numRowsDroppedByWatermark"] for one in operators),
        duplicate_rows=sum(one["customMetrics"].get("numDroppedDuplicateRows", 0) for one in operators),
        lag=sum(behind.values()) if behind else None,
        topics=tuple(sorted({tp.topic for tp in behind})),
        dead_letters=_observed(progress, DEAD_LETTERS),
    )


def _observed(progress: Any, name: str) -> dict[str, int]:
    """The counts that a query observes under this name (`DataFrame.observe`)."""
    found = (progress["observedMetrics"] or {}).get(name)
    return {} if found is None else {kind: found[kind] or 0 for kind in found.asDict()}
