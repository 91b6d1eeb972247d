"""The state of a partition in a fetcher's core, and what the core returns: requests and effects. No behaviour.

An effect is carried out by effect_runner.py, which then tells the core, AFTER what it names is durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.fetch import FetchPartition
from penstock.types import EpochEndOffset, TopicPartition


class ReplicaState(Enum):
    """The states of a partition of the fetcher."""

    FETCHING = "fetching"
    TRUNCATING = "truncating"
    DELAYED = "delayed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Append:
    """Append these batches, flush them, then call `FetcherCore.appended`."""

    partition: TopicPartition
    records: bytes
    leader_high_watermark: int
    leader_log_start_offset: int = -1


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log by the leader's answer, then call `FetcherCore.truncated`."""

    partition: TopicPartition
    answer: EpochEndOffset
    leader_log_start_offset: int = -1


@dataclass(frozen=True, slots=True)
class StartOver:
    """All records here are older than the leader's log start: drop them and begin there, then call `truncated`."""

    partition: TopicPartition
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class AdvanceHighWatermark:
    """No records, but the leader's high watermark."""

    partition: TopicPartition
    leader_high_watermark: int


@dataclass(frozen=True, slots=True)
class AdvanceLogStart:
    """The leader deleted the records below (KIP-107): do the same; call `log_start_durable` AFTER it is durable."""

    partition: TopicPartition
    leader_log_start_offset: int


@dataclass(frozen=True, slots=True)
class SayStopped:
    """The partition is not fetched any more in this leader epoch: log why, once."""

    partition: TopicPartition
    why: str


@dataclass(frozen=True, slots=True)
class SayRefused:
    """The leader keeps refusing the partition, and the fetcher keeps asking: log why, once."""

    partition: TopicPartition
    error: ApiError


Effect = Append | Truncate | StartOver | AdvanceHighWatermark | AdvanceLogStart | SayStopped | SayRefused


@dataclass(slots=True)
class FetchState:
    """One partition of the fetcher."""

    topic_id: str
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    state: ReplicaState = ReplicaState.FETCHING
    retry_at_ms: int = 0
    asked_in: int = 0
    log_start_wanted: int = -1
    lag: int = -1
    failure: str = ""
    refusals: int = 0


@dataclass(frozen=True, slots=True)
class FetchTurn:
    """The next request of the session: partitions added or moved, and partitions forgotten. `number` grows from turn to
    turn; the answer must come with the number of its request."""

    number: int
    partitions: list[FetchPartition]
    forgotten: list[TopicPartition]


@dataclass(frozen=True, slots=True)
class FetcherStatistics:
    partitions: int
    failed_partitions: int
    delayed_partitions: int
    lag_max: int
    truncating_partitions: int

    @classmethod
    def of(cls, states: Sequence[FetchState]) -> FetcherStatistics:
        return cls(
            partitions=len(states),
            failed_partitions=sum(s.state is ReplicaState.FAILED for s in states),
            delayed_partitions=sum(s.state is ReplicaState.DELAYED for s in states),
            lag_max=max((s.lag for s in states), default=0),
            truncating_partitions=sum(s.state is ReplicaState.TRUNCATING for s in states),
        )
