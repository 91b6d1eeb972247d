"""The machine's threads, ids and clock, for tests that are about something else."""

from __future__ import annotations

from penstock.clock import Clock, ManualClock, SystemClock
from penstock.ids import system_ids
from penstock.threads import SystemThreads
from storage.disk.file_system import FileSystem, OsFileSystem
from storage.disk.machine import Machine
from storage.disk.small_file_writes import SmallFileWrites
from storage.disk.stop_wait import STOP_WAIT_MS, StopWait

THREADS = SystemThreads()
IDS = system_ids()
NOW_NS = SystemClock().now_ns
DESCRIPTORS_MAX = 1024


def machine(fs: FileSystem | None = None, clock: Clock | None = None) -> Machine:
    """A machine with this file system, whose time stands still unless a clock is given."""
    return Machine(fs or OsFileSystem(), clock or ManualClock(), THREADS, IDS, DESCRIPTORS_MAX)


def small_file_writes() -> SmallFileWrites:
    return SmallFileWrites(THREADS)


def stop_wait(clock: Clock | None = None, limit_ms: int = STOP_WAIT_MS) -> StopWait:
    return StopWait(clock or SystemClock(), THREADS, limit_ms)
