"""Fetch: the turns of a fetch session, of a consumer or of a follower (KIP-227).

Every partition that is asked for comes with its topic's id: `HostedPartitions.get` checks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_EPOCH, NO_LEADER, NO_OFFSET, EpochEndOffset, TopicPartition

RACK_LENGTH_MAX: Final = 255
"""Characters of a consumer's rack; a session of fetches remembers it."""


class AbortedTransaction(NamedTuple):
    """A reader of committed records drops the producer's records from `first_offset` on, up to the abort's marker."""

    producer_id: int
    first_offset: int


class FetchPartition(NamedTuple):
    """A partition added to a fetch session, or its new position there."""

    partition: TopicPartition
    topic_id: str
    fetch_offset: int
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    log_start_offset: int = NO_OFFSET
    """The log start of the fetching replica; -1 from a consumer."""
    max_bytes: int = 1 << 20


@dataclass(slots=True)
class FetchRequest:
    """One turn of a fetch session. `replica_id` is -1 for a consumer."""

    replica_id: int
    broker_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partitions: Sequence[FetchPartition]
    forgotten: Sequence[TopicPartition]
    cluster_id: str = ""
    is_full: bool = False
    """It names every partition of its session: others leave it, and the answer has each of them, in this order. A
    request that is not answers only with what is new."""
    read_committed: bool = False
    """A consumer is given no record of a transaction that is undecided, and is told of those that were aborted."""
    rack_id: str = ""
    """The rack of a consumer that reads from followers, too, if the leader names one (KIP-392); "": from leaders."""
    serves_consumers: bool = False
    """True of a follower to which consumers with racks may be sent. One of an older release does not say so, nor does
    one without `replica.selector.class`."""


@dataclass(slots=True)
class PartitionFetchResult:
    """The outcome for one partition. `topic_id` and `fetch_offset` are those of the question."""

    partition: TopicPartition
    topic_id: str
    fetch_offset: int
    error: ApiError | None = None
    high_watermark: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    records: bytes | memoryview = b""
    diverging_epoch: EpochEndOffset | None = None
    last_stable_offset: int = NO_OFFSET
    """No transaction that begins below it is undecided. Not above the high watermark."""
    aborted: Sequence[AbortedTransaction] = ()
    """The aborted transactions among `records`, for a reader of committed records."""
    preferred_read_replica: int = NO_LEADER
    """The follower to ask instead of this leader: it is in the consumer's rack. There are no records then. -1: none."""


@dataclass(slots=True)
class FetchResponse:
    """The answer; `error` is of the request as a whole."""

    partitions: Sequence[PartitionFetchResult] = ()
    error: ApiError | None = None
    throttle_time_ms: int = 0
    """The time for which the broker reads nothing more of the connection: the client has used its quota up."""
