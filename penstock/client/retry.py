"""When to try again: exponential back-off with a ceiling, and whether an error is worth it.

Pure. The wait grows by half to the double each time, with a spread taken from the attempt's own number, so that equal
clients do not come back together and tests stay deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import (
    ApiError,
    FencedLeaderEpochError,
    KafkaStorageError,
    NetworkError,
    NotEnoughReplicasAfterAppendError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
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
)
"""Errors after which the client's picture of who leads may be wrong: a leader whose disk failed is one no more."""
UNKNOWN_OUTCOME_ERRORS = (NetworkError, RequestTimedOutError, NotEnoughReplicasAfterAppendError, KafkaStorageError)
"""Errors after which a write may stand in the log all the same: trying again may make a duplicate. Where the leader's
fsync failed, its followers have the records."""
MAX_DOUBLINGS = 20


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits between attempts: `initial_ms`, doubled each time, never above `max_ms`."""

    initial_ms: int
    max_ms: int

    def wait_ms(self, attempt: int) -> int:
        """The wait after attempt number `attempt` (1 is the first) has failed."""
        full = min(self.initial_ms << min(max(attempt - 1, 0), MAX_DOUBLINGS), max(self.max_ms, self.initial_ms))
        return full - (full * ((attempt * 7) % 5)) // 20


def needs_metadata(error: ApiError) -> bool:
    """Whether the next attempt should first learn who leads."""
    return isinstance(error, LEADERSHIP_ERRORS)


def outcome_unknown(error: ApiError) -> bool:
    """Whether a write that failed so may have happened."""
    return isinstance(error, UNKNOWN_OUTCOME_ERRORS)
