"""The tools of Spark: the source as a table and as a stream, the sink, and each job that asks a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock.client.admin.admin_types import Operation, ResourceType
from penstock.pipelines.catalog import run_job
from penstock.pipelines.frame.plain_error import plain_errors
from tests.rights.matrix import Tool
from tests.rights.stage import GROUP, ORDERS, OUT, Stage, Who

READS: Final = ((Operation.READ, ResourceType.TOPIC),)
READS_GROUP: Final = (*READS, (Operation.READ, ResourceType.GROUP))
WRITES: Final = ((Operation.WRITE, ResourceType.TOPIC),)
EXACTLY_ONCE: Final = (*WRITES, (Operation.WRITE, ResourceType.TRANSACTIONAL_ID))
AT_LEAST_ONCE: Final = {"semantics": "at-least-once"}
IN_TASKS: Final = EXACTLY_ONCE
"""The rights that tasks need; Spark tries each task again."""
LIMIT_S: Final = 20.0
"""A micro-batch with a task that fails twice takes seconds on a busy machine; metadata that is waited for, 60 s."""

JOBS: Final = {
    "bronze": f'topic = "{ORDERS}"\noutput = "{{place}}/table"\n',
    "backfill": f'topic = "{ORDERS}"\noutput = "{{place}}/table"\n'
    'begin = 2026-01-01T00:00:00Z\nend = 2026-01-01T01:00:00Z\nchunk = "1 h"\n',
    "silver": f'input = "{{lake}}/bronze"\noutput = "{{place}}/table"\ndead_letter_topic = "{OUT}"\nid_column = "id"\n'
    'time_column = "at"\n[columns]\nid = "string"\nat = "timestamp"\n',
    "gold": f'input = "{{lake}}/events"\ntopic = "{OUT}"\ncheckpoint = "{{place}}/checkpoint"\ntime_column = "at"\n'
    '[measures]\nevents = "count(*)"\n',
    "table-to-topic": f'input = "{{lake}}/events"\ntopic = "{OUT}"\ncheckpoint = "{{place}}/checkpoint"\n',
}
"""The conf of each, without brokers and login."""


def spark_tools(spark: SparkSession) -> dict[str, tuple[Tool, ...]]:
    """By role."""
    return {
        "spark-source": spark_source(spark),
        "spark-sink": spark_sink(spark),
        "spark-sink-at-least-once": spark_sink_at_least_once(spark),
    }


def spark_source(spark: SparkSession) -> tuple[Tool, ...]:
    def table(stage: Stage, who: Who) -> None:
        with plain_errors():
            assert spark.read.format("penstock").options(**who.spark, subscribe=ORDERS).load().count()

    def stream(**more: str) -> Callable[[Stage, Who], None]:
        def run(stage: Stage, who: Who) -> None:
            options = {**who.spark, "subscribe": ORDERS, "startingOffsets": "earliest", **more}
            rows = spark.readStream.format("penstock").options(**options).load()
            _to_end(rows.writeStream.format("noop"), _own_place(stage))

        return run

    from_group = stream(**{"startingOffsets": "group", "kafka.group.id": f"{GROUP}lagging"})
    return (
        _tool("spark.read", table, READS),
        _tool("spark.readStream", stream(**{"commitOffsetsToGroup": "true", "kafka.group.id": f"{GROUP}spark"}), READS),
        _tool("spark.readStream, startingOffsets=group", from_group, READS_GROUP),
        _job(spark, "bronze", READS),
        _job(spark, "backfill", READS),
    )


def spark_sink(spark: SparkSession) -> tuple[Tool, ...]:
    return (
        *_writes(spark, EXACTLY_ONCE, {}),
        _tool("a write with a name", _table(spark, {"txnAppId": "app", "txnVersion": "0"}), EXACTLY_ONCE, IN_TASKS),
        *(_job(spark, name, EXACTLY_ONCE) for name in ("silver", "gold", "table-to-topic")),
    )


def spark_sink_at_least_once(spark: SparkSession) -> tuple[Tool, ...]:
    return (
        *_writes(spark, WRITES, AT_LEAST_ONCE),
        _job(spark, "table-to-topic", WRITES, 'semantics = "at-least-once"\n'),
    )


def _writes(spark: SparkSession, needs: Any, options: dict[str, str]) -> tuple[Tool, ...]:
    def stream(stage: Stage, who: Who) -> None:
        table = _events(stage)
        rows = spark.readStream.schema(spark.read.parquet(str(table)).schema).parquet(str(table))
        writer = rows.selectExpr("id AS value").writeStream.format("penstock")
        _to_end(writer.options(**who.spark, **options, topic=OUT), _own_place(stage))

    return (
        _tool("DataFrame.write", _table(spark, options), needs, WRITES),
        _tool("DataFrame.writeStream", stream, needs, IN_TASKS),
    )


def _tool(name: str, run: Callable[[Stage, Who], None], needs: Any, slow: Any = ()) -> Tool:
    """`slow`: the rights that only tasks miss."""
    return Tool(name, run, needs, limit_s=LIMIT_S, slow=slow)


def _table(spark: SparkSession, options: dict[str, str]) -> Callable[[Stage, Who], None]:
    def run(stage: Stage, who: Who) -> None:
        given = {**options, **({"txnAppId": f"app-{stage.own_name()}"} if "txnAppId" in options else {})}
        rows = spark.range(4).selectExpr("string(id) AS value")
        with plain_errors():
            rows.write.format("penstock").options(**who.spark, **given, topic=OUT).mode("append").save()

    return run


def _to_end(writer: Any, place: Path) -> None:
    with plain_errors():
        query = writer.option("checkpointLocation", str(place)).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()


def _job(spark: SparkSession, name: str, needs: Any, more: str = "") -> Tool:
    def run(stage: Stage, who: Who) -> None:
        place = _own_place(stage)
        _events(stage)
        if name == "silver":
            _bronze(stage, spark)
        keys = more + JOBS[name].format(place=place, lake=stage.path / "lake")
        conf = place.with_suffix(".toml")
        conf.write_text(f'bootstrap = "{who.bootstrap}"\n{keys}{who.job}')
        run_job(name, conf, spark=spark)

    return _tool(f"penstock pipeline run {name}", run, needs, IN_TASKS[1:])


def _own_place(stage: Stage) -> Path:
    return stage.path / f"place-{stage.own_name()}"


def _events(stage: Stage) -> Path:
    """A table with events of twenty hours, so that windows end."""
    table = stage.path / "lake" / "events"
    if not table.exists():
        table.mkdir(parents=True)
        hours = [number * 3_600_000_000 for number in range(20)]
        columns = {"id": [str(hour) for hour in hours], "at": pa.array(hours, pa.timestamp("us", "UTC"))}
        pq.write_table(pa.table(columns), table / "events.parquet")
    return table


def _bronze(stage: Stage, spark: SparkSession) -> None:
    """Its events are years older than their records: silver makes dead letters of them."""
    table = stage.path / "lake" / "bronze"
    if not table.exists():
        conf = stage.path / "lake" / "bronze.toml"
        keys = JOBS["bronze"].format(place=table).replace("/table", "")
        conf.write_text(f'bootstrap = "{stage.bootstrap}"\n{keys}{stage.root.job}')
        run_job("bronze", conf, spark=spark)
