"""Topic to Parquet: everything that a topic holds now, as a partitioned Parquet table; a re-run adds only what is new.

    python -m penstock.pipelines.topic_to_parquet --bootstrap 127.0.0.1:9192 --topic orders --output /data/orders

A structured stream with the trigger AvailableNow. Each record is in the table exactly once: Spark's checkpoint says
how far the table is, and Spark's file sink counts only files of finished micro-batches (table_files.py reads its
log). So read the table with Spark, or those files: a crash may leave files that do not count. The columns are those of
the source, and `date` (UTC) where the table is partitioned by it. Local paths only.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 records are gone from the log that should have been read.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from penstock.cli.usage import EXIT_USAGE, UsageError, fail_usage
from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.table_files import row_count, table_files
from penstock.spark.log_client import PenstockLogClient
from penstock.spark.options import Subscription
from penstock.spark.planning import DataLossError
from penstock.spark.session import spark_session
from penstock.spark.topics import subscribed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXIT_FAILED = 1
EXIT_DATA_LOSS = 3
PARTITIONINGS = ("date", "partition", "none")


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
    target = Path(output).absolute()
    began = time.monotonic()
    _check_topic(bootstrap, topic)
    own = spark is None
    session = spark or spark_session("penstock topic_to_parquet", quick=chosen.quick)
    started = time.monotonic()
    before = set(table_files(target))
    try:
        batches = _run(session, _source(session, bootstrap, topic, chosen), target, checkpoint, chosen)
    finally:
        if own:
            session.stop()
    added = sorted(set(table_files(target)) - before)
    return PipelineResult(
        topic=topic,
        output=str(target),
        rows=sum(map(row_count, added)),
        files=len(added),
        bytes=sum(path.stat().st_size for path in added),
        seconds=round(time.monotonic() - began, 3),
        start_seconds=round(started - began, 3),
        batches=batches,
    )


def _check_topic(bootstrap: str, topic: str) -> None:
    """Fails at once for a wrong address or name, not only after Spark's start."""
    with PenstockLogClient(bootstrap, {}) as client:
        subscribed(client, Subscription(topics=(topic,)), must_exist=True)


def _source(spark: SparkSession, bootstrap: str, topic: str, options: PipelineOptions) -> DataFrame:
    given = {
        "bootstrap": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "includeHeaders": str(options.include_headers),
        "failOnDataLoss": str(options.fail_on_data_loss),
    }
    if options.max_offsets_per_trigger:
        given["maxOffsetsPerTrigger"] = str(options.max_offsets_per_trigger)
    stream = spark.readStream.format("penstock").options(**given).load()
    if options.partition_by == "date":
        return stream.selectExpr("*", "to_date(timestamp) AS date")
    return stream


def _run(
    spark: SparkSession, stream: DataFrame, target: Path, checkpoint: str | Path | None, options: PipelineOptions
) -> int:
    """The number of micro-batches that had rows."""
    from pyspark.errors import StreamingQueryException

    place = Path(checkpoint).absolute() if checkpoint is not None else target / "_checkpoint"
    writer = stream.writeStream.format("parquet").option("path", str(target)).option("checkpointLocation", str(place))
    if options.partition_by != "none":
        writer = writer.partitionBy(options.partition_by)
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        raise _plain_error(str(error)) from error
    finally:
        query.stop()
    return sum(1 for progress in query.recentProgress if progress.numInputRows)


def _plain_error(text: str) -> PenstockError:
    """The one line that matters of a stack of Java and Python traces."""
    for line in text.splitlines():
        name, colon, message = line.strip().partition(": ")
        if not colon or not name.startswith("penstock."):
            continue
        return DataLossError(message) if name.endswith(".DataLossError") else PenstockError(message)
    return PenstockError(f"the Spark query failed: {text}")


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
    try:
        sys.exit(app(standalone_mode=False))
    except UsageError as error:
        fail_usage("topic_to_parquet", error)


if __name__ == "__main__":
    run()
