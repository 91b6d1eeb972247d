"""Decides how far the next micro-batch of a stream goes, and which ranges it reads.

`advance` runs before a micro-batch, `planned_ranges` when it is planned, perhaps in another process after a restart.
Both compare the stream offsets with the present cluster and report lost records (planning.py defines loss).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from penstock.spark.admission import rows_by_bytes, sampler
from penstock.spark.log_client import LogClient, PlannedTopic
from penstock.spark.options import Subscription
from penstock.spark.planning import PlannedRange, clamp_to_log, report_loss, share
from penstock.spark.positions import Position, SourcePositions, positions_of
from penstock.spark.topics import earliest, latest
from penstock.types import TopicPartition


class Limits(NamedTuple):
    """The options that limit a micro-batch; 0 is no limit."""

    subscription: Subscription
    fail_on_data_loss: bool
    max_rows: int = 0
    max_bytes: int = 0


def advance(client: LogClient, start: SourcePositions, target: SourcePositions, limits: Limits) -> SourcePositions:
    """The end of the next micro-batch: `target`, or less of it when more than the limits allow is waiting.

    After the offset from which a query begins, every position also says where it begins: the log of Spark has this
    offset, and not the one before it.
    """
    fail_on_data_loss = limits.fail_on_data_loss
    _report_gone(start, target, limits)
    target = _with_unheard(start, target, limits.subscription)
    begins = _begins(client, start, target)
    lags = {tp: position.offset - begins[tp] for tp, position in target.items()}
    for tp, lag in lags.items():
        known = start.get(tp)
        if lag < 0:
            report_loss(
                f"{tp}: the log ends at {begins[tp] + lag}, before the {begins[tp]} that was read", fail_on_data_loss
            )
        elif known is not None and _same_topic(start, target, tp) and _went_back(start, target, tp):
            report_loss(
                f"{tp}: the leader epoch went back from {known.leader_epoch}: its log was replaced", fail_on_data_loss
            )
    shares = share(lags, limits.max_rows) if limits.max_rows else {tp: lag for tp, lag in lags.items() if lag > 0}
    if limits.max_bytes:
        topic_ids = {name: topic.topic_id for name, topic in target.topics.items()}
        shares = rows_by_bytes(sampler(client, topic_ids), begins, shares, limits.max_bytes)
    found = {}
    for tp, position in target.items():
        is_new = start.initial or start.get(tp) is None or not _same_topic(start, target, tp)
        moved = shares.get(tp, 0) if lags[tp] >= 0 else lags[tp]
        found[tp] = Position(begins[tp] + moved, position.leader_epoch, begins[tp] if is_new else -1)
    return positions_of(found, {name: topic.topic_id for name, topic in target.topics.items()})


def _with_unheard(start: SourcePositions, target: SourcePositions, subscription: Subscription) -> SourcePositions:
    """`target` with the partitions that it lacks of a topic that is still the same. Partitions are never removed: the
    broker that was asked has not heard of them yet. Left out now, they would be new later, and be read twice."""
    found = dict(target.items())
    for tp, position in start.items():
        is_same = bool(start.topic_id(tp.topic)) and start.topic_id(tp.topic) == target.topic_id(tp.topic)
        if tp not in found and is_same and subscription.names(tp):
            found[tp] = Position(position.offset, position.leader_epoch)
    return positions_of(found, {name: topic.topic_id for name, topic in target.topics.items()})


def _report_gone(start: SourcePositions, target: SourcePositions, limits: Limits) -> None:
    for name, topic in start.topics.items():
        now = target.topic_id(name)
        dropped = [tp for p in topic.partitions if not limits.subscription.names(tp := TopicPartition(name, p))]
        if dropped:
            report_loss(
                f"the checkpoint has offsets of {', '.join(map(str, dropped))}, which the query does not read any more"
                f" ({limits.subscription}); what was written there since would be left out. Name it again, or begin"
                " with a new checkpointLocation",
                limits.fail_on_data_loss,
            )
        elif not now:
            report_loss(f"topic {name!r} was deleted", limits.fail_on_data_loss)
        elif not start.same_topic(target, name):
            report_loss(
                f"topic {name!r} was deleted and created again (its id is {now}, not {topic.topic_id})",
                limits.fail_on_data_loss,
            )


def _begins(client: LogClient, start: SourcePositions, target: SourcePositions) -> dict[TopicPartition, int]:
    """Where the micro-batch begins: where the last one ended, or at the log start for a partition that is new."""
    begins = {}
    new = []
    for tp in dict(target.items()):
        known = start.get(tp)
        if known is not None and _same_topic(start, target, tp):
            begins[tp] = known.offset
        else:
            new.append(tp)
    return begins | {tp: at.offset for tp, at in earliest(client, new).items()}


def _same_topic(start: SourcePositions, end: SourcePositions, tp: TopicPartition) -> bool:
    return start.same_topic(end, tp.topic)


def _went_back(start: SourcePositions, end: SourcePositions, tp: TopicPartition) -> bool:
    before, after = start.get(tp), end.get(tp)
    return before is not None and after is not None and 0 <= after.leader_epoch < before.leader_epoch


def planned_ranges(
    client: LogClient, start: SourcePositions, end: SourcePositions, fail_on_data_loss: bool
) -> list[PlannedRange]:
    """The ranges between two offsets that are still in the log.

    After a crash in its first micro-batch, a query has the end of that from Spark's log, but a new initial offset as
    start. So the places at which `end` says that its partitions begin go before an initial start.
    """
    spans = []
    for tp, position in end.items():
        known = start.get(tp) if _same_topic(start, end, tp) else None
        if start.initial and position.begin >= 0:
            known = None
        lo = known.offset if known is not None else max(position.begin, 0)
        spans.append(PlannedRange(tp.topic, end.topic_id(tp.topic), tp.partition, lo, max(position.offset, lo)))
    spans = _existing(client, [span for span in spans if span.size], fail_on_data_loss)
    tps = [span.topic_partition for span in spans]
    starts, ends = earliest(client, tps), latest(client, tps)
    return [
        clamp_to_log(span, starts[tp].offset, ends[tp].offset, fail_on_data_loss)
        for span, tp in zip(spans, tps, strict=True)
    ]


def _may_be(span: PlannedRange, view: PlannedTopic) -> bool:
    """Whether a range that was planned without a topic id may be of this topic."""
    return not span.topic_id and span.partition < view.partition_count


def _existing(client: LogClient, spans: list[PlannedRange], fail_on_data_loss: bool) -> list[PlannedRange]:
    """The ranges whose topic is still the one that was planned for."""
    views = client.describe(sorted({span.topic for span in spans}))
    found = []
    for span in spans:
        view = views.get(span.topic)
        # A topic of the same id that lacks the partition is an old broker's: the look-up of its offsets asks others.
        if view is not None and (span.topic_id == view.topic_id or _may_be(span, view)):
            found.append(replace(span, topic_id=view.topic_id))
        else:
            what = "does not exist any more" if view is None else "is not the topic that this range was planned for"
            report_loss(f"{span}: topic {span.topic!r} {what}", fail_on_data_loss)
    return found
