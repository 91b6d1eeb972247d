"""Makes the error for a request that names a partition which this broker does not serve, with the remedy.

Pure. Not here: which partitions are served (hosted_partitions.py), and which cannot be (lost_replicas.py).
"""

from __future__ import annotations

from penstock.errors import (
    ApiError,
    InvalidRequestError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    UnknownTopicIdError,
)
from penstock.types import LeaderHint, TopicPartition

_SHOWN_CHARACTERS = 64
"""Limit for the shown characters of a topic id that a client made up."""


def unknown_partition(
    broker_id: int,
    partition: TopicPartition,
    topic_id: str,
    *,
    hosted_id: str | None,
    assigned_id: str | None,
    why_lost: Exception | None,
    moved: LeaderHint | None = None,
) -> ApiError:
    """The error for a request that names `topic_id`.

    `hosted_id` is the topic id of the hosted partition with that name, and `assigned_id` the one in the metadata; None
    if it has no such partition. `why_lost` is why the replica's log cannot be used; None if it is only still to be
    created. `moved` is the leader of a partition whose replica was here, when it went. A client must not take a
    partition whose disk failed for one that does not exist, nor one whose log is still to be created: the metadata has
    told of its leader already (Kafka's word for that is NOT_LEADER_OR_FOLLOWER, too).
    """
    if not topic_id:
        return InvalidRequestError(f"{partition}: the topic id is missing; take it from Metadata")
    if assigned_id == topic_id and why_lost is not None:
        return KafkaStorageError(f"{partition} is offline on broker {broker_id}: {why_lost}")
    if assigned_id == topic_id:
        return NotLeaderOrFollowerError(
            f"{partition} is not open on broker {broker_id}: its log is still to be created; ask again"
        )
    if hosted_id is None and moved is not None and moved.topic_id == topic_id:
        return NotLeaderOrFollowerError(f"{partition} was moved away from broker {broker_id}", leader=moved)
    known = f"there its id is {hosted_id}" if hosted_id is not None else "it is not there"
    return UnknownTopicIdError(
        f"broker {broker_id} has no {partition} of topic id {topic_id[:_SHOWN_CHARACTERS]!r}: {known};"
        " refresh the metadata"
    )
