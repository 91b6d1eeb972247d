"""Reads the processor time of each thread of this process, its waiting for a processor, and the processors' idle time.

gRPC makes threads of its own, which Python does not know; the kernel does. A thread is known by its kernel id. On
systems other than Linux only the calling thread is known, and neither its waiting nor the processors' idle time.
Not here: which kind of work a thread does (node_load.py). Sources: sched-stats.rst of Linux' documentation (schedstat:
time on the processor and time in the run queue, in nanoseconds) and proc(5) (/proc/stat: ticks of each processor).
"""

from __future__ import annotations

import os
import threading
import time
from typing import NamedTuple

TASKS = "/proc/self/task"
PROCESSORS = "/proc/stat"
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_IDLE = slice(3, 5)
"""The columns idle and iowait of a processor's line, behind its name."""


class ThreadTime(NamedTuple):
    """Nanoseconds since the thread's start."""

    run_ns: int
    wait_ns: int
    """The time in the run queue: there was work, and no processor."""


def read_thread_times(tasks: str = TASKS) -> dict[int, ThreadTime]:
    """The times by kernel thread id. A thread that ends meanwhile is left out."""
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


def read_idle_processors(path: str = PROCESSORS) -> dict[int, int]:
    """The time (ns, since the boot) for which each processor that this process may run on had nothing to do, by its
    number.

    Empty where the system does not say."""
    try:
        own = os.sched_getaffinity(0)
        with open(path, "rb") as file:
            lines = [line.split() for line in file if line.startswith(b"cpu")]
    except (OSError, AttributeError):
        return {}
    idle = {int(name[3:]): sum(map(int, ticks[_IDLE])) * TICK_NS for name, *ticks in lines if name != b"cpu"}
    return {processor: idle_ns for processor, idle_ns in idle.items() if processor in own}
