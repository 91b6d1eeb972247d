"""Transactions, as administrators see them (KIP-664)."""

from __future__ import annotations

from enum import Enum

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_TIMESTAMP, TopicPartition


class TransactionState(Enum):
    """The states, by the names of Kafka's APIs."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """`start_ms` is -1 where no transaction is open."""

    transactional_id: str
    error: ApiError | None = None
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = NO_TIMESTAMP
    producer_id: int = -1
    producer_epoch: int = -1
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeTransactionsRequest:
    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DescribeTransactionsResponse:
    """The transactions, in the order of the request."""

    transactions: tuple[TransactionDescription, ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionListing:
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class ListTransactionsRequest:
    """Asks a coordinator for its own; an empty filter lets all through. `pattern` is RE2 (KIP-1152), and must match the
    whole id; `duration_ms`: only those open for longer (KIP-994), -1 is any."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    duration_ms: int = -1
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class ListTransactionsResponse:
    """`unknown_states`: filters that name no state."""

    transactions: tuple[TransactionListing, ...] = ()
    unknown_states: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EndHangingTransactionRequest:
    """Asks the leader of a partition to abort, there alone, the open transaction of this producer that begins at this
    offset. INVALID_TXN_STATE without such a transaction. The caller has made sure that no coordinator has it
    (KIP-664)."""

    partition: TopicPartition
    topic_id: str
    producer_id: int
    producer_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class EndHangingTransactionResponse:
    """The marker is committed."""
