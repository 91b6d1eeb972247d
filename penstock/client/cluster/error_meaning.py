"""What an error says of the next attempt: whether the picture of who leads may be wrong, and whether a write happened.

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
"""Errors after which the client's picture of who leads may be wrong. A leader whose disk failed is one no more;
one that stopped leading after an append can only say that the append is not acked."""


def needs_metadata(error: ApiError) -> bool:
    """Whether the next attempt should first learn who leads."""
    return isinstance(error, LEADERSHIP_ERRORS)


def outcome_unknown(error: ApiError) -> bool:
    """Whether a write that failed so may stand in the log all the same; penstock/errors.py says which guarantee not."""
    return not error.nothing_written
