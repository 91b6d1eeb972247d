"""A process that may start no more threads, as with `ulimit -u` or a unit's `TasksMax=`; root is above such limits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

STACK_BYTES = 1 << 47
"""More than there are addresses: the system refuses the thread, with the error of a limit of threads."""


@contextmanager
def no_thread_can_start() -> Iterator[None]:
    before = threading.stack_size(STACK_BYTES)
    try:
        yield
    finally:
        threading.stack_size(before)
