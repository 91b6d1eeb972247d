"""Backfill: the records of a topic between two times as a Parquet table, chunk by chunk; a re-run does what is missing.

    OUTPUT/chunk=20260101T000000Z/*.parquet     the records whose time is in [chunk, chunk + `chunk`)
    OUTPUT/chunk=20260101T000000Z/_SUCCESS      the chunk is whole
    OUTPUT/_backfill.json                       the keys that every run into this table must have alike

A chunk without its mark is written anew, one with it is left alone: the table has every record once, however often the
job was ended. So a later run may have a later `end`, and nothing else that moves chunks. Records are nearly in order of
time, not quite: a chunk is read from the first record at or after its begin to the first that is `disorder` behind its
end, and its times are filtered. A record that came later than that is missed, and no run can tell.
A topic that was deleted and made anew is another one: its records do not belong beside those of the first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.pipelines.frame.checks import check_topic
from penstock.pipelines.frame.conf import DEFAULT_RUN, Duration, Fixed, RunConf, conf_key
from penstock.pipelines.frame.job_context import JobContext
from penstock.pipelines.frame.plain_error import plain_errors
from penstock.pipelines.frame.shapes import ShapeFile, shape_of
from penstock.pipelines.table_files import row_count
from penstock.spark.log_client import LogClient, PenstockLogClient
from penstock.spark.options import Subscription, source_options
from penstock.spark.planning import DataLossError
from penstock.spark.topics import Subscribed, at_or_after, earliest, latest, subscribed
from penstock.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DONE = "_SUCCESS"
"""Spark's own mark of a write that was committed."""
SHAPE = "_backfill.json"
WAITING = f"{SHAPE}.tmp"
TOPIC_ID = "topic_id"
CHUNKS_MAX = 10_000
"""The most chunks. More would be a mistake in the conf: a year in chunks of an hour has 8,760."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillConf:
    """The keys of the job."""

    bootstrap: str = conf_key("the brokers, HOST:PORT[,…]")
    topic: str = conf_key("the topic to read", fixed=Fixed.WHOLE)
    output: Path = conf_key("the directory of the Parquet table")
    begin: datetime = conf_key("records from this time on; UTC if it has no zone", fixed=Fixed.WHOLE)
    end: datetime = conf_key("records before this time")
    chunk: Duration = conf_key("the time in one chunk", Duration(60 * 60_000), fixed=Fixed.WHOLE)
    disorder: Duration = conf_key(
        "a record may come so long after a later one; a producer's clock may be `message.timestamp.after.max.ms` ahead",
        Duration(60 * 60_000),
    )
    include_headers: bool = conf_key("keeps the headers of records", False, fixed=Fixed.WHOLE)
    skip_undecodable: str = conf_key("batches to pass over if they cannot be decoded, as an error of the job says", "")
    fail_on_data_loss: bool = conf_key("stops when records from `begin` on may have been deleted already", True)

    def __post_init__(self) -> None:
        if self.end <= self.begin:
            raise ConfigError(f"end = {self.end.isoformat()} must be after begin = {self.begin.isoformat()}")
        span_ms = milliseconds(self.end) - milliseconds(self.begin)
        if not self.chunk.ms or span_ms // self.chunk.ms > CHUNKS_MAX:
            raise ConfigError(f"chunk = {str(self.chunk)!r} makes more than {CHUNKS_MAX} chunks; choose a longer one")
        if span_ms % self.chunk.ms:
            raise ConfigError(
                f"end = {self.end.isoformat()} must be a whole number of chunks ({self.chunk}) after begin; "
                "a chunk that is shorter could not grow with a later end"
            )


@dataclass(frozen=True, slots=True)
class TimeChunk:
    """A part of the time to fill; `end_ms` is not in it."""

    begin_ms: int
    end_ms: int

    @property
    def name(self) -> str:
        fraction = f".{self.begin_ms % 1000:03d}" if self.begin_ms % 1000 else ""
        return datetime.fromtimestamp(self.begin_ms // 1000, UTC).strftime(f"chunk=%Y%m%dT%H%M%S{fraction}Z")


def milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def chunks_of(conf: BackfillConf) -> list[TimeChunk]:
    """The chunks in order; together they are the time from `begin` to `end`."""
    return [
        TimeChunk(begin_ms, begin_ms + conf.chunk.ms)
        for begin_ms in range(milliseconds(conf.begin), milliseconds(conf.end), conf.chunk.ms)
    ]


def chunks_left(conf: BackfillConf) -> list[TimeChunk]:
    return [chunk for chunk in chunks_of(conf) if not (conf.output / chunk.name / DONE).exists()]


def check_backfill(conf: BackfillConf, run: RunConf = DEFAULT_RUN) -> None:
    """Fails at once for a wrong address or name, another table's output, a time that is not over, and lost records."""
    whole_until = datetime.now(UTC) - timedelta(milliseconds=conf.disorder.ms)
    if conf.end > whole_until:
        raise ConfigError(
            f"end = {conf.end.isoformat()}: records may still come for this time; choose an end before "
            f"{whole_until.isoformat(timespec='seconds')}"
        )
    check_shape(conf)
    if left := chunks_left(conf):
        check_topic(conf.bootstrap, conf.topic, run)
        with PenstockLogClient(conf.bootstrap, run.reader_options) as client:
            check_shape(conf, id_of_topic(client, conf))
            first_offsets(client, conf, left[0])


def id_of_topic(client: LogClient, conf: BackfillConf) -> str:
    return _subscribed(client, conf).topic_ids[conf.topic]


def _subscribed(client: LogClient, conf: BackfillConf) -> Subscribed:
    return subscribed(client, Subscription(topics=(conf.topic,)), must_exist=True)


def check_shape(conf: BackfillConf, topic_id: str | None = None) -> None:
    """ConfigError if the output is no backfill's, or has other chunks, or those of another topic: records would be in
    it twice, or never. Without an id, of whatever topic has the name: outputs of earlier versions have none."""
    file = _shape_file(conf)
    was = file.read()
    if was is None:
        if conf.output.is_dir() and any(path.name != WAITING for path in conf.output.iterdir()):
            raise ConfigError(f"{conf.output} has files of something else; choose another output")
        return
    file.check(shape_of(conf))
    if topic_id is not None and was.get(TOPIC_ID) not in (None, topic_id):
        raise ConfigError(
            f"topic {conf.topic!r} is not the one that {conf.output} was begun with: it was deleted and made "
            "anew; choose another output"
        )


def write_shape(conf: BackfillConf, topic_id: str) -> None:
    _shape_file(conf).write({**shape_of(conf), TOPIC_ID: topic_id})


def _shape_file(conf: BackfillConf) -> ShapeFile:
    return ShapeFile(conf.output / SHAPE, conf.output, "choose another output")


def first_offsets(client: LogClient, conf: BackfillConf, chunk: TimeChunk) -> dict[TopicPartition, int]:
    """The first offset of the chunk in each partition; DataLossError if records of it may have been deleted.

    A deleted record of the chunk may have come before a record that is `disorder` older. So none is missed only where
    the first record that is left is older than that.
    """
    found = _subscribed(client, conf)
    log_starts, log_ends = earliest(client, found.partitions), latest(client, found.partitions)
    since = at_or_after(client, found.partitions, chunk.begin_ms)
    whole_since = at_or_after(client, found.partitions, max(chunk.begin_ms - conf.disorder.ms, 0))
    gone = [tp for tp in found.partitions if 0 < log_starts[tp].offset == min(whole_since[tp], log_ends[tp].offset)]
    if gone and conf.fail_on_data_loss:
        raise DataLossError(
            f"{', '.join(map(str, gone))}: records older than the first that is left were deleted, and may have been "
            f"of {chunk.name}: one may come {conf.disorder} after a later one. Choose a later begin and another "
            "output, a shorter disorder if it is true, or fail_on_data_loss = false"
        )
    return {tp: min(since[tp], log_ends[tp].offset) for tp in found.partitions}


def run_backfill(conf: BackfillConf, context: JobContext) -> dict[str, Any]:
    """Writes the chunks that are not whole; a stop ends it after the chunk under way."""
    left = chunks_left(conf)
    rows = written = 0
    if left:
        with PenstockLogClient(conf.bootstrap, context.run.reader_options) as client:
            topic_id = id_of_topic(client, conf)
            check_shape(conf, topic_id)
            write_shape(conf, topic_id)
    for chunk in left:
        if context.stop.is_set():
            break
        with plain_errors():
            _write(_records(conf, context, chunk), conf.output / chunk.name)
        added = sum(map(row_count, (conf.output / chunk.name).glob("*.parquet")))
        rows, written = rows + added, written + 1
        context.say(f"backfill: {chunk.name}: {added:,} rows; {len(left) - written:,} chunks left")
    return {
        "topic": conf.topic,
        "output": str(conf.output),
        "rows": rows,
        "chunks_written": written,
        "chunks_before": len(chunks_of(conf)) - len(left),
        "chunks_left": len(left) - written,
    }


def _records(conf: BackfillConf, context: JobContext, chunk: TimeChunk) -> DataFrame:
    options = {
        **context.run.client_options,
        "bootstrap": conf.bootstrap,
        "subscribe": conf.topic,
        "endingTimestamp": str(chunk.end_ms + conf.disorder.ms),
        "includeHeaders": str(conf.include_headers),
        "failOnDataLoss": str(conf.fail_on_data_loss),
    }
    if conf.skip_undecodable:
        options["skipUndecodable"] = conf.skip_undecodable
    with PenstockLogClient(conf.bootstrap, source_options(options, streaming=False).client) as client:
        check_shape(conf, id_of_topic(client, conf))
        # As offsets, so that the source sees it if retention deletes them between here and the read
        options["startingOffsets"] = _offsets_json(first_offsets(client, conf, chunk))
    records = context.spark.read.format("penstock").options(**options).load()
    return records.where(
        f"timestamp >= timestamp_millis({chunk.begin_ms}) AND timestamp < timestamp_millis({chunk.end_ms})"
    )


def _offsets_json(offsets: Mapping[TopicPartition, int]) -> str:
    by_topic: dict[str, dict[str, int]] = {}
    for tp, offset in offsets.items():
        by_topic.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return json.dumps(by_topic)


def _write(records: DataFrame, directory: Path) -> None:
    """`overwrite` replaces what an ended run left in the directory."""
    records.write.mode("overwrite").parquet(str(directory))
