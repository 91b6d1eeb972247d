"""Waits for a task that others also wait for.

A caller that stops waiting does not stop the task. If the task fails when nobody waits for it any more, its error is
consumed here, so that asyncio does not report it as lost: the next caller makes an attempt of its own, and gets the
error of that.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from penstock.client.wire.statuses import call_cancelled
from penstock.tasks import watch
from penstock.types import Endpoint

T = TypeVar("T")


async def shared(task: asyncio.Task[T], endpoint: Endpoint) -> T:
    """The result of a task for which others wait too. If it was cancelled, its waiters were not: they get an error."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        own = asyncio.current_task()
        if task.cancelled() and (own is None or not own.cancelling()):
            raise call_cancelled(endpoint) from None
        watch(task, _not_heard)
        raise


def _not_heard(error: BaseException) -> None:
    """The last waiter may have left."""
