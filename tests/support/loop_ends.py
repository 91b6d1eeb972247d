"""The end of an event loop that a test runs in a thread of its own: nothing of it is left for a later test.

A task that is pending when its loop is closed is destroyed whenever the garbage is collected, and says so then: on the
stderr, in the log and as a warning of the test that runs at that moment. gRPC's server leaves such tasks, because its
stop does not wait for the handlers that it has cancelled. asyncio.run does the same by itself.
"""

from __future__ import annotations

import asyncio


async def end_tasks() -> None:
    """Cancels every other task of this loop, and returns when they have ended."""
    while left := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in left:
            task.cancel()
        await asyncio.wait(left)
