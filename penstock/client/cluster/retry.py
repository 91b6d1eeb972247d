"""When to try again: exponential back-off with a ceiling, and whether an error is worth it.

A wait is shorter than the full one by up to a fifth, drawn from the random source that is handed in: clients that
failed together do not all come back together.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

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
MAX_DOUBLINGS = 20
SPREAD = 5
"""Up to one part in so many of a wait is left out, as in Kafka, whose waits vary by 20 %."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits between attempts: `initial_ms`, doubled each time, never above `max_ms`."""

    initial_ms: int
    max_ms: int
    random: Random

    def wait_ms(self, attempt: int) -> int:
        """The wait after attempt number `attempt` (1 is the first) has failed."""
        full = min(self.initial_ms << min(max(attempt - 1, 0), MAX_DOUBLINGS), max(self.max_ms, self.initial_ms))
        return full - self.random.randint(0, full // SPREAD)


def needs_metadata(error: ApiError) -> bool:
    """Whether the next attempt should first learn who leads."""
    return isinstance(error, LEADERSHIP_ERRORS)


def outcome_unknown(error: ApiError) -> bool:
    """Whether a write that failed so may stand in the log all the same; penstock/errors.py says which guarantee not."""
    return not error.nothing_written
