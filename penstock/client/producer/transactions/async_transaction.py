"""AsyncTransaction: the same block for an event loop: `async with producer.transaction() as t: await t.send(...)`.

A task that is cancelled while its block begins or ends leaves no transaction open, as Ctrl-C in a plain one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Protocol

from penstock.client import forks
from penstock.client.cluster.group_positions import Offsets, PositionsSource
from penstock.client.faces import documented_by
from penstock.client.producer.future import BulkFuture, RecordFuture
from penstock.client.producer.transactions.transaction import Transaction
from penstock.client.producer.transactions.transaction_calls import TransactionCalls
from penstock.client.producer.transactions.transactions import Opening
from penstock.errors import FatalProducerError, PenstockError, TransactionAbortedError, TransactionStateError
from penstock.record.builder import HeadersLike

_log = logging.getLogger(__name__)


class SendsAsync(Protocol):
    """The part of a producer that a block calls."""

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordFuture: ...

    async def send_many(
        self,
        topic: str,
        values: Iterable[bytes | None] | Any,
        keys: Iterable[bytes | None] | Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> BulkFuture: ...


class AsyncTransaction:
    """One transaction, as an `async with` block."""

    def __init__(self, producer: SendsAsync, calls: TransactionCalls) -> None:
        self._producer = producer
        self._calls = calls
        self._opening = Opening()
        self._is_open = False
        self._made_in = forks.generation()

    def _must_be_open(self) -> None:
        if not self._is_open:
            raise TransactionStateError("this transaction is not open: its `with` block has ended, or has not begun")

    @documented_by(Transaction.send)
    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordFuture:
        self._must_be_open()
        return await self._producer.send(topic, value, key, headers, partition, timestamp_ms)

    @documented_by(Transaction.send_many)
    async def send_many(
        self,
        topic: str,
        values: Iterable[bytes | None] | Any,
        keys: Iterable[bytes | None] | Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> BulkFuture:
        self._must_be_open()
        return await self._producer.send_many(topic, values, keys, partition, timestamp_ms)

    @documented_by(Transaction.send_offsets)
    async def send_offsets(self, consumer: PositionsSource, positions: Offsets | None = None) -> None:
        self._must_be_open()
        await self._calls.send_offsets(consumer, positions)

    async def __aenter__(self) -> AsyncTransaction:
        try:
            await self._calls.begin(self._opening)
            self._is_open = True
        except BaseException:
            self._calls.leave(self._opening)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
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
            self._calls.leave(self._opening)
            raise

    async def _commit(self) -> None:
        try:
            await self._calls.commit_transaction()
        except TransactionAbortedError as error:
            await self._abort_after(error)
            raise

    async def _abort_after(self, error: BaseException) -> None:
        if isinstance(error, FatalProducerError):
            return
        try:
            await self._calls.abort_transaction()
        except PenstockError as met:
            if isinstance(met, FatalProducerError) and isinstance(error, TransactionAbortedError):
                raise met from error
            _log.warning("%r: the abort of a transaction whose block has raised %r: %s", self._producer, error, met)

    def __repr__(self) -> str:
        return f"AsyncTransaction({self._producer!r}, {'open' if self._is_open else 'not open'})"
