"""Forwards requests to the active controller without holding a handler: one bounded set of tasks.

The handler starts a task and goes on; the task answers the request. More than `FORWARDED_MAX` at a time are refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from broker.network.request_channel import Request
from broker.quorum.controller_channel import ControllerChannel
from broker.quorum.metadata_loader import MetadataLoader
from metadata.requests import (
    AlterConfigsResponse,
    AlterConfigsResult,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    TopicResult,
)
from penstock.errors import ApiError, RequestTimedOutError, ResourceExhaustedError, UnknownServerError

_log = logging.getLogger(__name__)

FORWARDED_MAX = 1_000
"""The most administrative requests that wait for the controller; each holds a task and its request."""
TIMEOUT_MS_DEFAULT = 10_000
TIMEOUT_MS_MAX = 600_000


def bounded_timeout_ms(asked_ms: int) -> int:
    """The client's time-out, bounded; 0 means the default."""
    return min(asked_ms or TIMEOUT_MS_DEFAULT, TIMEOUT_MS_MAX)


class ForwardedRequests:
    """The tasks under way; stopped with the node."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], None] = {}

    def start(self, request: Request, answer: Coroutine[Any, Any, object]) -> None:
        """Answer `request` with what `answer` returns or raises."""
        if len(self._tasks) >= FORWARDED_MAX:
            answer.close()
            raise ResourceExhaustedError(
                f"{FORWARDED_MAX} requests are waiting for the controller already; try again later"
            )
        task = asyncio.create_task(self._run(request, answer))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _run(self, request: Request, answer: Coroutine[Any, Any, object]) -> None:
        try:
            response = await answer
            request.complete(response, _outcomes(response))
        except ApiError as error:
            request.fail(error)
        except Exception as error:
            _log.exception("%s failed", request)
            request.fail(UnknownServerError(f"{request.api}: {type(error).__name__}: {error}"))

    async def stop(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _outcomes(response: object) -> tuple[TopicResult, ...] | tuple[AlterConfigsResult, ...]:
    if isinstance(response, CreateTopicsResponse | DeleteTopicsResponse):
        return response.topics
    return response.resources if isinstance(response, AlterConfigsResponse) else ()


def as_answered(response: Any) -> Any:
    """The default for `decided_and_applied`: the answer to a retry is used as it is."""
    return response


async def decided_and_applied(
    channel: ControllerChannel,
    loader: MetadataLoader,
    asked: Any,
    timeout_ms: int,
    of_repetition: Callable[[Any], Any] = as_answered,
) -> Any:
    """The controller's answer, once this node's own image holds the outcome."""
    response = await channel.call(asked, timeout_ms, of_repetition)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await loader.wait_for_offset(response.metadata_offset)
    except TimeoutError:
        raise RequestTimedOutError(
            f"the change is committed at metadata offset {response.metadata_offset}, but this node does not have it yet"
        ) from None
    return response
