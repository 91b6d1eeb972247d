"""DescribeTopicPartitions 0 (KIP-966): topics by name, a page of their partitions at a time.

Topics come in the order of their names. An answer has `response_partition_limit` partitions at most, and 2,000 in any
case; what is left begins at its cursor, which the client's next request brings. A request without topics asks for all.
Only the topics of the page are asked for, and only the rights of the caller to topics from the cursor to the page's end
are looked at. To sort the names, and to look at the rights of a caller that sees few topics, takes as long as there are
topics, so that is long work where they are many.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

from broker.kafka.api_row import over, serves
from broker.kafka.apis.authorized_operations import topic_operations
from broker.kafka.apis.metadata import is_unseen, topics_named
from broker.kafka.apis.topic_structs import is_internal, leader_of_view, topic_error
from broker.kafka.errors import code_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, PAUSED_EVERY, Ask, Asked, Plan, is_pause_due
from broker.kafka.schemas.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from metadata.image import MetadataImage
from penstock.errors import ApiError, InvalidRequestError
from penstock.messages.metadata import PartitionInfo, TopicInfo
from penstock.messages.security.acls import Operation, ResourceType

PARTITIONS_MAX: Final = 2_000
"""Kafka's max.request.partition.size.limit."""
_START: Final = Cursor()


def describe_topic_partitions(parts: PlanParts, asked: Asked, body: DescribeTopicPartitionsRequest) -> Plan:
    start, limit = body.cursor or _START, max(1, min(body.response_partition_limit, PARTITIONS_MAX))
    if not body.topics and len(parts.image().topics_by_name) >= PAUSED_EVERY:
        yield PAUSE
    page, more = yield from _page(parts, asked, body, start, limit)
    found = yield from topics_named(page)
    views = found.topics if body.topics else [topic for topic in found.topics if not is_unseen(topic)]
    made: list[DescribeTopicPartitionsResponseTopic] = []
    for view in views:
        first = start.partition_index if view.name == start.topic_name else 0
        rest = [partition for partition in view.partitions if partition.partition >= first]
        made.append(_topic(parts, asked, view, rest[:limit]))
        if len(rest) > limit:
            more = Cursor(topic_name=view.name, partition_index=rest[limit].partition)
            break
        limit -= len(rest)
    return DescribeTopicPartitionsResponse(topics=made, next_cursor=more)


def describe_topic_partitions_failed(
    asked: Asked, body: DescribeTopicPartitionsRequest, error: ApiError
) -> DescribeTopicPartitionsResponse:
    code = code_of(error, "DescribeTopicPartitions", asked.version)
    topics = [DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name) for topic in body.topics]
    return DescribeTopicPartitionsResponse(topics=topics)


def _names(image: MetadataImage, body: DescribeTopicPartitionsRequest) -> Sequence[str]:
    """The topics from the cursor on, those too that the caller does not see. InvalidRequestError for a cursor that fits
    no answer."""
    if body.cursor is not None and body.cursor.partition_index < 0:
        raise InvalidRequestError(f"the cursor is at partition {body.cursor.partition_index}; the first one is 0")
    start = "" if body.cursor is None else body.cursor.topic_name
    named = {topic.name for topic in body.topics}
    if body.cursor is not None and named and start not in named:
        raise InvalidRequestError(f"the cursor is at topic {start[:64]!r}, which the request does not name")
    return sorted(name for name in named or image.topics_by_name if name >= start)


def _page(
    parts: PlanParts, asked: Asked, body: DescribeTopicPartitionsRequest, start: Cursor, limit: int
) -> Generator[Ask, Any, tuple[Sequence[str], Cursor | None]]:
    """The topics whose partitions fill the page, and the cursor at the first one after them. A topic that is answered
    with an error takes the room of a partition, so that an answer has an end in any case. A topic that the caller may
    not describe takes as much as an unknown one: the page's end tells nothing of it."""
    image, room = parts.image(), limit
    page: list[str] = []
    for number, name in enumerate(_names(image, body)):
        if is_pause_due(number):
            yield PAUSE
        is_seen = parts.rights.may(asked.caller, Operation.DESCRIBE, ResourceType.TOPIC, name)
        if not is_seen and not body.topics:
            continue
        if room <= 0:
            return page, Cursor(topic_name=name, partition_index=0)
        page.append(name)
        known = image.topic(name) if is_seen else None
        partitions = 1 if known is None else len(known.partitions)
        room -= max(1, partitions - (start.partition_index if name == start.topic_name else 0))
    return page, None


def _topic(
    parts: PlanParts, asked: Asked, view: TopicInfo, partitions: Sequence[PartitionInfo]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code_of(topic_error(view), "DescribeTopicPartitions", asked.version),
        name=view.name,
        topic_id=view.topic_id,
        is_internal=is_internal(view.name),
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=code_of(p.error, "DescribeTopicPartitions", asked.version),
                partition_index=p.partition,
                leader_id=leader_of_view(p),
                leader_epoch=p.leader_epoch,
                replica_nodes=list(p.replicas),
                isr_nodes=list(p.isr),
                eligible_leader_replicas=list(p.elr),
                last_known_elr=[],
                offline_replicas=list(p.offline_replicas),
            )
            for p in partitions
        ],
        topic_authorized_operations=topic_operations(parts, asked, view.name),
    )


SERVED: Final = (
    serves(
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse,
        (0, 0),
        over(describe_topic_partitions),
        failed=describe_topic_partitions_failed,
    ),
)
