"""Says why a request names a partition that this broker does not serve, in a way that its sender can act on.

Pure. Not here: which partitions are served (hosted_partitions.py).
"""

from __future__ import annotations

from penstock.errors import ApiError, InvalidRequestError, UnknownTopicIdError, UnknownTopicOrPartitionError
from penstock.types import TopicPartition

_SHOWN_CHARACTERS = 64
"""Of a topic id that a client made up."""


def unknown_partition(
    broker_id: int, partition: TopicPartition, topic_id: str, *, hosted_id: str | None, assigned_id: str | None
) -> ApiError:
    """The error for a request that names `topic_id`.

    `hosted_id` is whose the partition of that name is here, and `assigned_id` whose the metadata says it should be;
    None when there is none.
    """
    if not topic_id:
        return InvalidRequestError(f"{partition}: the topic id is missing; take it from Metadata")
    if assigned_id == topic_id:
        return UnknownTopicOrPartitionError(
            f"{partition} is not open on broker {broker_id}: its log is still to be created, or could not be; ask again"
        )
    known = f"there its id is {hosted_id}" if hosted_id is not None else "it is not there"
    return UnknownTopicIdError(
        f"broker {broker_id} has no {partition} of topic id {topic_id[:_SHOWN_CHARACTERS]!r}: {known};"
        " refresh the metadata"
    )
