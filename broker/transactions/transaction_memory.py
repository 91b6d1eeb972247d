"""The memory of this broker's transactions: estimates, the limit, and how more is refused.

State that lasts is transactional ids and applications of atomic batches. State that ends with its transaction is the
partitions of open ones. Not here: the share of each party (load/party_shares.py).
"""

from __future__ import annotations

from typing import Final

from broker.coordination.held_memory import UNIT_BYTES, text_bytes
from broker.coordination.memory_shares import CoordinatorMemory, MemoryWords
from broker.transactions.transaction_metadata import TransactionMetadata
from penstock.errors import PolicyViolationError, ResourceExhaustedError

TRANSACTION_BYTES: Final = 530 + UNIT_BYTES
OPEN_BYTES: Final = 500
"""An open transaction has these besides: its set of partitions, and its timer."""
PARTITION_BYTES: Final = 150
_WORDS: Final = MemoryWords(
    state="the transactions",
    key="transaction.coordinator.memory.max.bytes",
    lasting_error=PolicyViolationError,
    lasting_remedy="use fewer transactional ids, let those that are used no more expire sooner"
    " (transactional.id.expiration.ms), or raise the limit",
    passing_error=ResourceExhaustedError,
    passing_remedy="send it again when other transactions have ended, write to fewer partitions in one transaction, or"
    " raise the limit",
)


def id_bytes(transaction: TransactionMetadata | None) -> int:
    """An estimate of what a transactional id takes, without its open transaction."""
    return 0 if transaction is None else TRANSACTION_BYTES + 2 * text_bytes(transaction.transactional_id)


def open_bytes(transaction: TransactionMetadata | None) -> int:
    """An estimate of what its open transaction takes besides. Both together are within a tenth of what tracemalloc
    counted for ids with 0, 1, 10 and 100 partitions: 556, 1,207, 2,343 and 15,785 bytes without the counts of
    memory."""
    if transaction is None or not transaction.partitions:
        return 0
    return OPEN_BYTES + PARTITION_BYTES * len(transaction.partitions)


def transaction_memory(bytes_max: int) -> CoordinatorMemory:
    """The memory of transactions. There is one per broker, shared by its shards."""
    return CoordinatorMemory(bytes_max, _WORDS)
