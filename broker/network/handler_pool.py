"""The handlers: `num.io.threads` tasks that take requests from the channel and give each to its API.

A handler never waits for anything but the next request. An API that has to wait parks its request in a purgatory or
starts a task through `Router`; so one slow partition or an absent controller cannot use the handlers up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.network.failed_requests import FailRequest
from broker.network.request_channel import Request, RequestChannel


class HandlerPool:
    """Runs `handle(request)` for every request; an exception is given to `fail`, and the handler goes on."""

    def __init__(
        self, channel: RequestChannel, handle: Callable[[Request], None], handlers: int, fail: FailRequest
    ) -> None:
        self._fail = fail
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
        busy, now_ns = self._channel.busy.handlers, self._channel.now_ns
        while True:
            request = await self._channel.receive()
            request.dequeued_ns = now_ns()
            try:
                self._handle(request)
            except Exception as error:
                self._fail(request, error)
            self._channel.request_handled(request)
            request.handled_ns = now_ns()
            busy.add_busy(request.dequeued_ns, request.handled_ns)
