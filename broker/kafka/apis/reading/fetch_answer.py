"""The answer to a fetch in Kafka's terms: partitions by topic, errors, and who leads where this node does not.

The list of aborted transactions is null for who does not ask for committed records only. Records are the bytes
that the log gave, uncopied. Not here: the request (fetch.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.kafka.apis.asked_topics import add_leader, unless_elsewhere
from broker.kafka.apis.reading.isolation import READ_COMMITTED
from broker.kafka.errors import code_of, leader_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import Asked
from broker.kafka.schemas.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchResponseEpochEndOffset,
    FetchResponseLeaderIdAndEpoch,
    FetchResponsePartitionData,
    SnapshotId,
)
from metadata.image import MetadataImage
from penstock.errors import ApiError, TopicAuthorizationFailedError, UnknownTopicIdError, UnknownTopicOrPartitionError
from penstock.messages.fetch import PartitionFetchResult
from penstock.types import NO_OFFSET

API: Final = "Fetch"
ERROR_FROM, IDS_FROM, LEADERS_FROM = 7, 13, 16
"""The first versions with an error of the whole, with topic ids, and with leaders."""
NO_TOPIC: Final = "/"
"""Begins the name of a topic in a session if no topic has its id. No topic has this in its name."""
_NO_DIVERGENCE, _NO_LEADER, _NO_SNAPSHOT = FetchResponseEpochEndOffset(), FetchResponseLeaderIdAndEpoch(), SnapshotId()
"""Shared by all partitions that have none: never written to."""
_UNKNOWN_ID, _UNKNOWN_NAME = UnknownTopicIdError(), UnknownTopicOrPartitionError()


def answer_to(
    asked: Asked, body: FetchRequest, results: Sequence[PartitionFetchResult], parts: PlanParts
) -> FetchResponse:
    """The answer with these results. The id of its session is still to be told."""
    by_ids = asked.version >= IDS_FROM
    no_aborted: list[AbortedTransaction] | None = [] if body.isolation_level == READ_COMMITTED else None
    answer, topics = FetchResponse(), dict[str, FetchableTopicResponse]()
    for result in results:
        (name, index), topic_id = result.partition, result.topic_id
        topic = topics.get(topic_id if by_ids else name)
        if topic is None:
            topic = FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=[])
            topics[topic_id if by_ids else name] = topic
        part = FetchResponsePartitionData(
            partition_index=index,
            high_watermark=result.high_watermark,
            last_stable_offset=result.last_stable_offset,
            log_start_offset=result.log_start_offset,
            diverging_epoch=_NO_DIVERGENCE,
            current_leader=_NO_LEADER,
            snapshot_id=_NO_SNAPSHOT,
            aborted_transactions=_aborted(result) if result.aborted else no_aborted,
            preferred_read_replica=result.preferred_read_replica,
            records=result.records,
        )
        if result.error is not None:
            _tell_error(asked, answer, part, result, parts)
        elif result.diverging_epoch is not None:
            epoch, end_offset = result.diverging_epoch
            part.diverging_epoch = FetchResponseEpochEndOffset(epoch=epoch, end_offset=end_offset)
        topic.partitions.append(part)
    answer.responses = list(topics.values())
    return answer


def _aborted(result: PartitionFetchResult) -> list[AbortedTransaction]:
    return [AbortedTransaction(producer_id=one, first_offset=first) for one, first in result.aborted]


def _tell_error(
    asked: Asked,
    answer: FetchResponse,
    part: FetchResponsePartitionData,
    result: PartitionFetchResult,
    parts: PlanParts,
) -> None:
    image = parts.image()
    error = _in_kafkas_terms(image, parts.node_id, result)
    part.error_code = code_of(error, API, asked.version)
    leader = leader_of(error, asked.caller.listener)
    if leader is None or asked.version < LEADERS_FROM:
        return
    part.current_leader = FetchResponseLeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
    add_leader(answer.node_endpoints, image, leader)


def _in_kafkas_terms(image: MetadataImage, node_id: int, result: PartitionFetchResult) -> ApiError | None:
    if result.partition.topic.startswith(NO_TOPIC):
        return _UNKNOWN_ID
    if isinstance(result.error, TopicAuthorizationFailedError):
        return result.error
    if not result.topic_id:
        return _UNKNOWN_NAME
    if result.error is None:
        return None
    return unless_elsewhere(image, node_id, result.partition, result.topic_id, result.error)


def failed(asked: Asked, body: FetchRequest, error: ApiError) -> FetchResponse:
    """The answer of a request that failed as a whole."""
    if asked.version >= ERROR_FROM:
        return FetchResponse(error_code=code_of(error))
    return refusal(asked, body, code_of(error, API, asked.version))


def refusal(asked: Asked, body: FetchRequest, code: int) -> FetchResponse:
    """The answer that has this error for each partition."""
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    FetchResponsePartitionData(
                        partition_index=one.partition, error_code=code, high_watermark=NO_OFFSET, records=b""
                    )
                    for one in topic.partitions
                ],
            )
            for topic in body.topics
        ]
    )
