"""The context of a running job, besides its own conf: Spark, the table `[run]`, a stop flag, and a place for
progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING

from penstock.errors import MissingDependencyError, PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.pipelines.frame.conf import RunConf
from penstock.pipelines.frame.figures import Figures
from penstock.pipelines.frame.plain_error import plain_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_SETTINGS = {
    # streams.py looks at them five times a second.
    "spark.sql.streaming.numRecentProgressUpdates": "100",
}


def _silent(_: str) -> None:
    """Reports nothing: the default where no person watches."""


def _leave_log() -> None:
    """The session is the user's own, and so is its log."""


@dataclass(frozen=True, slots=True)
class JobContext:
    """One run of a job. `session` makes the Spark session when it is first needed."""

    job: str
    run: RunConf
    session: Callable[[], SparkSession]
    figures: Figures
    stop: threading.Event = field(default_factory=threading.Event)
    say: Callable[[str], None] = _silent
    hush: Callable[[], None] = _leave_log
    """Ends Spark's log, before a stop cuts a micro-batch off: Spark logs that as an error, with its stack."""

    @property
    def spark(self) -> SparkSession:
        return self.session()


@contextmanager
def local_spark(job: str, run: RunConf) -> Iterator[Callable[[], SparkSession]]:
    """A session that starts when it is asked for and is stopped at the end."""
    made: list[SparkSession] = []

    def session() -> SparkSession:
        from penstock.spark.session import spark_session

        if not made:
            settings = {**SPARK_SETTINGS, **run.spark}
            try:
                with plain_errors():
                    made.append(
                        spark_session(f"penstock {job}", run.master, settings, quick=run.quick, logs_failures=False)
                    )
            except MissingDependencyError:
                raise
            except PenstockError as error:
                error.add_note("Spark did not start: Java's own lines are above; check [run] master and [run] spark")
                raise
        return made[0]

    try:
        yield session
    finally:
        with plain_errors():
            for started in made:
                started.stop()
