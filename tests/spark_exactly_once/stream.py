"""A stream that carries a topic into another, its rows in another order each time: the program that is killed.

    python -m tests.spark_exactly_once.stream BOOTSTRAP SOURCE TARGET CHECKPOINT SEMANTICS MAX_OFFSETS PACE_S

It ends where the source ended when it began. Each task waits PACE_S more than the one before it, so that some have
written their rows while others have not.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import rand
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark import spark_session

TASKS = 3


def start(
    spark: SparkSession, bootstrap: str, source: str, target: str, checkpoint: str, max_offsets: int, **more: Any
) -> StreamingQuery:
    """The query, started. `pace_s`; `is_endless`: it does not end where the source ends now; options of the sink."""
    pace_s, is_endless = float(more.pop("pace_s", 0)), more.pop("is_endless", False)

    def paced(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        time.sleep(pace_s * (context.partitionId() if context is not None else 0))
        yield from batches

    rows = (
        spark.readStream.format("penstock")
        .options(bootstrap=bootstrap, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=max_offsets)
        .load()
        .select("value")
        .repartition(TASKS, rand())
    )
    paced_rows = rows.mapInArrow(paced, "value binary") if pace_s else rows
    writer = paced_rows.writeStream.format("penstock").options(bootstrap=bootstrap, topic=target, **more)
    writer = writer.option("checkpointLocation", checkpoint)
    return (writer if is_endless else writer.trigger(availableNow=True)).start()


def main() -> None:
    bootstrap, source, target, checkpoint, semantics, max_offsets, pace_s = sys.argv[1:]
    spark = spark_session("exactly-once", quick=True)
    more = {"semantics": semantics, "pace_s": pace_s}
    start(spark, bootstrap, source, target, checkpoint, int(max_offsets), **more).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
