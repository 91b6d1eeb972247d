"""The table of the jobs, and one run of one of them: conf, check, Spark, result.

    run_job("bronze", Path("bronze.toml"))

A job is a module of `jobs/` with a conf (a dataclass of keys), `check_NAME(conf, run)`, which fails for what is wrong
before Spark is started, and `run_NAME(conf, context)`, which returns the result as a dictionary. A job is imported when
it is named, not before.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.config_keys import did_you_mean
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.pipelines.frame.conf import ConfRow, RunConf, parse_job, read_conf, rows_of
from penstock.pipelines.frame.figures import Figures
from penstock.pipelines.frame.job_context import JobContext, local_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOM = "penstock.pipelines.jobs"


@dataclass(frozen=True, slots=True)
class Job:
    """One row of the table."""

    name: str
    module: str
    conf_class: str
    summary: str
    ends_cleanly: bool = True
    """True if the job watches the stop flag, so that a signal ends it at a good place."""

    @property
    def conf(self) -> type[Any]:
        """The dataclass of its keys."""
        found: type[Any] = getattr(self._module(), self.conf_class)
        return found

    def check(self, conf: Any, run: RunConf) -> None:
        getattr(self._module(), f"check_{self.module}")(conf, run)

    def run(self, conf: Any, context: JobContext) -> dict[str, Any]:
        done: dict[str, Any] = getattr(self._module(), f"run_{self.module}")(conf, context)
        return done

    def _module(self) -> Any:
        return importlib.import_module(f"{ROOM}.{self.module}")


_ALL = (
    Job("bronze", "bronze", "BronzeConf", "a topic to a Parquet table, every record exactly once"),
    Job("silver", "silver", "SilverConf", "bronze's JSON parsed and deduplicated; bad rows to a dead-letter topic"),
    Job("gold", "gold", "GoldConf", "silver's rows summed by window and group; final windows to a topic"),
    Job("backfill", "backfill", "BackfillConf", "a topic's records between two times to Parquet, chunk by chunk"),
    Job("table-to-topic", "table_to_topic", "TableToTopicConf", "the rows of a Parquet table as records of a topic"),
    Job(
        "audit", "audit", "AuditConf", "all replicas of topics, verified and compared from closed segment files", False
    ),
)
JOBS = {job.name: job for job in _ALL}


def find_job(name: str) -> Job:
    """ConfigError names the jobs that there are."""
    if name in JOBS:
        return JOBS[name]
    hint = did_you_mean(name, JOBS) or f"; there are {', '.join(JOBS)}"
    raise ConfigError(f"there is no job {name!r}{hint}")


def describe_job(name: str) -> tuple[list[ConfRow], list[ConfRow]]:
    """The job's own keys, and those of `[run]`."""
    return rows_of(find_job(name).conf), rows_of(RunConf)


def run_job(
    name: str,
    conf_path: Path,
    *,
    spark: SparkSession | None = None,
    stop: threading.Event | None = None,
    say: Callable[[str], None] = lambda _: None,
    catch_signals: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Runs a job once; the result has its name and its seconds.

    Without `spark` a local session is started and stopped again. `catch_signals` makes signals set `stop`. It is called
    before the job, and again once Spark runs, which takes the process's signals for itself; never for a job that does
    not watch `stop`.
    """
    job = find_job(name)
    conf, run = parse_job(name, job.conf, read_conf(conf_path), str(conf_path))
    began = time.monotonic()
    job.check(conf, run)
    catch = catch_signals if job.ends_cleanly else lambda: None
    catch()
    with Figures(name, run.metrics_port) as figures, local_spark(name, run) as local:

        def session() -> SparkSession:
            if spark is not None:
                return spark
            made = local()
            catch()
            return made

        context = JobContext(name, run, session, figures, stop or threading.Event(), say)
        if spark is None:
            context = replace(context, hush=lambda: local().sparkContext.setLogLevel("OFF"))
        result = job.run(conf, context)
    return {"job": name, **result, "seconds": round(time.monotonic() - began, 3)}
