"""The block of a producer's transaction, and Transaction: the block of a plain producer.

It commits at its end. If it raises, it aborts, and the error goes on. Ctrl-C while it begins or ends never leaves a
transaction open, and neither does a task that is cancelled then: what is not decided is aborted in the background, and
what is being committed goes on. In a forked child its end does nothing, because the transaction is the parent's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from penstock.client import forks
from penstock.client.cluster.group_positions import Offsets, PositionsSource
from penstock.client.faces import finished, in_callers_thread, named, within
from penstock.client.producer.transactions import part_sends
from penstock.client.producer.transactions.transaction_calls import TransactionCalls
from penstock.client.producer.transactions.transactions import Opening
from penstock.errors import FatalProducerError, PenstockError, TransactionAbortedError, TransactionStateError

P = ParamSpec("P")
R = TypeVar("R")

SENDS: Final = "Sends a record as the producer's `send` does. The end of the block waits until the record is acked."
SENDS_MANY: Final = "Sends records as the producer's `send_many` does."

_log = logging.getLogger(__name__)


class Asks(Protocol):
    """Has the result of a call of the producer, as its face waits for it."""

    def __call__(
        self, call: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **more: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...


class TransactionBlock:
    """One block, for both faces."""

    def __init__(self, producer: object, calls: TransactionCalls, ask: Asks) -> None:
        self._producer, self._calls, self._ask = producer, calls, ask
        self._opening = Opening()
        self._is_open = False
        self._made_in = forks.generation()

    def must_be_open(self) -> None:
        if not self._is_open:
            raise TransactionStateError("this transaction is not open: its `with` block has ended, or has not begun")

    async def send_offsets(self, consumer: PositionsSource, positions: Offsets | None = None) -> None:
        """Adds positions as the producer's `send_offsets` does: the group has them committed with the transaction."""
        self.must_be_open()
        await self._ask(self._calls.send_offsets, consumer, positions)

    async def begin(self) -> None:
        try:
            await self._ask(self._calls.begin, self._opening)
            self._is_open = True
        except BaseException:
            self.leave()
            raise

    async def end(self, error: BaseException | None) -> None:
        """Commits after a block that has raised nothing, else aborts."""
        try:
            self._is_open = False
            if self._made_in != forks.generation():
                return
            if error is None:
                await self._commit()
            else:
                await self._abort_after(error)
        except Exception:
            raise
        except BaseException:
            self.leave()
            raise

    async def _commit(self) -> None:
        try:
            await self._ask(self._calls.commit_transaction)
        except TransactionAbortedError as error:
            await self._abort_after(error)
            raise

    async def _abort_after(self, error: BaseException) -> None:
        """The error of the abort is raised only where it tells more than that of the block."""
        if isinstance(error, FatalProducerError):
            return  # there is nothing to abort any more
        try:
            await self._ask(self._calls.abort_transaction)
        except PenstockError as met:
            if isinstance(met, FatalProducerError) and isinstance(error, TransactionAbortedError):
                raise met from error
            _log.warning("%r: the abort of a transaction whose block has raised %r: %s", self._producer, error, met)

    def leave(self) -> None:
        """The caller was interrupted. Idempotent."""
        self._is_open = False
        self._calls.leave(self._opening)

    def name(self) -> str:
        """The text for a person."""
        return f"{self._producer!r}, {'open' if self._is_open else 'not open'}"

    def __repr__(self) -> str:
        return f"TransactionBlock({self.name()})"


@named
class Transaction:
    """One transaction, as a `with` block."""

    def __init__(self, producer: object, calls: TransactionCalls, run: Callable[..., Any]) -> None:
        async def ask(call: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **more: P.kwargs) -> R:
            result: R = run(call, *args, **more)
            return result

        self._producer = producer
        self._calls = TransactionBlock(producer, calls, ask)
        self._must_be_open = self._calls.must_be_open

    send = within(part_sends.send, SENDS)
    send_many = within(part_sends.send_many, SENDS_MANY)
    send_offsets = in_callers_thread(TransactionBlock.send_offsets)

    def __enter__(self) -> Transaction:
        try:
            finished(self._calls.begin())
        except BaseException:  # Ctrl-C before the first step of it
            self._calls.leave()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            finished(self._calls.end(error))
        except Exception:
            raise
        except BaseException:  # Ctrl-C before the first step of it
            self._calls.leave()
            raise

    def __repr__(self) -> str:
        return f"Transaction({self._calls.name()})"
