"""Calls for which threads wait: closing the client ends them, each with ClientClosedError.

Belongs to one event loop. Not here: the loop's thread (background.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from penstock.client.cluster.connections import CLOSED
from penstock.errors import ClientClosedError

P = ParamSpec("P")
T = TypeVar("T")


class WaitingCalls:
    """The calls under way for other threads."""

    def __init__(self) -> None:
        self._calls: dict[asyncio.Future[Any], None] = {}
        self._closed = False

    async def until_closed(self, ask: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **more: P.kwargs) -> T:
        """The result of a call for another thread; ClientClosedError as soon as the client is closed."""
        if self._closed:
            raise ClientClosedError(CLOSED)
        call = asyncio.ensure_future(ask(*args, **more))
        self._calls[call] = None
        try:
            return await call
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and (task is None or not task.cancelling()):
                raise ClientClosedError(CLOSED) from None
            raise
        finally:
            self._calls.pop(call, None)

    def close(self) -> None:
        """Ends the calls that wait, and takes no more. Idempotent."""
        self._closed = True
        for call in tuple(self._calls):
            call.cancel()

    def __repr__(self) -> str:
        return f"WaitingCalls({len(self._calls)})"
