"""Topic to Parquet: everything that a topic holds now, as a partitioned Parquet table; a re-run adds only what is new.

    python -m penstock.pipelines.topic_to_parquet --bootstrap 127.0.0.1:9192 --topic orders --output /data/orders

The job bronze (jobs/bronze.py) with its commonest keys as options, for a topic at hand; local paths only.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 records are gone from the log that should have been read.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from penstock.cli.edge.connecting import add_connecting_options
from penstock.cli.edge.usage import EXIT_USAGE, UsageError, show_usage
from penstock.errors import ConfigError, PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.pipelines.frame.conf import RunConf, local_path
from penstock.pipelines.frame.figures import Figures
from penstock.pipelines.frame.job_context import JobContext
from penstock.pipelines.jobs.bronze import PARTITIONINGS, BronzeConf, check_bronze, run_bronze
from penstock.spark.planning import DataLossError
from penstock.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXIT_FAILED = 1
EXIT_DATA_LOSS = 3


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """The options of a run besides its source and its target."""

    partition_by: str = "date"
    max_offsets_per_trigger: int = 0
    include_headers: bool = False
    fail_on_data_loss: bool = True
    quick: bool = False

    def __post_init__(self) -> None:
        if self.partition_by not in PARTITIONINGS:
            raise ConfigError(f"partition_by={self.partition_by!r} must be one of {', '.join(PARTITIONINGS)}")


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """The rows and files that one run added; `start_seconds` is the part of `seconds` that starting Spark took."""

    topic: str
    output: str
    rows: int
    files: int
    bytes: int
    seconds: float
    start_seconds: float
    batches: int


def topic_to_parquet(
    bootstrap: str,
    topic: str,
    output: str | Path,
    checkpoint: str | Path | None = None,
    options: PipelineOptions | None = None,
    *,
    spark: SparkSession | None = None,
) -> PipelineResult:
    """Runs the pipeline once. The checkpoint is `OUTPUT/_checkpoint` unless another is named.

    Without `spark` a local session is started and stopped again.
    """
    chosen = options or PipelineOptions()
    try:
        target = local_path(str(output))
    except ValueError:
        raise ConfigError(f"output = {str(output)!r} must be a path on this machine") from None
    conf = BronzeConf(
        bootstrap=bootstrap,
        topic=topic,
        output=target,
        checkpoint="" if checkpoint is None else str(checkpoint),
        partition_by=chosen.partition_by,
        include_headers=chosen.include_headers,
        max_offsets_per_trigger=chosen.max_offsets_per_trigger,
        fail_on_data_loss=chosen.fail_on_data_loss,
    )
    began = time.monotonic()
    check_bronze(conf)
    own = spark is None
    session = spark or spark_session("penstock topic_to_parquet", quick=chosen.quick)
    started = time.monotonic()
    try:
        done = run_bronze(conf, JobContext("bronze", RunConf(), lambda: session, Figures("bronze")))
    finally:
        if own:
            session.stop()
    return PipelineResult(
        topic=topic,
        output=str(target),
        rows=done["rows"],
        files=done["files"],
        bytes=done["bytes"],
        seconds=round(time.monotonic() - began, 3),
        start_seconds=round(started - began, 3),
        batches=done["batches"],
    )


def main(
    bootstrap: Annotated[str, typer.Option(metavar="HOST:PORT", envvar="PENSTOCK_BOOTSTRAP", help="Brokers.")],
    topic: Annotated[str, typer.Option(help="The topic to read.")],
    output: Annotated[Path, typer.Option(help="Directory of the Parquet table.")],
    checkpoint: Annotated[
        Path | None, typer.Option(help="Spark's checkpoint; OUTPUT/_checkpoint if not given.")
    ] = None,
    partition_by: Annotated[str, typer.Option(help="date, partition or none.")] = "date",
    max_offsets: Annotated[int, typer.Option(min=0, help="Records in one micro-batch; 0: all at once.")] = 0,
    headers: Annotated[bool, typer.Option(help="Keep record headers.")] = False,
    fail_on_data_loss: Annotated[bool, typer.Option(help="Stop when records are gone before they were read.")] = True,
    quick: Annotated[bool, typer.Option(help="A faster start for small topics.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write everything that a topic holds now to a Parquet table; run again to add what is new."""
    try:
        options = PipelineOptions(partition_by, max_offsets, headers, fail_on_data_loss, quick)
        result = topic_to_parquet(bootstrap, topic, output, checkpoint, options)
    except DataLossError as error:
        _fail(f"data loss: {error}", EXIT_DATA_LOSS)
    except ConfigError as error:
        _fail(str(error), EXIT_USAGE)
    except PenstockError as error:
        _fail(str(error), EXIT_FAILED)
    else:
        typer.echo(json.dumps(asdict(result)) if as_json else _summary(result))


def _summary(result: PipelineResult) -> str:
    return (
        f"{result.topic}: {result.rows} rows in {result.files} files, {result.bytes} bytes, added to {result.output} "
        f"in {result.seconds:.1f} s (Spark's start {result.start_seconds:.1f} s)"
    )


def _fail(text: str, code: int) -> NoReturn:
    typer.echo(f"topic_to_parquet: {text}", err=True)
    sys.exit(code)


def run() -> NoReturn:
    """The command; Ctrl-C ends it with 130."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    add_connecting_options(app)
    try:
        sys.exit(app(standalone_mode=False))
    except UsageError as error:
        show_usage("topic_to_parquet", error)
        sys.exit(EXIT_USAGE)


if __name__ == "__main__":
    run()
