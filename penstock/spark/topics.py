"""Finds the topics and partitions of a subscription, and their offsets, for the driver.

Shared by the batch and the stream reader; stateless. planning.py uses the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from penstock.errors import UnknownTopicOrPartitionError
from penstock.lazy_dataclass import dataclass
from penstock.spark.boundary import Boundary, BoundaryKind, resolve
from penstock.spark.log_client import LogClient
from penstock.spark.options import Subscription
from penstock.spark.planning import OFFSET_MAX, OffsetAt, PlannedTopic
from penstock.spark.positions import SourcePositions, StreamPosition, positions_of
from penstock.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The topics that exist now, and the partitions of them that are wanted."""

    topics: Mapping[str, PlannedTopic]
    partitions: tuple[TopicPartition, ...]

    @property
    def topic_ids(self) -> dict[str, str]:
        return {name: view.topic_id for name, view in self.topics.items()}


def subscribed(client: LogClient, subscription: Subscription, *, must_exist: bool) -> Subscribed:
    """Raises UnknownTopicOrPartitionError with `must_exist`, if a topic or partition that is named is not there."""
    if subscription.pattern:
        names = [name for name in client.list_topics() if subscription.wants(name)]
    elif subscription.partitions:
        names = sorted({tp.topic for tp in subscription.partitions})
    else:
        names = list(subscription.topics)
    views = client.describe(names)
    partitions = subscription.partitions or tuple(
        TopicPartition(name, number) for name in names if name in views for number in range(views[name].partition_count)
    )
    if must_exist:
        _check_exist(subscription, views)
    there = tuple(tp for tp in partitions if tp.topic in views and tp.partition < views[tp.topic].partition_count)
    return Subscribed(views, there)


def _check_exist(subscription: Subscription, views: Mapping[str, PlannedTopic]) -> None:
    for name in subscription.topics or [tp.topic for tp in subscription.partitions]:
        if name not in views:
            raise UnknownTopicOrPartitionError(
                f"topic {name!r} does not exist; create it first: penstock topics create {name}"
            )
    for tp in subscription.partitions:
        if tp.partition >= views[tp.topic].partition_count:
            last = views[tp.topic].partition_count - 1
            raise UnknownTopicOrPartitionError(f"option assign names {tp}, but the topic has partitions 0 to {last}")


def earliest(client: LogClient, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAt]:
    """The log start of each partition."""
    return _ask(client, dict.fromkeys(partitions, EARLIEST_TIMESTAMP))


def latest(client: LogClient, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAt]:
    """The offset up to which each partition may be read."""
    return _ask(client, dict.fromkeys(partitions, LATEST_TIMESTAMP))


def ends_of_logs(
    client: LogClient, wanted: Mapping[TopicPartition, int], readable: Mapping[TopicPartition, OffsetAt]
) -> dict[TopicPartition, int]:
    """The ends of the logs, for a judgement on these offsets. A log is `readable` up to its last stable offset only
    while a transaction is open, and what lies between that and its high watermark is not lost. So for an offset beyond
    the readable end the high watermark counts, which is asked for."""
    found = {tp: readable[tp].offset for tp in wanted}
    beyond = [tp for tp, offset in wanted.items() if offset > found[tp]]
    marks = client.high_watermarks(beyond) if beyond else {}
    return found | {tp: max(found[tp], mark) for tp, mark in marks.items()}


def at_or_after(
    client: LogClient, partitions: Iterable[TopicPartition], timestamp_ms: int | None
) -> dict[TopicPartition, int]:
    """The first offset of each partition whose record is not before this time: every record below it is before.

    Beyond every offset where there is no such record; nothing without a time.
    """
    found = _ask(client, {} if timestamp_ms is None else dict.fromkeys(partitions, timestamp_ms))
    return {tp: at.offset if at.offset >= 0 else OFFSET_MAX for tp, at in found.items()}


def latest_positions(client: LogClient, found: Subscribed) -> SourcePositions:
    """The end of every partition, as a stream offset."""
    ends = latest(client, found.partitions)
    places = {tp: StreamPosition(at.offset, at.leader_epoch) for tp, at in ends.items()}
    return replace(positions_of(places, found.topic_ids), metadata=client.seen())


def boundary_offsets(client: LogClient, boundary: Boundary, found: Subscribed) -> dict[TopicPartition, OffsetAt]:
    """The offset of a boundary in every partition."""
    known: dict[TopicPartition, OffsetAt] = {}
    if boundary.kind is BoundaryKind.GROUP:
        committed = client.committed(boundary.group_id, found.partitions)
        others = [tp for tp in found.partitions if tp not in committed]
        return committed | (earliest(client, others) if others else {})

    def ask(questions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        answers = _ask(client, questions)
        known.update(answers)
        return {tp: at.offset for tp, at in answers.items()}

    offsets = resolve(boundary, found.partitions, ask)
    return {tp: OffsetAt(offset, known[tp].leader_epoch if tp in known else -1) for tp, offset in offsets.items()}


def _ask(client: LogClient, questions: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAt]:
    return client.list_offsets(questions) if questions else {}
