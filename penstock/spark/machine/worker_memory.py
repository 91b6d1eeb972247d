"""Spares a Spark worker's garbage collector what never becomes garbage: the modules of Penstock, gRPC, numpy, pyarrow.

PySpark's daemon collects all generations after every task of a worker that it keeps. That walks
every object there is, some 130,000 of imported modules: 40 ms a task, more than a small range takes to read. So at the
second task of ours in a process, when the imports are done and that collection has just been, everything that is alive
is set aside (`gc.freeze`), once.

It is not done where it could cost more than it saves: where the process has many objects besides (a user's model, which
may be replaced one day, would then never be collected if it is in a cycle), where somebody has frozen already, or has
turned the collector off. Objects without cycles are freed as ever, frozen or not.
"""

from __future__ import annotations

import gc
import os

FROZEN_MAX = 400_000
"""Objects that are set aside at most: three times as many as a worker of ours has by itself."""


class WorkerMemory:
    """Counts the tasks of one process."""

    def __init__(self, frozen_max: int = FROZEN_MAX) -> None:
        self._frozen_max = frozen_max
        self._tasks = 0
        self._process = os.getpid()

    def begin_task(self) -> None:
        """Counts a read or write on an executor, at its beginning. At the second one the objects of imported modules
        are frozen."""
        if self._process != os.getpid():  # forked
            self._tasks, self._process = 0, os.getpid()
        self._tasks += 1
        if self._tasks == 2 and gc.isenabled() and not gc.get_freeze_count() and _objects() <= self._frozen_max:
            gc.freeze()


def _objects() -> int:
    return len(gc.get_objects())


WORKER_MEMORY = WorkerMemory()
"""The memory of this process."""
