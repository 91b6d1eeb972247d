"""Bronze: a topic as a Parquet table, every record exactly once, its bytes as they are.

The columns are those of the source (key, value, topic, partition, offset, timestamp, timestampType, and headers if
asked for), and `date` (UTC) where the table is partitioned by it. Spark's checkpoint says how far the table is; Spark's
file sink counts only files of finished micro-batches (table_files.py reads its log). So read the table with Spark, or
those files: a crash may leave files that do not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.pipelines.frame.checks import check_topic
from penstock.pipelines.frame.conf import Fixed, conf_key
from penstock.pipelines.frame.job_context import JobContext
from penstock.pipelines.frame.plain_error import plain_errors
from penstock.pipelines.frame.shapes import CheckpointShape
from penstock.pipelines.frame.streams import run_queries, triggered
from penstock.pipelines.table_files import row_count, table_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONINGS = ("date", "partition", "none")
UTC_DATE = "date_from_unix_date(int(floor(unix_millis(timestamp) / 86400000)))"
"""`to_date` would take the time zone of the session, which may be the user's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BronzeConf:
    """The keys of the job."""

    bootstrap: str = conf_key("the brokers, HOST:PORT[,…]")
    topic: str = conf_key("the topic to read", fixed=Fixed.WHOLE)
    output: Path = conf_key("the directory of the Parquet table", fixed=Fixed.WHOLE)
    checkpoint: str = conf_key("Spark's checkpoint; OUTPUT/_checkpoint if not given", "")
    partition_by: str = conf_key("how the table is partitioned", "date", choices=PARTITIONINGS, fixed=Fixed.WHOLE)
    include_headers: bool = conf_key("keeps the headers of records", False, fixed=Fixed.WHOLE)
    max_offsets_per_trigger: int = conf_key("records in one micro-batch; 0: all that are there", 0, minimum=0)
    skip_undecodable: str = conf_key("batches to pass over if they cannot be decoded, as an error of the job says", "")
    fail_on_data_loss: bool = conf_key("stops when records are gone before they were read", True)

    @property
    def shape(self) -> CheckpointShape:
        checkpoint = Path(self.checkpoint).absolute() if self.checkpoint else self.output / "_checkpoint"
        return CheckpointShape(checkpoint, ("",), "choose another output and another checkpoint")


def check_bronze(conf: BronzeConf) -> None:
    """Fails at once for a checkpoint of another conf, a wrong address or name, not only after Spark's start."""
    conf.shape.check(conf)
    check_topic(conf.bootstrap, conf.topic)


def run_bronze(conf: BronzeConf, context: JobContext) -> dict[str, Any]:
    """Adds to the table what the topic has beyond it."""
    before = set(table_files(conf.output))
    with plain_errors():
        stream = _source(context.spark, conf, context.run.client_options)
        writer = stream.writeStream.format("parquet").queryName("bronze")
        writer = writer.option("path", str(conf.output)).option("checkpointLocation", str(conf.shape.checkpoint))
        if conf.partition_by != "none":
            writer = writer.partitionBy(conf.partition_by)
        conf.shape.keep(conf)
        query = triggered(writer, context.run).start()
    totals = run_queries([query], context)["bronze"]
    added = sorted(set(table_files(conf.output)) - before)
    return {
        "topic": conf.topic,
        "output": str(conf.output),
        "rows": sum(map(row_count, added)),
        "files": len(added),
        "bytes": sum(path.stat().st_size for path in added),
        "batches": totals.batches,
        "lag": totals.lag,
    }


def _source(spark: SparkSession, conf: BronzeConf, client: dict[str, str]) -> DataFrame:
    given = {
        **client,
        "bootstrap": conf.bootstrap,
        "subscribe": conf.topic,
        "startingOffsets": "earliest",
        "includeHeaders": str(conf.include_headers),
        "failOnDataLoss": str(conf.fail_on_data_loss),
    }
    if conf.max_offsets_per_trigger:
        given["maxOffsetsPerTrigger"] = str(conf.max_offsets_per_trigger)
    if conf.skip_undecodable:
        given["skipUndecodable"] = conf.skip_undecodable
    stream = spark.readStream.format("penstock").options(**given).load()
    return stream.selectExpr("*", f"{UTC_DATE} AS date") if conf.partition_by == "date" else stream
