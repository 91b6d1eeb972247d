"""Batches of transactions that wait at a leader for the coordinators of their transactions, in order.

The first batch of a transaction in a partition waits for the answer to a question (verifier.py). Batches that the same
producer sends to the same partition meanwhile wait behind it, and are appended after it, in the order in which they
came: their sequences follow each other. A batch of another transaction of the producer has its own question, if it is
that transaction's first. The batches together are bounded, in number and in bytes, because their requests' memory is
free by then; each party has a share of both (load/party_shares.py).

Not here: the append itself (`apis/producing/transactional_produce.py`).
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from broker.load.party_shares import PartyShares
from broker.replication.partition import Partition
from broker.transactions.verification.questions import InTransaction, Question
from broker.transactions.verification.verifier import Verifier
from penstock.errors import ApiError, ResourceExhaustedError
from penstock.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class HoldLimits:
    """The bounds of one broker, half of them for one party alone. A transaction waits for its coordinator once, a few
    milliseconds."""

    batches: int = 20_000
    size_bytes: int = 64 * 1024 * 1024
    queue: int = 100
    """Batches of one producer for one partition. Clients have five in flight."""


class HeldBatch(Protocol):
    """A batch that waits."""

    @property
    def in_transaction(self) -> InTransaction: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def party(self) -> str:
        """The party that pays for it (network/parties.py)."""
        ...

    @property
    def wait_ms(self) -> float:
        """How long it may wait as the first one."""
        ...

    def release(self, error: ApiError | None) -> None:
        """Append it now, or tell the error: nothing is written then. Must not raise."""
        ...


class _Queue:
    """The batches of one producer for one partition. The first one waits for the question."""

    __slots__ = ("batches", "question")

    def __init__(self) -> None:
        self.batches: deque[HeldBatch] = deque()
        self.question: Question | None = None


class HeldBatches:
    """Batches that wait for coordinators. There is one per broker, on the event loop."""

    def __init__(self, verifier: Verifier, limits: HoldLimits = HoldLimits()) -> None:
        self._verifier, self._queue_max = verifier, limits.queue
        self._queues: dict[tuple[Partition, int], _Queue] = {}
        self._counts, self._bytes = PartyShares(limits.batches), PartyShares(limits.size_bytes)

    def holds(self, partition: Partition, producer_id: int) -> bool:
        """Batches of the producer for the partition wait: the next one must wait behind them."""
        return (partition, producer_id) in self._queues

    def may_begin(self, in_transaction: InTransaction) -> bool:
        """A batch may begin its transaction in a partition without a question."""
        return not self._verifier.needs_to_ask(in_transaction)

    def hold(self, partition: Partition, batch: HeldBatch) -> None:
        """`batch.release` is called later, once; ResourceExhaustedError if there is no room for it."""
        key = partition, batch.in_transaction.producer_id
        queue = self._queues.get(key)
        self._must_have_room(partition, batch, 0 if queue is None else len(queue.batches))
        if queue is None:
            queue = _Queue()
            self._ask(key, queue, batch)  # BEFORE it is known: this may raise
            self._queues[key] = queue
        queue.batches.append(batch)
        self._counts.changed(batch.party, 1)
        self._bytes.changed(batch.party, batch.size_bytes)

    def discard(self, partition: Partition, batch: HeldBatch) -> None:
        """Nobody wants it any more; it is not released."""
        key = partition, batch.in_transaction.producer_id
        queue = self._queues.get(key)
        if queue is None or batch not in queue.batches:
            return
        was_first = queue.batches[0] is batch
        queue.batches.remove(batch)
        self._left(batch)
        if was_first:
            if queue.question is not None:
                self._verifier.withdraw(queue.question)
                queue.question = None
            self._go_on(key, queue)

    def _must_have_room(self, partition: Partition, batch: HeldBatch, queued: int) -> None:
        counts, sizes, party = self._counts, self._bytes, batch.party
        has_room = counts.has_room(party, 1) and sizes.has_room(party, batch.size_bytes)
        if not has_room or queued >= self._queue_max:
            raise ResourceExhaustedError(
                f"{counts.used} batches with {sizes.used} bytes wait on this broker for the coordinators of their"
                f" transactions: {counts.held_by(party)} with {sizes.held_by(party)} bytes are of {party}, and {queued}"
                f" of the same producer for {partition.topic_partition}. Nothing was written, send it again"
            )

    def _ask(self, key: tuple[Partition, int], queue: _Queue, first: HeldBatch) -> None:
        queue.question = self._verifier.ask(
            key[0], first.in_transaction, first.wait_ms, lambda error: self._on_verified(key, queue, first, error)
        )

    def _on_verified(self, key: tuple[Partition, int], queue: _Queue, first: HeldBatch, error: ApiError | None) -> None:
        """The answer for the first batch, and for those of its transaction behind it."""
        queue.question = None
        transaction = first.in_transaction
        while queue.batches and queue.batches[0].in_transaction == transaction:
            self._release(queue, error)
        self._go_on(key, queue)

    def _go_on(self, key: tuple[Partition, int], queue: _Queue) -> None:
        """Another batch is the first one now, if there is any."""
        while queue.batches:
            first = queue.batches[0]
            try:
                self._ask(key, queue, first)
            except ApiError as error:
                self._release(queue, error)
                continue
            return
        del self._queues[key]

    def _release(self, queue: _Queue, error: ApiError | None) -> None:
        batch = queue.batches.popleft()
        self._left(batch)
        batch.release(error)

    def _left(self, batch: HeldBatch) -> None:
        self._counts.changed(batch.party, -1)
        self._bytes.changed(batch.party, -batch.size_bytes)

    def __repr__(self) -> str:
        return f"HeldBatches({self._counts.used} batches, {self._bytes.used} bytes)"
