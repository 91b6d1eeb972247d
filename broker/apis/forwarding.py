"""Forwards requests to the active controller without holding a handler: one bounded set of tasks.

The handler starts a task and goes on; the task answers the request. There are at most `FORWARDED_MAX` at a time, and
each party has at most as many as stay free for others (load/party_shares.py); the next one is refused.
Not here: finding the controller, and retries (`broker/quorum/controller_channel.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from broker.apis.router import Handle
from broker.load.party_shares import PartyShares
from broker.network.failed_requests import FailRequest
from broker.network.parties import party_of
from broker.network.request_channel import Request
from broker.quorum.controller_channel import ControllerChannel
from broker.quorum.metadata_loader import MetadataLoader
from penstock.errors import (
    InvalidRequestError,
    RequestTimedOutError,
    ResourceExhaustedError,
    UnsupportedVersionError,
)
from penstock.messages.api import Api

FORWARDED_MAX = 1_000
"""The most administrative requests that wait for the controller; each holds a task and its request."""
TIMEOUT_MS_DEFAULT = 10_000
TIMEOUT_MS_MAX = 600_000
APPLIED_S = 5.0
"""How long the answer to a committed change waits for the metadata of this node; half of the caller's time, at most."""


class ForwardedRequests:
    """The tasks under way; stopped with the node."""

    def __init__(self, channel: ControllerChannel, loader: MetadataLoader, fail: FailRequest) -> None:
        """`fail` answers a request whose task raised."""
        self._channel, self._loader, self._fail = channel, loader, fail
        self._tasks: dict[asyncio.Task[None], tuple[str, Coroutine[Any, Any, object]]] = {}
        """The tasks under way, with the party of each, and the answer that it waits for."""
        self._shares = PartyShares(FORWARDED_MAX)

    def ask(
        self, api: Api[Any, Any], request: Request, asked: Any, timeout_ms: int, otherwise: Callable[[], Any]
    ) -> None:
        """Answer `request`, which is of this API, with the controller's answer, or with that of `otherwise` when none
        comes in time."""
        self._start(request, self._asked(asked, timeout_ms, otherwise), api)

    def handler(self, api: Api[Any, Any]) -> Handle:
        """The handler of an API that changes the cluster's metadata."""

        def handle(request: Request, body: Any) -> None:
            if body.timeout_ms < 0:
                raise InvalidRequestError(f"timeout_ms is {body.timeout_ms}; it must not be negative")
            timeout_ms = min(body.timeout_ms or TIMEOUT_MS_DEFAULT, TIMEOUT_MS_MAX)
            self._start(request, self._decided_and_applied(body, timeout_ms), api)

        return handle

    async def _asked(self, asked: Any, timeout_ms: int, otherwise: Callable[[], Any]) -> Any:
        try:
            return await self._channel.call(asked, timeout_ms)
        except (RequestTimedOutError, UnsupportedVersionError):  # the controller may be of an older release
            return otherwise()

    async def _decided_and_applied(self, asked: Any, timeout_ms: int) -> Any:
        """The answer to a change once this node's own image holds the outcome: a client that has the answer finds the
        change on this node. Only a node that cannot take the metadata, such as one with a full disk, does not wait for
        that until its caller has given up: the change is committed, and the caller would make it again."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_ms / 1000
        response = await self._channel.call(asked, timeout_ms)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(APPLIED_S, (deadline_s - loop.time()) / 2)):
                await self._loader.wait_for_offset(response.metadata_offset)
        return response

    def _start(self, request: Request, answer: Coroutine[Any, Any, object], api: Api[Any, Any]) -> None:
        party = party_of(request.caller)
        if not self._shares.has_room(party, 1):
            answer.close()
            raise ResourceExhaustedError(
                f"{self._shares.held_by(party)} requests of {party} wait for the controller already, which is as many"
                f" as stay free for others: of {FORWARDED_MAX} there are {self._shares.used} in use; try again later"
            )
        task = asyncio.create_task(self._run(request, answer, api))
        self._tasks[task] = party, answer
        self._shares.changed(party, 1)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        party, answer = self._tasks.pop(task)
        answer.close()  # a task that was cancelled before it began has not
        self._shares.changed(party, -1)

    async def _run(self, request: Request, answer: Coroutine[Any, Any, object], api: Api[Any, Any]) -> None:
        try:
            response = await answer
            request.complete(response, api.outcomes(response))
        except Exception as error:
            self._fail(request, error)

    async def stop(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __repr__(self) -> str:
        return f"ForwardedRequests({len(self._tasks)} under way)"
