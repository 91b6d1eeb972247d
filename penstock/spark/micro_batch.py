"""Decides how far the next micro-batch of a stream goes, and which ranges it reads.

`advance` runs before a micro-batch, `planned_ranges` when it is planned, perhaps in another process after a restart.
Both compare the stream offsets with the present cluster and report lost records (planning.py defines loss). Nothing is
called lost by an answer that may be older than the stream offset: the client passes such brokers over once it was told
the offset (`remember`), what seems deleted is asked for once more (`newest_topics`), and an end is compared only after
the leader epochs were. A log that was truncated below a position and written again is told by its epochs (KIP-320);
with failOnDataLoss=false the stream goes on where the two logs part, so that it misses nothing of the new one. What
lies beyond the last stable offset, but not beyond the high watermark, is not lost: it waits for an open transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from penstock.spark.admission import rows_by_bytes, sampler
from penstock.spark.log_client import LogClient
from penstock.spark.options import Subscription
from penstock.spark.planning import (
    BrokerBehindError,
    OffsetAt,
    PlannedRange,
    PlannedTopic,
    clamp_to_log,
    report_loss,
    share,
)
from penstock.spark.positions import SourcePositions, StreamPosition, positions_of, with_gone
from penstock.spark.topics import earliest, ends_of_logs, latest, latest_positions, subscribed
from penstock.topic_names import INTERNAL_NAMES
from penstock.types import NO_EPOCH, TopicPartition


class Limits(NamedTuple):
    """The options that limit a micro-batch; 0 is no limit."""

    subscription: Subscription
    fail_on_data_loss: bool
    max_rows: int = 0
    max_bytes: int = 0


def present_end(client: LogClient, subscription: Subscription) -> SourcePositions:
    """The end of everything that is read."""
    return latest_positions(client, subscribed(client, subscription, must_exist=False))


def newest_end(
    client: LogClient, subscription: Subscription, start: SourcePositions, target: SourcePositions | None = None
) -> SourcePositions:
    """The present end, not older than the checkpoint: `target`, unless it was asked for before that was known and is
    older."""
    client.remember(start)
    end = target if target is not None and not target.is_older_than(start) else present_end(client, subscription)
    if why := end.is_older_than(start):
        raise behind(why)
    return end


def advance(client: LogClient, start: SourcePositions, target: SourcePositions, limits: Limits) -> SourcePositions:
    """The end of the next micro-batch: `target`, or less of it when more than the limits allow is waiting.

    After the offset from which a query begins, every position also says where it begins: the log of Spark has this
    offset, and not the one before it.
    """
    fail_on_data_loss = limits.fail_on_data_loss
    target = _with_unheard(client, start, target, limits.subscription)
    _report_gone(start, target, limits)
    cuts = _cuts_below(client, start, target, fail_on_data_loss)
    begins = _begins(client, start, target) | cuts
    lags = _lags(client, begins, target)
    for tp, lag in lags.items():
        if lag < 0:
            what = f"{tp}: the log ends at {begins[tp] + lag}, before the {begins[tp]} that was read"
            report_loss(what, fail_on_data_loss)
        elif _went_back(start, target, tp):
            report_loss(f"{tp}: the leader epoch went back: its log was replaced", fail_on_data_loss)
    deleted = _deleted(client, begins, lags, limits)
    waiting = {tp: lag - deleted.get(tp, 0) for tp, lag in lags.items()}
    shares = share(waiting, limits.max_rows) if limits.max_rows else {tp: n for tp, n in waiting.items() if n > 0}
    topic_ids = {name: topic.topic_id for name, topic in target.topics.items()}
    if limits.max_bytes:
        left = {tp: begin + deleted.get(tp, 0) for tp, begin in begins.items()}
        shares = rows_by_bytes(sampler(client, topic_ids), left, shares, limits.max_bytes)
    found = {}
    for tp, position in target.items():
        is_new = start.initial or tp in cuts or _known(start, target, tp) is None
        moved = shares.get(tp, 0) + deleted.get(tp, 0) if lags[tp] >= 0 else lags[tp]
        found[tp] = StreamPosition(begins[tp] + moved, position.leader_epoch, begins[tp] if is_new else -1)
    return with_gone(start, replace(positions_of(found, topic_ids), metadata=client.seen()))


def _lags(
    client: LogClient, begins: Mapping[TopicPartition, int], target: SourcePositions
) -> dict[TopicPartition, int]:
    """How far the micro-batch may go; below 0 where the log ends before its begin. A partition that is held up by an
    open transaction, below a begin that a group's or the user's offset gives, waits there: its lag is 0."""
    places = dict(target.items())
    readable = {tp: OffsetAt(place.offset) for tp, place in places.items()}
    ends = ends_of_logs(client, {tp: begins[tp] for tp in places}, readable)
    lags = {tp: place.offset - begins[tp] for tp, place in places.items()}
    return {tp: 0 if lag < 0 and ends[tp] >= begins[tp] else lag for tp, lag in lags.items()}


def _deleted(
    client: LogClient, begins: Mapping[TopicPartition, int], lags: Mapping[TopicPartition, int], limits: Limits
) -> dict[TopicPartition, int]:
    """How many of the offsets that wait are below the log start: a limit is for what is left, or a query would creep
    through them in micro-batches without rows. Planning reports them."""
    if limits.fail_on_data_loss or not (limits.max_rows or limits.max_bytes):
        return {}
    starts = earliest(client, [tp for tp, lag in lags.items() if lag > 0])
    return {tp: min(at.offset - begins[tp], lags[tp]) for tp, at in starts.items() if at.offset > begins[tp]}


def _known(start: SourcePositions, target: SourcePositions, tp: TopicPartition) -> StreamPosition | None:
    """The stream's position in the topic that has the name in `target`."""
    return start.of_topic(tp, target.topic_id(tp.topic))


def _with_unheard(
    client: LogClient, start: SourcePositions, target: SourcePositions, subscription: Subscription
) -> SourcePositions:
    """`target` with what the broker that was asked has not heard of, though it exists: left out now, it would be taken
    for deleted, and be new later. Partitions of a topic are never removed, so those are kept without asking."""
    odd = [
        name
        for name, topic in start.topics.items()
        if any(subscription.names(TopicPartition(name, p)) for p in topic.partitions)
        and (name not in target.topics or not start.same_topic(target, name))
    ]
    topic_ids = {name: topic.topic_id for name, topic in target.topics.items() if name not in odd}
    found = {tp: position for tp, position in target.items() if tp.topic not in odd}
    views = client.newest_topics(odd) if odd else {}
    there = [TopicPartition(name, p) for name, view in views.items() for p in range(view.partition_count)]
    ends = latest(client, [tp for tp in there if subscription.names(tp)])
    found |= {tp: StreamPosition(at.offset, at.leader_epoch) for tp, at in ends.items()}
    topic_ids |= {name: view.topic_id for name, view in views.items()}
    for tp, position in start.items():
        is_same = bool(start.topic_id(tp.topic)) and start.topic_id(tp.topic) == topic_ids.get(tp.topic)
        if tp not in found and is_same and subscription.names(tp):
            found[tp] = StreamPosition(position.offset, position.leader_epoch)
    return positions_of(found, topic_ids)


def _cuts_below(
    client: LogClient, start: SourcePositions, target: SourcePositions, fail_on_data_loss: bool
) -> dict[TopicPartition, int]:
    """The offsets at which logs were cut below what was read, by leaders of later epochs; each was reported."""
    known = {tp: at for tp, _ in target.items() if (at := _known(start, target, tp)) is not None}
    wanted = {tp: at.leader_epoch for tp, at in known.items() if start.topic_id(tp.topic)}
    cuts = {}
    for tp, cut in _ends_of_epochs(client, wanted, target).items():
        if cut < known[tp].offset:
            _report_cut(tp, known[tp].offset, cut, fail_on_data_loss)
            cuts[tp] = cut
    return cuts


def _ends_of_epochs(
    client: LogClient, epochs: Mapping[TopicPartition, int], now: SourcePositions
) -> dict[TopicPartition, int]:
    """The offset at which each log parts from the one that was led in the given epoch. A leader that is still the same
    has none, as a leader never cuts its own log."""
    ids = {name: topic.topic_id for name, topic in now.topics.items()}
    places = dict(now.items())
    wanted = {tp: epoch for tp, epoch in epochs.items() if NO_EPOCH < epoch < places[tp].leader_epoch}
    ends = client.epoch_ends(wanted, ids) if wanted else {}
    for tp, end in ends.items():
        if end.end_offset < 0:
            raise BrokerBehindError(
                f"{tp}: its leader does not know where epoch {wanted[tp]} ends, so whether records that were read are"
                " still in its log cannot be told. Nothing was skipped: start the query again"
            )
    return {tp: end.end_offset for tp, end in ends.items()}


def _report_cut(tp: TopicPartition, offset: int, cut: int, fail_on_data_loss: bool) -> None:
    report_loss(
        f"{tp}: the log was truncated at {cut}, below the {offset} of the checkpoint, and records that came there since"
        " are others (a leader was elected that was not in sync)",
        fail_on_data_loss,
    )


def _report_gone(start: SourcePositions, target: SourcePositions, limits: Limits) -> None:
    """Reports topics of the checkpoint that are not read any more. A pattern of an earlier version also meant the
    cluster's own: that those are left out is no loss."""
    for name, topic in start.topics.items():
        if limits.subscription.pattern and name in INTERNAL_NAMES:
            continue
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
    """The start of the micro-batch: the end of the last one, or the log start for a partition that is new."""
    known = {tp: _known(start, target, tp) for tp, _ in target.items()}
    begins = {tp: at.offset for tp, at in known.items() if at is not None}
    new = [tp for tp, at in known.items() if at is None]
    return begins | {tp: at.offset for tp, at in earliest(client, new).items()}


def _went_back(start: SourcePositions, end: SourcePositions, tp: TopicPartition) -> bool:
    """True if the epoch of a topic whose id the checkpoint lacks goes back: it may be another topic by now. With the
    id, an epoch that goes back is an answer of a broker that is behind, which never comes here."""
    before, after = start.get(tp), end.get(tp)
    return before is not None and after is not None and NO_EPOCH < after.leader_epoch < before.leader_epoch


def planned_ranges(
    client: LogClient, start: SourcePositions, end: SourcePositions, fail_on_data_loss: bool
) -> list[PlannedRange]:
    """The ranges between two offsets that are still in the log.

    Where `end` says that a partition begins, that counts: it is new, or its log was truncated, or the query is in its
    first micro-batch. After a crash in that it has the end from Spark's log, but a new initial offset as start.
    """
    client.remember(end)
    spans = []
    for tp, position in end.items():
        topic_id = end.topic_id(tp.topic)
        known = start.of_topic(tp, topic_id)
        lo = known.offset if known is not None else max(position.begin, 0)
        if position.begin >= 0 and (start.initial or known != position):
            lo = position.begin
        hi = max(position.offset, lo)
        spans.append(PlannedRange(tp.topic, topic_id, tp.partition, lo, hi, position.leader_epoch))
    spans = _existing(client, [span for span in spans if span.size], fail_on_data_loss)
    tps = [span.topic_partition for span in spans]
    starts, now = earliest(client, tps), latest(client, tps)
    here = positions_of(
        {tp: StreamPosition(at.offset, at.leader_epoch) for tp, at in now.items()},
        {span.topic: span.topic_id for span in spans},
    )
    if why := here.is_older_than(end):
        raise behind(why)
    epochs = {span.topic_partition: span.leader_epoch for span in spans}
    cuts = _ends_of_epochs(client, epochs, here)
    ends = ends_of_logs(client, {span.topic_partition: span.hi for span in spans}, now)
    seen = client.seen()
    planned = []
    for span, tp in zip(spans, tps, strict=True):
        cut = cuts.get(tp, span.hi)
        if cut < span.hi:
            _report_cut(tp, span.hi, cut, fail_on_data_loss)
            span = replace(span, hi=max(cut, span.lo))
        span = clamp_to_log(span, starts[tp].offset, ends[tp], now[tp].offset, fail_on_data_loss)
        planned.append(replace(span, seen=seen))
    return planned


def behind(why: str) -> BrokerBehindError:
    """The error for an answer that is older than the checkpoint."""
    return BrokerBehindError(
        f"the broker that answered is behind the checkpoint: {why}. Nothing was skipped: start the query again"
    )


def _may_be(span: PlannedRange, view: PlannedTopic) -> bool:
    """True if a range that was planned without a topic id may be of this topic."""
    return not span.topic_id and span.partition < view.partition_count


def _existing(client: LogClient, spans: list[PlannedRange], fail_on_data_loss: bool) -> list[PlannedRange]:
    """The ranges whose topic is still the one that was planned for."""
    views = client.describe(sorted({span.topic for span in spans}))
    odd = {span.topic for span in spans if not _is_of(span, views.get(span.topic))}
    views |= client.newest_topics(sorted(odd)) if odd else {}
    found = []
    for span in spans:
        view = views.get(span.topic)
        if view is not None and _is_of(span, view):
            epoch = span.leader_epoch if span.topic_id else NO_EPOCH  # another topic's epochs compare with none
            found.append(replace(span, topic_id=view.topic_id, leader_epoch=epoch))
        else:
            what = "does not exist any more" if view is None else "is not the topic that this range was planned for"
            report_loss(f"{span}: topic {span.topic!r} {what}", fail_on_data_loss)
    return found


def _is_of(span: PlannedRange, view: PlannedTopic | None) -> bool:
    """A topic of the same id that lacks the partition is an old broker's: the look-up of its offsets asks others."""
    return view is not None and (span.topic_id == view.topic_id or _may_be(span, view))
