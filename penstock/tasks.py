"""What becomes of an error that ends a task for which nobody waits.

asyncio keeps it until the task is collected, and then logs a line: too late for a part without which a node is broken.
Every such task is watched from its start. Not here: what an error means (a node ends, a line is logged).
"""

from __future__ import annotations

from asyncio import Task
from collections.abc import Callable
from functools import partial
from typing import Any


def watch(task: Task[Any], on_death: Callable[[BaseException], object]) -> None:
    """`on_death` is told, on the loop, of the error that ends the task. A cancellation is none."""
    task.add_done_callback(partial(_ended, on_death))


def _ended(on_death: Callable[[BaseException], object], task: Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        on_death(error)
