"""Asks for producer ids: any broker gives one, and no other producer of the cluster ever gets the same (KIP-98).

A broker that is silent is left for the next one: an id whose answer comes too late is nobody's, which costs nothing.
`ProducerIdSource` asks in the background, with one question at a time. The question is put again, with a back-off,
until a broker has answered, or has refused in a way that no retry mends. A batch that waits for the id keeps its own
time limit. Not here: when a producer needs an id (producer/sequences.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from penstock.backoff import Backoff
from penstock.base_error import without_frames
from penstock.client.cluster.cluster import ClusterClient
from penstock.errors import ApiError, ClientClosedError, PenstockError, UnsupportedVersionError
from penstock.types import ProducerIdAndEpoch

OnId = Callable[[ProducerIdAndEpoch], None]
OnError = Callable[[PenstockError, bool], None]
"""The error, and whether it is final."""


async def init_producer_id(cluster: ClusterClient, deadline_ms: int) -> ProducerIdAndEpoch:
    """A new producer id in its first epoch.

    Retriable errors are tried again until `deadline_ms` (of the client's clock). Then the last one is raised, or
    TimedOutError if no broker answered; BootstrapError if none ever did, UnsupportedVersionError if the broker is older
    than producer ids.
    """
    await cluster.wait_ready()
    return await cluster.any_node.ask(
        lambda connection, ms: connection.init_producer_id(ms), deadline_ms, read_only=True
    )


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
                self._on_error(without_frames(_with_remedy(error)), is_final)
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


def _with_remedy(error: PenstockError) -> PenstockError:
    if not isinstance(error, UnsupportedVersionError):
        return error
    return UnsupportedVersionError(f"{error}; set enable_idempotence=False until every broker knows producer ids")
