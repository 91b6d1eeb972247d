"""Tells what an error means for the next attempt: may another node lead by now, and may a write have happened?

Not here: how long to wait before it (penstock/backoff.py).
"""

from __future__ import annotations

from penstock.errors import (
    ApiError,
    FencedLeaderEpochError,
    KafkaStorageError,
    NetworkError,
    NotEnoughReplicasAfterAppendError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)

LEADERSHIP_ERRORS = (
    NotLeaderOrFollowerError,
    FencedLeaderEpochError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
    UnknownTopicIdError,
    KafkaStorageError,
    NetworkError,
    NotEnoughReplicasAfterAppendError,
)
"""Errors after which another node may lead than the client knows. A leader whose disk failed does not lead any more; a
leader that stopped leading after an append can only say that the append is not acked."""


def needs_metadata(error: ApiError) -> bool:
    """True if the next attempt should first learn who leads."""
    return isinstance(error, LEADERSHIP_ERRORS)


def outcome_unknown(error: ApiError) -> bool:
    """True if the write may be in the log all the same; penstock/errors.py says which errors rule that out."""
    return not error.nothing_written
