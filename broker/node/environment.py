"""What a node needs of the machine, in one value: whoever builds a node decides where it lives.

In production this is `system_environment()`: the machine's clocks, randomness, disk and threads. A simulation builds
one whose time is virtual, whose threads are steps and whose disk forgets. Not here: asyncio's loop, which whoever runs
the node brings, and its configuration.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from broker.network.thread_times import ThreadTime, read_thread_times
from broker.node.descriptors import open_files_limit
from penstock.clock import Clock, SystemClock
from penstock.ids import Ids, system_ids
from penstock.threads import SystemThreads, Threads
from storage.disk.file_system import FileSystem, OsFileSystem
from storage.disk.machine import Machine


@dataclass(frozen=True, slots=True)
class Environment:
    """Handed to `Node`, which gives each part only what it needs of it."""

    clock: Clock
    random: random.Random
    """For what need not be unguessable: election time-outs, placement of replicas."""
    ids: Ids
    file_system: FileSystem
    threads: Threads
    descriptors_max: int
    """How many files, sockets and pipes the process may have open."""

    processors: int
    """Of the machine: how many threads can work at once."""
    thread_times: Callable[[], Mapping[int, ThreadTime]]
    """What each thread of the process has had of them, by its number."""

    def machine(self) -> Machine:
        """What storage gets of it."""
        return Machine(self.file_system, self.clock, self.threads, self.ids, self.descriptors_max)


def system_environment() -> Environment:
    """The machine, as this process finds it now."""
    return Environment(
        SystemClock(),
        random.Random(),
        system_ids(),
        OsFileSystem(),
        SystemThreads(),
        open_files_limit(),
        os.cpu_count() or 1,
        read_thread_times,
    )
