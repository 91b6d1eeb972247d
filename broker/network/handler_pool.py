"""The handlers: `num.io.threads` tasks that take requests from the channel and give each to its API.

A handler never waits for anything but the next request. An API that has to wait parks its request in a purgatory or
starts a task through `Router`; so one slow partition or an absent controller cannot use the handlers up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from broker.network.request_channel import Request, RequestChannel
from penstock.errors import ApiError, InvariantViolation, UnknownServerError

log = logging.getLogger(__name__)


class HandlerPool:
    """Runs `handle(request)` for every request; a failure answers that request and nothing else, but for an invariant
    that does not hold: that is for `on_fatal`, because the next request could make it worse."""

    def __init__(
        self,
        channel: RequestChannel,
        handle: Callable[[Request], None],
        handlers: int,
        on_fatal: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        self._on_fatal = on_fatal
        self._channel = channel
        self._handle = handle
        self._handlers = handlers
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._run(), name=f"handler-{n}") for n in range(self._handlers)]

    async def stop(self) -> None:
        """Ends the handlers; requests still queued are answered by their connections' end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self) -> None:
        meter = self._channel.handler_meter
        while True:
            request = await self._channel.receive()
            request.dequeued_ns = time.monotonic_ns()
            try:
                self._handle(request)
            except ApiError as error:
                request.fail(error)
            except InvariantViolation as error:
                request.fail(UnknownServerError(f"{request.api}: {error}"))
                self._on_fatal(error)
            except Exception as error:
                log.exception("%s failed", request)
                request.fail(UnknownServerError(f"{request.api}: {type(error).__name__}: {error}"))
            request.handled()
            request.handled_ns = time.monotonic_ns()
            meter.add_busy(request.dequeued_ns, request.handled_ns)
