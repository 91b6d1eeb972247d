"""Reports an error that ends a task whose result no code awaits.

asyncio keeps such an error until the task is collected, and then logs a line. That is too late for a part that a node
needs. So every such task is watched from its start. The caller decides what follows (a node ends, a line is logged).
"""

from __future__ import annotations

from asyncio import Task
from collections.abc import Callable
from functools import partial
from typing import Any


def watch(task: Task[Any], on_death: Callable[[BaseException], object]) -> None:
    """`on_death` is called, on the loop, with the error that ends the task. A cancellation is no error."""
    task.add_done_callback(partial(_ended, on_death))


def _ended(on_death: Callable[[BaseException], object], task: Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        on_death(error)
