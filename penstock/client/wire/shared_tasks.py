"""Waits for a task for which others wait too.

Who stops waiting does not stop it. An error of it that nobody waits for any more is heard here, so that asyncio does
not report it as lost: whoever asks next is told by an attempt of its own.
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
