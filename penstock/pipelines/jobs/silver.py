"""Silver: the JSON of a bronze table as typed columns, each event once; bad rows go to a dead-letter topic.

    bronze table ─┬─► parsed, good, first of its id ─► Parquet table          query "silver", exactly once
                  └─► bad ─► dead-letter topic                                query "dead-letters", exactly once

A row is bad if its value is not JSON of the conf's columns, if a required column is missing, if it is late (its time
column is more than `max_lateness` before the record's own time), or if it is early (more than `max_earliness` behind
it). An early one has a wrong clock, or a time in other units; taken for good it would move the watermark, and Spark
would drop all that comes after it. These rules depend on the row alone. What comes behind the watermark is left out and
counted (`dropped_by_watermark`), and the exit code says so. Tombstones (null values) are left out. Two queries read the
same table, each with its own checkpoint, because Spark's file sink is exactly once only as the sink of its own query.

A dead letter (dead_letters.py) names the place of its record. An id is remembered for
`watermark` of event time, which must be at least `max_lateness` plus `max_earliness` plus the time by which partitions
can be apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.config_keys import did_you_mean
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.pipelines.dead_letters import dead_letters, room_bytes
from penstock.pipelines.frame.checks import check_table, check_topic
from penstock.pipelines.frame.conf import DEFAULT_RUN, Duration, Fixed, RunConf, conf_key
from penstock.pipelines.frame.job_context import JobContext
from penstock.pipelines.frame.plain_error import plain_errors
from penstock.pipelines.frame.shapes import CheckpointShape, checkpoint_of
from penstock.pipelines.frame.streams import DEAD_LETTERS, EXIT_LEFT_OUT, run_queries, table_reader, triggered
from penstock.pipelines.frame.topic_sink import EXACTLY_ONCE, MEANING, SEMANTICS, TopicSink
from penstock.pipelines.parquet_table.place import check_place
from penstock.pipelines.table_files import row_count, table_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

GOOD, DEAD = "silver", DEAD_LETTERS
NOT_JSON, MISSING = "not JSON of the columns", "is missing"
LATER_THAN, AHEAD_BY = "later than", "ahead of its record by more than"
KINDS = {"malformed": NOT_JSON, "missing": MISSING, "late": LATER_THAN, "early": AHEAD_BY}
"""The words in the reason of a row of each kind."""
_CORRUPT, _EVENT, _REASON = "_corrupt", "_event", "_reason"
SOURCE_COLUMNS = {"_topic": "topic", "_partition": "partition", "_offset": "offset", "_timestamp": "timestamp"}
"""The columns that say where a row came from, beside its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SilverConf:
    """The keys of the job."""

    input: Path = conf_key("the directory of a table of the job bronze", fixed=Fixed.WHOLE)
    output: Path = conf_key("the directory of the Parquet table", fixed=Fixed.WHOLE)
    checkpoint: str = conf_key("Spark's checkpoints; OUTPUT/_checkpoint if not given", "")
    bootstrap: str = conf_key("the brokers, HOST:PORT[,…]")
    dead_letter_topic: str = conf_key("the topic for rows that cannot be taken")
    semantics: str = conf_key(f"{MEANING}: of dead letters", EXACTLY_ONCE, choices=SEMANTICS)
    columns: dict[str, str] = conf_key(
        'the fields of the JSON and their Spark types, like `event_time = "timestamp"`', fixed=Fixed.EACH
    )
    id_column: str = conf_key("of the columns, the one that is different for each event", fixed=Fixed.WHOLE)
    time_column: str = conf_key("of the columns, the timestamp of the event", fixed=Fixed.WHOLE)
    required: tuple[str, ...] = conf_key("columns that may not be missing, besides the id and the time", ())
    max_lateness: Duration = conf_key("an event may be so much older than its record", Duration(10 * 60_000))
    max_earliness: Duration = conf_key("an event may be so much newer than its record", Duration(10 * 60_000))
    watermark: Duration = conf_key("an id is remembered so long; in event time", Duration(60 * 60_000))

    def __post_init__(self) -> None:
        wanted = {"id_column": self.id_column, "time_column": self.time_column}
        for name, column in [*wanted.items(), *(("required", column) for column in self.required)]:
            if column not in self.columns:
                raise ConfigError(f"{name}: {column!r} is not in [columns]{did_you_mean(column, self.columns)}")
        if self.columns[self.time_column] != "timestamp":
            raise ConfigError(f'time_column: {self.time_column!r} must have the type "timestamp" in [columns]')
        if strange := [name for name in self.columns if name.startswith("_")]:
            raise ConfigError(f"[columns] {strange[0]}: names that begin with '_' are the job's own; rename it")
        if self.watermark.ms < self.max_lateness.ms + self.max_earliness.ms:
            raise ConfigError(
                f"watermark = {str(self.watermark)!r} must be at least max_lateness = {str(self.max_lateness)!r} and "
                f"max_earliness = {str(self.max_earliness)!r} together, or the watermark drops rows that are not late"
            )

    @property
    def shape(self) -> CheckpointShape:
        checkpoint = checkpoint_of(self.output, self.checkpoint)
        return CheckpointShape(checkpoint, (GOOD, DEAD), "choose another output and another checkpoint")


def check_silver(conf: SilverConf, run: RunConf = DEFAULT_RUN) -> None:
    """Fails at once for a checkpoint of another conf or table, if there is no input, or no topic for dead letters."""
    conf.shape.check(conf)
    check_place(conf.output, conf.shape.checkpoint / GOOD)
    check_table(conf.input, "bronze")
    check_topic(conf.bootstrap, conf.dead_letter_topic, run, compacted=False)


def run_silver(conf: SilverConf, context: JobContext) -> dict[str, Any]:
    """Adds to the table and to the topic what is new in bronze."""
    before = set(table_files(conf.output))
    letter_bytes = room_bytes(conf.bootstrap, conf.dead_letter_topic, context.run)
    with plain_errors():
        judged = _judged(_bronze(conf, context), conf)
        conf.shape.keep(conf)
        queries = [_good(judged, conf, context)]
        try:
            queries.append(_dead(judged, conf, context, letter_bytes))
        except BaseException:
            queries[0].stop()
            raise
    totals = run_queries(queries, context)
    added = sorted(set(table_files(conf.output)) - before)
    return {
        "output": str(conf.output),
        "rows_read": totals[GOOD].rows,
        "rows": sum(map(row_count, added)),
        "duplicates": totals[GOOD].duplicate_rows,
        "dropped_by_watermark": totals[GOOD].late_rows,
        "dead_letter_topic": conf.dead_letter_topic,
        "dead_letters": totals[DEAD].written,
        **{f"dead_letters_{kind}": totals[DEAD].dead_letters[kind] for kind in KINDS},
        "exit_code": EXIT_LEFT_OUT if totals[GOOD].late_rows else 0,
    }


def _bronze(conf: SilverConf, context: JobContext) -> DataFrame:
    return table_reader(context.spark, conf.input).parquet(str(conf.input)).where("value IS NOT NULL")


def _judged(bronze: DataFrame, conf: SilverConf) -> DataFrame:
    """Adds the parsed event, and the reason why it is bad; null if it is good. A time without a zone is UTC."""
    from pyspark.sql import functions as f

    columns = ", ".join(f"`{name}` {kind}" for name, kind in conf.columns.items())
    schema = f"{columns}, `{_CORRUPT}` string"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "timeZone": "UTC"}
    event = f.from_json(f.col("value").cast("string"), schema, options)
    reason = f.when(f.col(_EVENT).isNull() | f.col(f"{_EVENT}.{_CORRUPT}").isNotNull(), NOT_JSON)
    for name in dict.fromkeys((conf.id_column, conf.time_column, *conf.required)):
        reason = reason.when(f.col(f"{_EVENT}.`{name}`").isNull(), f"{name} {MISSING}")
    # In whole milliseconds: a time in other units can be so far away that arithmetic of timestamps overflows.
    ahead_ms = f.unix_millis(f.col(f"{_EVENT}.`{conf.time_column}`")) - f.unix_millis("timestamp")
    reason = reason.when(ahead_ms < -conf.max_lateness.ms, f"{LATER_THAN} {conf.max_lateness}")
    reason = reason.when(ahead_ms > conf.max_earliness.ms, f"{AHEAD_BY} {conf.max_earliness}")
    return bronze.withColumn(_EVENT, event).withColumn(_REASON, reason)


def _good(judged: DataFrame, conf: SilverConf, context: JobContext) -> StreamingQuery:
    from pyspark.sql import functions as f

    columns = [f.col(f"{_EVENT}.`{name}`").alias(name) for name in conf.columns]
    source = [f.col(column).alias(name) for name, column in SOURCE_COLUMNS.items()]
    rows = judged.where(f.col(_REASON).isNull()).select(*columns, *source)
    once = rows.withWatermark(conf.time_column, conf.watermark.spark).dropDuplicatesWithinWatermark([conf.id_column])
    writer = once.writeStream.format("parquet").queryName(GOOD).option("path", str(conf.output))
    return triggered(writer.option("checkpointLocation", str(_checkpoint(conf, GOOD))), context.run).start()


def _dead(judged: DataFrame, conf: SilverConf, context: JobContext, letter_bytes: int) -> StreamingQuery:
    from pyspark.sql import functions as f

    bad = judged.where(f.col(_REASON).isNotNull())
    counts = [f.count_if(f.col(_REASON).contains(text)).alias(kind) for kind, text in KINDS.items()]
    letters = dead_letters(bad.observe(DEAD_LETTERS, *counts), _REASON, letter_bytes)
    sink = TopicSink(conf.bootstrap, conf.dead_letter_topic, conf.semantics, _checkpoint(conf, DEAD))
    return sink.writer(letters, DEAD, context).start()


def _checkpoint(conf: SilverConf, query: str) -> Path:
    return conf.shape.checkpoint / query
