"""What each thread of this process has had of the processor, and how long it waited for one: Linux' schedstat.

gRPC makes threads of its own, which Python does not know; the kernel does. A thread is told apart by its kernel id.
Elsewhere than on Linux only the thread that asks is known, and its waiting is not. Not here: which kind of work a
thread does (node_load.py). Source: sched-stats.rst of Linux' documentation: time on the processor and time in the run
queue, both in nanoseconds.
"""

from __future__ import annotations

import os
import threading
import time
from typing import NamedTuple

TASKS = "/proc/self/task"


class ThreadTime(NamedTuple):
    """Nanoseconds since the thread's start."""

    run_ns: int
    wait_ns: int
    """In the run queue: there was work, and no processor."""


def read_thread_times(tasks: str = TASKS) -> dict[int, ThreadTime]:
    """By kernel thread id. A thread that ends meanwhile is left out."""
    found: dict[int, ThreadTime] = {}
    try:
        ids = os.listdir(tasks)
    except OSError:
        ids = []
    for thread_id in ids:
        try:
            with open(f"{tasks}/{thread_id}/schedstat", "rb", buffering=0) as file:
                run, wait, *_ = file.read(128).split()
        except (OSError, ValueError):
            continue
        found[int(thread_id)] = ThreadTime(int(run), int(wait))
    own = threading.get_native_id()
    if own not in found:
        found[own] = ThreadTime(time.thread_time_ns(), 0)
    return found
