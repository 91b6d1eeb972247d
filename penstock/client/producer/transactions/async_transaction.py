"""AsyncTransaction: the same block for an event loop: `async with producer.transaction() as t: await t.send(...)`.

A task that is cancelled while its block begins or ends leaves no transaction open, as Ctrl-C in a plain one. Not here:
what a block does (transaction.py).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from penstock.client.faces import AsyncFace, awaited, awaited_within, named
from penstock.client.producer.transactions import part_sends
from penstock.client.producer.transactions.transaction import SENDS, SENDS_MANY, TransactionBlock
from penstock.client.producer.transactions.transaction_calls import TransactionCalls

P = ParamSpec("P")
R = TypeVar("R")


@named
class AsyncTransaction:
    """One transaction, as an `async with` block."""

    def __init__(self, producer: AsyncFace[Any], calls: TransactionCalls) -> None:
        self._producer = producer
        self._calls = TransactionBlock(producer, calls, _ask)
        self._must_be_open = self._calls.must_be_open

    def _bind(self) -> None:
        self._producer._bind()

    send = awaited_within(part_sends.send, SENDS)
    send_many = awaited_within(part_sends.send_many, SENDS_MANY)
    send_offsets = awaited(TransactionBlock.send_offsets)

    async def __aenter__(self) -> AsyncTransaction:
        await self._calls.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self._calls.end(error)

    def __repr__(self) -> str:
        return f"AsyncTransaction({self._calls.name()})"


async def _ask(call: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **more: P.kwargs) -> R:
    return await call(*args, **more)
