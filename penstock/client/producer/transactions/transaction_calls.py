"""The calls of transactions that both faces of a producer have, and their blocks.

They refuse a producer without a transactional id, and one that is closed. Not here: what they do (transactions.py).
"""

from __future__ import annotations

import asyncio
import contextlib

from penstock.client.cluster.group_positions import Offsets, PositionsSource
from penstock.client.producer.transactions.transactions import Opening, Transactions
from penstock.errors import ClientClosedError, PenstockError, TransactionStateError


class TransactionCalls:
    """The calls of one producer."""

    def __init__(self, transactions: Transactions | None) -> None:
        """`transactions` is None for a producer without a transactional id."""
        self._transactions = transactions
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts to make the calls on `loop`."""
        self._loop = loop

    def checked(self, call: str) -> Transactions:
        """The producer's transactions."""
        if self._transactions is None:
            raise TransactionStateError(f"{call} needs a transactional producer; make it with transactional_id='...'")
        if self._closed:
            raise ClientClosedError("this producer is closed; make a new one")
        return self._transactions

    async def begin_transaction(self) -> None:
        """Begins a transaction: what is sent until it is committed or aborted is read all together, or never.

        `with producer.transaction() as t:` begins and ends by itself. The first call fences an older producer that has
        the transactional id: its open transaction is aborted, and it gets ProducerFencedError.
        """
        await self.checked("begin_transaction").begin(Opening())

    async def begin(self, opening: Opening) -> None:
        """The beginning of a block."""
        await self.checked("transaction").begin(opening)

    async def commit_transaction(self) -> None:
        """Waits until all records of the transaction are acked, and commits it.

        TransactionAbortedError where a record or an offset has failed: abort it and begin again. TimedOutError after
        `max_block_ms`: it may be committed or not; call again, until it tells. A FatalProducerError ends the producer.
        """
        await self.checked("commit_transaction").commit()

    async def abort_transaction(self) -> None:
        """Aborts the transaction: nobody reads its records as committed. Its unacked records are not sent."""
        await self.checked("abort_transaction").abort()

    async def send_offsets(self, consumer: PositionsSource, positions: Offsets | None = None) -> None:
        """Makes the consumer's positions, or these ones, a part of the transaction: its group has them committed if and
        when the transaction is committed.

        The consumer has a `group_id` and `enable_auto_commit=False`. TransactionAbortedError where it is no member any
        more. Once it has raised, the transaction can only be aborted.
        """
        transactions = self.checked("send_offsets")
        try:
            taken = consumer.group_positions(positions)
        except Exception as error:
            misuse = TransactionStateError(f"send_offsets has raised {error!r}")
            transactions.offsets_failed(error if isinstance(error, PenstockError) else misuse)
            raise
        await transactions.send_offsets(taken)

    def leave(self, opening: Opening) -> None:
        """The block of a transaction was interrupted while it began or ended. In any thread; nobody waits."""
        opening.is_left = True
        if self._transactions is not None and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended: at interpreter exit
                self._loop.call_soon_threadsafe(self._transactions.leave, opening)

    def begin_close(self) -> None:
        """Lets no further transaction begin."""
        self._closed = True

    async def close(self, timeout: float | None) -> None:
        """Aborts what is open, and waits for what is being ended."""
        self._closed = True
        if self._transactions is not None:
            await self._transactions.close(timeout)

    def __repr__(self) -> str:
        return f"TransactionCalls({self._transactions!r})"
