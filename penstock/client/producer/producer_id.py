"""Gets producer ids: one with the first batch of an idempotent producer, another one when that cannot be used any more.

The driver of a question that any broker answers. At most one is open. It is put again, with a back-off, until a broker
has answered, or has refused in a way that no retry mends. What waits for the id keeps its own time limit. Not here: who
needs an id (sequences.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from penstock.backoff import Backoff
from penstock.client.wire.messages import ProducerIdAndEpoch
from penstock.errors import ApiError, ClientClosedError, PenstockError, without_frames

OnId = Callable[[ProducerIdAndEpoch], None]
OnError = Callable[[PenstockError, bool], None]
"""The error, and whether it is final."""


class ProducerIdSource:
    """Belongs to one event loop."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[ProducerIdAndEpoch]],
        backoff: Backoff,
        on_id: OnId,
        on_error: OnError,
    ) -> None:
        self._ask = ask
        self._backoff = backoff
        self._on_id = on_id
        self._on_error = on_error
        self._asking: asyncio.Task[None] | None = None

    def ask_soon(self) -> None:
        """Asks in the background, unless it does already."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._until_answered())

    async def _until_answered(self) -> None:
        attempt = 0
        while True:
            attempt += 1
            try:
                producer_id = await self._ask()
            except ClientClosedError:
                return
            except PenstockError as error:
                is_final = isinstance(error, ApiError) and not error.retriable
                self._on_error(without_frames(error), is_final)
                if is_final:
                    return
                await asyncio.sleep(max(self._backoff.wait_ms(attempt), 1) / 1000)
            else:
                self._on_id(producer_id)
                return

    async def close(self) -> None:
        """Asks no more. Idempotent."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    def __repr__(self) -> str:
        return f"ProducerIdSource(asking={self._asking is not None and not self._asking.done()})"
