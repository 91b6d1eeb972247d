"""Waits for the answer of a unary call of gRPC's asyncio library. A call that nobody waits for gives its memory back.

The library frees what it has given to a call where the call's own task ends by itself, and cancels that task along with
the call. One to several KiB of each cancelled call stayed, and a process that lives for months cancels many: a console
its pages' questions, a node those to a controller that hangs. Shared by both edges: clients ask nodes by it, and nodes
ask each other. Not here: gRPC itself, and what an error means.
"""

from __future__ import annotations

import asyncio
from typing import Any


async def unary_answer(call: Any) -> bytes | None:
    """The answer; None of a peer that says that all is well and sends none. Where the caller is cancelled the call is,
    and its task ends by that. A call without a task is the simulator's, or that of another release of the library."""
    task = getattr(call, "_invocation_task", None)
    if task is not None:
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                call._cancel("the caller has gone")
            raise
    answer: bytes | None = await call
    return answer
