"""Table to topic: every row of a Parquet table as a record, files that come later too, each file once per checkpoint.

The table may be one of these jobs or any directory of Parquet files that only grows; a table of the job backfill only
grows from the moment when no chunk is left. Key, value, partition and timestamp are SQL over its columns; the value is
JSON of the row if nothing else is said, and a row whose value is null becomes a tombstone. Each row is in the topic
once, for readers of committed records.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.lazy_dataclass import dataclass
from penstock.pipelines.frame.checks import check_table, check_topic
from penstock.pipelines.frame.conf import DEFAULT_RUN, Fixed, RunConf, conf_key
from penstock.pipelines.frame.job_context import JobContext
from penstock.pipelines.frame.plain_error import plain_errors
from penstock.pipelines.frame.shapes import CheckpointShape
from penstock.pipelines.frame.streams import run_queries, table_reader
from penstock.pipelines.frame.topic_sink import EXACTLY_ONCE, MEANING, SEMANTICS, TopicSink

QUERY = "table-to-topic"
FILE_AGE_MAX = "36500d"
"""Spark's default leaves out new files whose time is a week before the latest file's, as copied files' may be. The
price is a list of all files in the driver's memory that never gets shorter: too much for a job that never ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableToTopicConf:
    """The keys of the job."""

    input: Path = conf_key("the directory of the Parquet table", fixed=Fixed.WHOLE)
    bootstrap: str = conf_key("the brokers, HOST:PORT[,…]")
    topic: str = conf_key("the topic to write", fixed=Fixed.WHOLE)
    checkpoint: Path = conf_key("the directory of Spark's checkpoint")
    semantics: str = conf_key(MEANING, EXACTLY_ONCE, choices=SEMANTICS)
    key: str = conf_key("SQL for the records' key (string or binary); none if not given", "")
    value: str = conf_key("SQL for the records' value (string or binary)", "to_json(struct(*))")
    partition: str = conf_key("SQL for the records' partition (int); by key if not given", "")
    timestamp: str = conf_key("SQL for the records' time (timestamp); the time of writing if not given", "")
    where: str = conf_key("an SQL condition; other rows are not written", "")
    max_files_per_trigger: int = conf_key("files in one micro-batch; 0: all that are there", 0, minimum=0)

    @property
    def shape(self) -> CheckpointShape:
        return CheckpointShape(self.checkpoint, ("",), "choose another checkpoint")


def check_table_to_topic(conf: TableToTopicConf, run: RunConf = DEFAULT_RUN) -> None:
    """Fails at once for a checkpoint of another conf, and if there is no table or no topic."""
    conf.shape.check(conf)
    check_table(conf.input, "")
    check_topic(conf.bootstrap, conf.topic, run)


def run_table_to_topic(conf: TableToTopicConf, context: JobContext) -> dict[str, Any]:
    """Writes the rows of files that were not written before."""
    with plain_errors():
        reader = table_reader(context.spark, conf.input).option("maxFileAge", FILE_AGE_MAX)
        if conf.max_files_per_trigger:
            reader = reader.option("maxFilesPerTrigger", conf.max_files_per_trigger)
        rows = reader.parquet(str(conf.input))
        rows = rows.where(conf.where) if conf.where else rows
        wanted = {
            "key": conf.key,
            "value": conf.value,
            "partition": conf.partition and f"int({conf.partition})",
            "timestamp": conf.timestamp and f"timestamp({conf.timestamp})",
        }
        records = rows.selectExpr(*(f"{text} AS {name}" for name, text in wanted.items() if text))
        sink = TopicSink(conf.bootstrap, conf.topic, conf.semantics, conf.checkpoint)
        writer = sink.writer(records, QUERY, context)
        conf.shape.keep(conf)
        query = writer.start()
    totals = run_queries([query], context)[QUERY]
    return {"topic": conf.topic, "rows": totals.rows, "records_written": totals.written, "batches": totals.batches}
