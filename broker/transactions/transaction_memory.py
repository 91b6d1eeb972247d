"""The memory that the transactions of this broker take, estimated, and the share of the node's that they may have.

Above the share no transactional id is added; those that are there go on, and expire. Above twice the share no partition
is added to a transaction either, because a few ids with wide transactions take as much as many ids; room comes when
transactions end. Not here: who is refused.
"""

from __future__ import annotations

from typing import Final

from broker.transactions.transaction_metadata import TransactionMetadata
from penstock.errors import ResourceExhaustedError

TRANSACTION_BYTES: Final = 530
OPEN_BYTES: Final = 500
"""An open transaction has these besides: its set of partitions, and its timer."""
PARTITION_BYTES: Final = 150
GROWTH_LIMIT: Final = 2
"""Ids alone fill the share once; their transactions must go on then."""


def transaction_bytes(transaction: TransactionMetadata | None) -> int:
    """An estimate. It is within a tenth of what tracemalloc counted for ids with 0, 1, 10 and 100 partitions: 556,
    1,207, 2,343 and 15,785 bytes."""
    if transaction is None:
        return 0
    size = TRANSACTION_BYTES + 2 * len(transaction.transactional_id)
    return size + OPEN_BYTES + PARTITION_BYTES * len(transaction.partitions) if transaction.partitions else size


class TransactionMemory:
    """One per broker, shared by its shards."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0

    def changed(self, by: int) -> None:
        """Some state came (`by` is positive) or went."""
        self.used += by

    def must_have_room(self) -> None:
        """ResourceExhaustedError if nothing may be added."""
        if self.used >= self.bytes_max:
            raise ResourceExhaustedError(
                f"the transactions of this broker take about {self.used} bytes of memory, and"
                f" transaction.coordinator.memory.max.bytes is {self.bytes_max}: raise it, use fewer transactional ids,"
                " or let them expire sooner (transactional.id.expiration.ms)"
            )

    def must_have_room_for_partitions(self) -> None:
        """ResourceExhaustedError if no transaction may grow."""
        if self.used >= GROWTH_LIMIT * self.bytes_max:
            raise ResourceExhaustedError(
                f"the transactions of this broker take about {self.used} bytes of memory, {GROWTH_LIMIT} times as much"
                f" as transaction.coordinator.memory.max.bytes, {self.bytes_max}: send it again when others have"
                " ended, raise the limit, or write to fewer partitions in one transaction"
            )

    def __repr__(self) -> str:
        return f"TransactionMemory({self.used} of {self.bytes_max})"
