"""The values that Admin returns about transactions, frozen. Not here: how they are asked for."""

from __future__ import annotations

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_TIMESTAMP, TopicPartition


@dataclass(frozen=True, slots=True)
class TransactionOverview:
    """A transactional id, as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str
    """Kafka's words: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead,
    PrepareEpochFence."""
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDetails:
    """A transactional id and its transaction, or the error: TransactionalIdNotFoundError where there is no such id."""

    transactional_id: str
    error: ApiError | None = None
    state: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    timeout_ms: int = 0
    start_ms: int = NO_TIMESTAMP
    """The start by the coordinator's clock; -1 where no transaction is open."""
    partitions: tuple[TopicPartition, ...] = ()
    """The partitions that the open transaction has written to."""
    coordinator_id: int = -1


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that a partition has open, and that no coordinator will end: its readers wait (KIP-664)."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_append_ms: int
    """The time of the last append, by the clock of the partition's leader."""
    transactional_id: str | None
    """The producer's transactional id; None if no coordinator knows the producer (any more)."""
