"""Transaction: the block of a plain producer's transaction.

It commits at its end. If it raises, it aborts, and the error goes on. Ctrl-C while it begins or ends never leaves a
transaction open: what is not decided is aborted in the background, and what is being committed goes on. In a forked
child its end does nothing, because the transaction is the parent's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Protocol

from penstock.client import forks
from penstock.client.cluster.group_positions import Offsets, PositionsSource
from penstock.client.producer.future import BulkFuture, RecordFuture
from penstock.client.producer.transactions.transaction_calls import TransactionCalls
from penstock.client.producer.transactions.transactions import Opening
from penstock.errors import FatalProducerError, PenstockError, TransactionAbortedError, TransactionStateError
from penstock.record.builder import HeadersLike

_log = logging.getLogger(__name__)


class Sends(Protocol):
    """The part of a producer that a block calls."""

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordFuture: ...

    def send_many(
        self,
        topic: str,
        values: Iterable[bytes | None] | Any,
        keys: Iterable[bytes | None] | Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> BulkFuture: ...


class Transaction:
    """One transaction, as a `with` block."""

    def __init__(self, producer: Sends, calls: TransactionCalls, run: Callable[..., Any]) -> None:
        self._producer = producer
        self._calls = calls
        self._run = run
        self._opening = Opening()
        self._is_open = False
        self._made_in = forks.generation()

    # -- what is part of it --------------------------------------------------------------------------------------------

    def _must_be_open(self) -> None:
        if not self._is_open:
            raise TransactionStateError("this transaction is not open: its `with` block has ended, or has not begun")

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordFuture:
        """Sends a record as the producer's `send` does. The end of the block waits until the record is acked."""
        self._must_be_open()
        return self._producer.send(topic, value, key, headers, partition, timestamp_ms)

    def send_many(
        self,
        topic: str,
        values: Iterable[bytes | None] | Any,
        keys: Iterable[bytes | None] | Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> BulkFuture:
        """Sends records as the producer's `send_many` does."""
        self._must_be_open()
        return self._producer.send_many(topic, values, keys, partition, timestamp_ms)

    def send_offsets(self, consumer: PositionsSource, positions: Offsets | None = None) -> None:
        """Adds positions as the producer's `send_offsets` does: the group has them committed with the transaction."""
        self._must_be_open()
        self._run(self._calls.send_offsets, consumer, positions)

    # -- the block -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Transaction:
        try:
            self._run(self._calls.begin, self._opening)
            self._is_open = True
        except BaseException:
            self._calls.leave(self._opening)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self._is_open = False
            if self._made_in != forks.generation():
                return
            if error is None:
                self._commit()
            else:
                self._abort_after(error)
        except Exception:
            raise
        except BaseException:  # Ctrl-C
            self._calls.leave(self._opening)
            raise

    def _commit(self) -> None:
        try:
            self._run(self._calls.commit_transaction)
        except TransactionAbortedError as error:
            self._abort_after(error)
            raise

    def _abort_after(self, error: BaseException) -> None:
        """The error of the abort is raised only where it tells more than that of the block."""
        if isinstance(error, FatalProducerError):
            return  # there is nothing to abort any more
        try:
            self._run(self._calls.abort_transaction)
        except PenstockError as met:
            if isinstance(met, FatalProducerError) and isinstance(error, TransactionAbortedError):
                raise met from error
            _log.warning("%r: the abort of a transaction whose block has raised %r: %s", self._producer, error, met)

    def __repr__(self) -> str:
        return f"Transaction({self._producer!r}, {'open' if self._is_open else 'not open'})"
