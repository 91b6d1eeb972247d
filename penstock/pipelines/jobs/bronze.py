"""Bronze: a topic as a Parquet table, every record exactly once, its bytes as they are.

The columns are those of the source (key, value, topic, partition, offset, timestamp, timestampType, and headers if
asked for), and `date` (UTC) where the table is partitioned by it. The tasks that read records write them as well, from
Arrow to Parquet, so no record goes through Java. Spark's checkpoint says how far the table is; the table's log, in the
format of Spark's own file sink, names the files of finished micro-batches (parquet_table/).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.lazy_dataclass import dataclass
from penstock.pipelines.frame.checks import check_topic
from penstock.pipelines.frame.conf import DEFAULT_RUN, Fixed, RunConf, conf_key
from penstock.pipelines.frame.job_context import JobContext
from penstock.pipelines.frame.plain_error import plain_errors
from penstock.pipelines.frame.shapes import CheckpointShape, checkpoint_of
from penstock.pipelines.frame.streams import ROWS, run_queries, triggered
from penstock.pipelines.parquet_table.commit import CommitBatch
from penstock.pipelines.parquet_table.files_source import FORMAT, TableFilesSource, files_source_options
from penstock.pipelines.parquet_table.place import check_place, delete_leftovers, locked
from penstock.pipelines.parquet_table.sink_log import COMPACT_EVERY
from penstock.pipelines.parquet_table.table_spec import CODEC_SETTING, TableSpec, codec_of
from penstock.pipelines.table_files import row_count, table_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONINGS = ("date", "partition", "none")
COMPACT_SETTING = "spark.sql.streaming.fileSink.log.compactInterval"


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
        checkpoint = checkpoint_of(self.output, self.checkpoint)
        return CheckpointShape(checkpoint, ("",), "choose another output and another checkpoint")


def check_bronze(conf: BronzeConf, run: RunConf = DEFAULT_RUN) -> None:
    """Fails at once for a checkpoint of another conf or table, a wrong address or name: before Spark is started."""
    conf.shape.check(conf)
    check_place(conf.output, conf.shape.checkpoint)
    check_topic(conf.bootstrap, conf.topic, run)


def run_bronze(conf: BronzeConf, context: JobContext) -> dict[str, Any]:
    """Adds to the table what the topic has beyond it."""
    with locked(conf.output):
        check_place(conf.output, conf.shape.checkpoint)
        delete_leftovers(conf.output)
        return _run(conf, context)


def _run(conf: BronzeConf, context: JobContext) -> dict[str, Any]:
    before = set(table_files(conf.output))
    with plain_errors():
        spark = context.spark
        files = _source(spark, conf, context.run.client_options)
        compact_every = int(spark.conf.get(COMPACT_SETTING, str(COMPACT_EVERY)))
        commit = CommitBatch(conf.output, conf.shape.checkpoint, compact_every)
        writer = files.writeStream.queryName("bronze").foreachBatch(commit)
        writer = writer.option("checkpointLocation", str(conf.shape.checkpoint))
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
    """The files that the tasks of each micro-batch write; their rows are counted on the way."""
    from pyspark.sql import functions as f

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
    spark.dataSource.register(TableFilesSource)
    spec = TableSpec(str(conf.output), conf.partition_by, codec_of(spark.conf.get(CODEC_SETTING, "snappy")))
    files = spark.readStream.format(FORMAT).options(**files_source_options(spec, given)).load()
    return files.observe(ROWS, f.sum(ROWS).alias(ROWS))
