"""One question of a leader: does this partition belong to that transaction, or may it be added to it?

Its guard is set BEFORE the coordinator is asked (`replication/leader/transaction_guards.py`): with transaction version
2 anew for each attempt, because a marker in between may have been the last transaction's, and each transaction has an
epoch of its own. With version 1 it stays the same one: a batch from before a marker may not get into the transaction
after it. Not here: asking, and how often (verifier.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from broker.replication.leader.transaction_guards import TransactionGuard
from broker.replication.partition import Partition
from broker.transactions.verification.refusals import marked_meanwhile
from penstock.errors import ApiError

OnVerified = Callable[[ApiError | None], None]


class InTransaction(NamedTuple):
    """A transaction, as the producer of a batch names it. With `verify_only` the partition is only looked for in it:
    its producer is of transaction version 1, and has added it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool = False


class Question:
    """Open from `Verifier.ask` on, until `on_verified` is called or nobody wants to hear it any more."""

    __slots__ = ("attempt", "failure", "guard", "in_transaction", "is_open", "on_verified", "partition", "timer")

    def __init__(self, partition: Partition, in_transaction: InTransaction, on_verified: OnVerified) -> None:
        self.partition, self.in_transaction, self.on_verified = partition, in_transaction, on_verified
        self.attempt = 0
        self.is_open = True
        self.failure: ApiError | None = None
        """The error for which the last attempt was no answer."""
        self.guard: TransactionGuard | None = None
        self.timer: asyncio.TimerHandle | None = None

    def begin_attempt(self) -> None:
        self.attempt += 1
        if self.guard is None or not self.in_transaction.verify_only:
            self._drop_guard()
            asked = self.in_transaction
            epoch = None if asked.verify_only else asked.producer_epoch
            self.guard = self.partition.guards.set(asked.producer_id, epoch)

    @property
    def is_guarded(self) -> bool:
        """The answer counts."""
        return self.guard is not None and self.guard.stands

    def why_never(self) -> ApiError | None:
        """The error that the question ends with, whatever the coordinator says; None if it may be asked again."""
        if self.partition.leading is None or (self.guard is not None and self.guard.is_lead_over):
            return self.partition.not_leader()
        if self.in_transaction.verify_only and self.guard is not None and self.guard.has_marker:
            return marked_meanwhile(self.partition.topic_partition)
        return None

    def close(self) -> None:
        """Ends it: its guard falls, and nothing is asked again."""
        self.is_open = False
        self._drop_guard()
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _drop_guard(self) -> None:
        if self.guard is not None:
            self.partition.guards.drop(self.guard)
            self.guard = None

    def __repr__(self) -> str:
        return f"Question({self.partition.topic_partition} in {self.in_transaction}, attempt {self.attempt})"
