"""Gold: aggregates of a silver table by window and group, each written once it is final, to a topic.

A window is final when the watermark has passed its end: the latest event time so far, less `watermark`. The key of a
record is JSON of the groups and the window's start; the value is JSON of both, the window's end and the measures. Each
window is in the topic once, for readers of committed records. With `semantics = "at-least-once"` a crash may write a
window again, with the same key and the same value: a topic for that must be compacted, and a reader that keeps the last
value of each key sees every window once.

Rows that arrive behind the watermark are in no result. The result counts them (`dropped_by_watermark`), and the exit
code says so; silver has set aside the ones that are later than its `max_lateness`, so a longer `watermark` here drops
none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.pipelines.frame.checks import check_table, check_topic
from penstock.pipelines.frame.conf import DEFAULT_RUN, Duration, Fixed, RunConf, conf_key
from penstock.pipelines.frame.job_context import JobContext
from penstock.pipelines.frame.plain_error import plain_errors
from penstock.pipelines.frame.shapes import CheckpointShape
from penstock.pipelines.frame.streams import EXIT_LEFT_OUT, run_queries, table_reader
from penstock.pipelines.frame.topic_sink import AT_LEAST_ONCE, EXACTLY_ONCE, MEANING, SEMANTICS, TopicSink

QUERY = "gold"
WINDOW_START, WINDOW_END = "window_start", "window_end"
_WINDOW = "_window"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldConf:
    """The keys of the job."""

    input: Path = conf_key("the directory of a table of the job silver", fixed=Fixed.WHOLE)
    bootstrap: str = conf_key("the brokers, HOST:PORT[,…]")
    topic: str = conf_key("the topic to write", fixed=Fixed.WHOLE)
    checkpoint: Path = conf_key("the directory of Spark's checkpoint")
    semantics: str = conf_key(MEANING, EXACTLY_ONCE, choices=SEMANTICS)
    time_column: str = conf_key("the column with the time of an event", fixed=Fixed.WHOLE)
    window: Duration = conf_key("the length of a window", Duration(5 * 60_000), fixed=Fixed.WHOLE)
    watermark: Duration = conf_key(
        "a window is final so long after its end; in event time", Duration(60 * 60_000), fixed=Fixed.WHOLE
    )
    group_by: tuple[str, ...] = conf_key("the columns to group by, besides the window", (), fixed=Fixed.WHOLE)
    measures: dict[str, str] = conf_key(
        'name and SQL aggregate of each result, like `views = "count(*)"`', fixed=Fixed.WHOLE
    )
    where: str = conf_key("an SQL condition; other rows do not count", "", fixed=Fixed.WHOLE)

    def __post_init__(self) -> None:
        if not self.measures:
            raise ConfigError('measures is empty; name at least one, like views = "count(*)"')
        if not self.window.ms:
            raise ConfigError("window must be longer than 0 s")
        taken = {WINDOW_START, WINDOW_END, *self.group_by}
        if twice := [name for name in self.measures if name in taken]:
            raise ConfigError(f"[measures] {twice[0]}: the name is taken by the window or a group; choose another")

    @property
    def shape(self) -> CheckpointShape:
        return CheckpointShape(self.checkpoint, ("",), "choose another topic and another checkpoint")


def check_gold(conf: GoldConf, run: RunConf = DEFAULT_RUN) -> None:
    """Fails at once for a checkpoint of another conf, if there is no table, no topic, or one that needs compaction."""
    conf.shape.check(conf)
    check_table(conf.input, "silver")
    check_topic(conf.bootstrap, conf.topic, run, compacted=True if conf.semantics == AT_LEAST_ONCE else None)


def run_gold(conf: GoldConf, context: JobContext) -> dict[str, Any]:
    """Writes the windows that became final."""
    from pyspark.sql import functions as f

    with plain_errors():
        rows = table_reader(context.spark, conf.input).parquet(str(conf.input))
        rows = rows.where(conf.where) if conf.where else rows
        window = f.window(f.col(conf.time_column), conf.window.spark).alias(_WINDOW)
        measures = [f.expr(text).alias(name) for name, text in conf.measures.items()]
        windows = rows.withWatermark(conf.time_column, conf.watermark.spark).groupBy(window, *conf.group_by)
        bounds = [f.col(f"{_WINDOW}.start").alias(WINDOW_START), f.col(f"{_WINDOW}.end").alias(WINDOW_END)]
        result = windows.agg(*measures).select(*bounds, *conf.group_by, *conf.measures)
        place, whole = [*conf.group_by, WINDOW_START], [WINDOW_START, WINDOW_END, *conf.group_by, *conf.measures]
        records = result.select(_json(place).alias("key"), _json(whole).alias("value"))
        sink = TopicSink(conf.bootstrap, conf.topic, conf.semantics, conf.checkpoint)
        writer = sink.writer(records, QUERY, context)
        conf.shape.keep(conf)
        query = writer.start()
    totals = run_queries([query], context)[QUERY]
    return {
        "topic": conf.topic,
        "rows": totals.rows,
        "windows_written": totals.written,
        "dropped_by_watermark": totals.late_rows,
        "batches": totals.batches,
        "exit_code": EXIT_LEFT_OUT if totals.late_rows else 0,
    }


def _json(columns: list[str]) -> Any:
    """Nulls are written: a group that is null is a group. Times are UTC in any session, so that keys stay the same."""
    from pyspark.sql import functions as f

    return f.to_json(f.struct(*columns), {"ignoreNullFields": "false", "timeZone": "UTC"})
