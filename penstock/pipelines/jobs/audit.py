"""Audit: verifies every replica of a topic from closed segment files, and compares the replicas with each other.

    log dirs ─► closed segments ─► Spark walks each (segment_walk.py) ─┬─► faults within a file: rot, missing offsets, …
                                                                       └─► batches, by offset ─► replicas that differ

Needs no running node and asks none: the log dirs are directories on this machine (mounted, or copied from the nodes).
Replicas are compared only where they must be equal: below each one's high watermark as its checkpoint says, and above
what compaction has cleaned on any of them. Where they differ, the replicas that are fewer are named; if there is no
majority, all are. Read only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.pipelines.frame.conf import DEFAULT_RUN, RunConf, conf_key
from penstock.pipelines.frame.job_context import JobContext
from penstock.pipelines.frame.plain_error import plain_errors
from penstock.pipelines.segments.replica_files import ClosedSegment, closed_segments, node_of, topics_of
from penstock.pipelines.segments.segment_walk import WalkedBatch, walk_segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EXIT_FINDINGS = 4
BATCH = "batch"
SEGMENTS_PER_TASK_MAX = 64
WALKED = (
    "kind string, segment int, position bigint, first_offset bigint, next_offset bigint, text string, "
    "leader_epoch int, crc bigint, record_count int"
)
"""One row for each batch and each fault; `segment` is the number in the list that was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditConf:
    """The keys of the job."""

    log_dirs: tuple[str, ...] = conf_key("the log dirs of all nodes, as directories on this machine")
    topics: tuple[str, ...] = conf_key("the topics to audit; all but internal ones if not given", ())

    def __post_init__(self) -> None:
        if not self.log_dirs:
            raise ConfigError("log_dirs is empty; name the log dir of each node")


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One thing that is wrong; `count` batches are like it, from `first_offset` up to `next_offset`."""

    kind: str
    partition: str
    node: str
    file: str
    position: int
    first_offset: int
    next_offset: int
    count: int
    text: str

    def __str__(self) -> str:
        more = f" (and {self.count - 1} batches behind it, up to offset {self.next_offset})" if self.count > 1 else ""
        return f"{self.kind}: {self.partition} on {self.node}: {self.file} at byte {self.position}: {self.text}{more}"


def check_audit(conf: AuditConf, run: RunConf = DEFAULT_RUN) -> None:
    """Fails at once if a directory is no log dir, or no log dir has a replica of a topic: nothing would be found."""
    for log_dir in conf.log_dirs:
        node_of(Path(log_dir))
    missing = sorted(set(conf.topics) - topics_of(conf.log_dirs))
    if missing:
        raise ConfigError(f"topics: no log dir has a replica of {', '.join(missing)}; check the names, and log_dirs")


def run_audit(conf: AuditConf, context: JobContext) -> dict[str, Any]:
    """The result has `exit_code` 4 if anything was found."""
    segments = closed_segments(conf.log_dirs, conf.topics)
    if not segments:
        return {"segments": 0, "bytes": 0, "batches": 0, "records": 0, "findings": []}
    with plain_errors():
        walked = walked_batches(context, segments).cache()
        counts = walked.where(f"kind = '{BATCH}'").selectExpr("count(*) AS batches", "sum(record_count) AS records")
        totals = counts.first()
        found = [*_faults(walked, segments), *_differences(context, walked, segments)]
        walked.unpersist()
    found.sort(key=lambda finding: (finding.partition, finding.first_offset, finding.node))
    return {
        "segments": len(segments),
        "bytes": sum(segment.size_bytes for segment in segments),
        "batches": totals["batches"],
        "records": totals["records"] or 0,
        "replicas": len({(segment.node, segment.topic_partition) for segment in segments}),
        "not_compared": _not_compared(segments),
        "findings": [asdict(finding) | {"sentence": str(finding)} for finding in found],
        "exit_code": EXIT_FINDINGS if found else 0,
    }


def walked_batches(context: JobContext, segments: list[ClosedSegment]) -> DataFrame:
    """A row for each batch and each fault of the segments; Spark's tasks read the files."""
    numbers = context.spark.sparkContext.parallelize(range(len(segments)), _tasks(len(segments)))
    rows = numbers.flatMap(lambda number: _rows(number, segments[number]))
    return context.spark.createDataFrame(rows, WALKED, verifySchema=False)


def _tasks(segments: int) -> int:
    return max(min(segments, 2), -(-segments // SEGMENTS_PER_TASK_MAX))


def _rows(number: int, segment: ClosedSegment) -> Iterator[tuple[Any, ...]]:
    for found in walk_segment(segment):
        if isinstance(found, WalkedBatch):
            position, first, following, epoch, crc, count = astuple(found)
            yield BATCH, number, position, first, following, None, epoch, crc, count
        else:
            yield (
                found.kind,
                number,
                found.position,
                found.first_offset,
                found.next_offset,
                found.text,
                None,
                None,
                None,
            )


def _faults(walked: DataFrame, segments: list[ClosedSegment]) -> Iterator[AuditFinding]:
    for row in walked.where(f"kind <> '{BATCH}'").toLocalIterator():
        segment = segments[row.segment]
        yield AuditFinding(
            kind=row.kind,
            partition=str(segment.topic_partition),
            node=segment.node,
            file=segment.path,
            position=row.position,
            first_offset=row.first_offset,
            next_offset=row.next_offset,
            count=1,
            text=row.text,
        )


def _differences(context: JobContext, walked: DataFrame, segments: list[ClosedSegment]) -> list[AuditFinding]:
    """Batches that begin at one offset and are not equal, one finding for each partition and replica."""
    known = [
        (number, s.topic_id or s.topic, s.partition, s.high_watermark, s.cleaned_offset)
        for number, s in enumerate(segments)
    ]
    columns = "segment int, topic_id string, partition int, high_watermark bigint, cleaned bigint"
    batches = walked.where(f"kind = '{BATCH}'").join(context.spark.createDataFrame(known, columns), "segment")
    batches = batches.where("next_offset <= high_watermark AND first_offset >= cleaned")
    content = "struct(next_offset, leader_epoch, crc, record_count)"
    differing = (
        batches.groupBy("topic_id", "partition", "first_offset")
        .agg(*_aggregates(content))
        .where("least_content <> greatest_content")
        .orderBy("topic_id", "partition", "first_offset")
    )
    found: dict[tuple[str, str], AuditFinding] = {}
    for row in differing.toLocalIterator():
        for replica in _odd_ones(row.replicas):
            _add(found, segments[replica.segment], row.first_offset, replica)
    return list(found.values())


def _aggregates(content: str) -> list[Any]:
    from pyspark.sql import functions as f

    return [
        f.expr(f"min({content}) AS least_content"),
        f.expr(f"max({content}) AS greatest_content"),
        f.expr(f"collect_list(struct(segment, position, {content} AS content)) AS replicas"),
    ]


def _odd_ones(replicas: list[Any]) -> list[Any]:
    """The replicas that differ from the majority; all of them without one."""
    content, count = Counter(replica.content for replica in replicas).most_common(1)[0]
    return [one for one in replicas if one.content != content] if 2 * count > len(replicas) else list(replicas)


def _add(found: dict[tuple[str, str], AuditFinding], segment: ClosedSegment, offset: int, replica: Any) -> None:
    partition = str(segment.topic_partition)
    first = found.get((partition, segment.node))
    if first is not None:
        finding = replace(first, count=first.count + 1, next_offset=replica.content.next_offset)
    else:
        finding = AuditFinding(
            kind="diverged",
            partition=partition,
            node=segment.node,
            file=segment.path,
            position=replica.position,
            first_offset=offset,
            next_offset=replica.content.next_offset,
            count=1,
            text=f"the batch at offset {offset} is not what the other replicas have",
        )
    found[partition, segment.node] = finding


def _not_compared(segments: list[ClosedSegment]) -> list[str]:
    """Replicas without a known high watermark."""
    return sorted({f"{s.topic_partition} on {s.node}" for s in segments if not s.high_watermark})
