"""The end of a job that writes to a topic: each micro-batch is in it once, as a whole (docs/spark.md, exactly once).

Brokers of an earlier version have no atomic batches. For them a job's conf says `semantics = "at-least-once"`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.lazy_dataclass import dataclass
from penstock.pipelines.frame.job_context import JobContext
from penstock.pipelines.frame.streams import triggered
from penstock.spark.writing.sink_options import ACCEPTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
SEMANTICS = (EXACTLY_ONCE, AT_LEAST_ONCE)
MEANING = "how often a record is in the topic that a crash makes the job write again"


@dataclass(frozen=True, slots=True)
class TopicSink:
    """The topic that the records of a query go to."""

    bootstrap: str
    topic: str
    semantics: str
    checkpoint: Path

    def writer(self, records: DataFrame, query: str, context: JobContext) -> DataStreamWriter:
        """A writer of the query, ready to start."""
        given = {"bootstrap": self.bootstrap, "topic": self.topic, "semantics": self.semantics}
        if (batch := context.run.accepts_repetition) >= 0 and self.semantics == EXACTLY_ONCE:
            given[ACCEPTS] = str(batch)
        writer = records.writeStream.format("penstock").queryName(query).outputMode("append")
        writer = writer.options(**context.run.client_options, **given)
        return triggered(writer.option("checkpointLocation", str(self.checkpoint)), context.run)
