"""The calls of a transactional producer to its coordinator, and those of the leaders of its partitions.

A producer of transaction version 2 (KIP-890) names no partition beforehand: the leader of each adds it with the first
batch, and every end of a transaction gives the producer its next epoch. An older one adds its partitions itself, and a
leader only verifies them.
"""

from __future__ import annotations

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.groups.offsets import OffsetCommitPartition, OffsetCommitResult
from penstock.types import NO_EPOCH, TopicPartition


@dataclass(frozen=True, slots=True)
class TransactionPartitions:
    """Partitions of one transaction: to be added to it, or only looked up in it. `bumps_epoch`: transaction version 2,
    a leader adds the partition."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    verify_only: bool = False
    bumps_epoch: bool = False


@dataclass(frozen=True, slots=True)
class AddPartitionsToTxnRequest:
    """Adds partitions to the transaction of one producer, or, from a leader, to all that wait. `waits`: while the last
    transaction of the id is being ended the answer comes a little later instead of CONCURRENT_TRANSACTIONS; for a
    request with one transaction."""

    transactions: tuple[TransactionPartitions, ...]
    waits: bool = False


@dataclass(frozen=True, slots=True)
class TransactionPartitionResult:
    partition: TopicPartition
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class TransactionPartitionResults:
    """The partitions of one transaction, in the order of the request."""

    transactional_id: str
    partitions: tuple[TransactionPartitionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class AddPartitionsToTxnResponse:
    """The results, in the order of the request."""

    transactions: tuple[TransactionPartitionResults, ...] = ()


@dataclass(frozen=True, slots=True)
class AddOffsetsToTxnRequest:
    """The group's offsets will be committed by the transaction. `waits` as in AddPartitionsToTxnRequest."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str
    waits: bool = False


@dataclass(frozen=True, slots=True)
class AddOffsetsToTxnResponse:
    """The group is part of the transaction."""


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitRequest:
    """Offsets that count when the transaction is committed (KIP-447). `member_epoch` is the generation of a classic
    member; without a member nothing of it is checked. `adds_group`: transaction version 2, nobody added the group."""

    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[OffsetCommitPartition, ...]
    member_id: str = ""
    member_epoch: int = NO_EPOCH
    group_instance_id: str = ""
    adds_group: bool = False


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitResponse:
    """The results, in the order of the request."""

    partitions: tuple[OffsetCommitResult, ...] = ()


@dataclass(frozen=True, slots=True)
class EndTxnRequest:
    """Commit, or abort. `bumps_epoch`: transaction version 2."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_committed: bool
    bumps_epoch: bool = False


@dataclass(frozen=True, slots=True)
class EndTxnResponse:
    """The id and epoch of the producer's next transaction; -1 and -1 where the request did not bump it."""

    producer_id: int = -1
    producer_epoch: int = -1
