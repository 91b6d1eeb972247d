"""A log dir whose disk hangs: which calls wait, who waits, and whether an event loop does that must not.

A call that waits comes back when the disk answers again. What the page cache has, or takes, needs no disk: an event
loop may do that. It may also be caught by the beginning of a hang, in what it does after the disk has answered another
thread (ADR 0014). Not here: when a disk hangs (faults.py), and what must follow (liveness_invariants.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.cluster.scheduler import Process

SYNCS = frozenset({"fdatasync", "fsync_dir"})
NAMES = SYNCS | {"create", "rename", "mkdir", "unlink", "rmdir", "truncate", "lock"}
PAGE_CACHE = frozenset({"write", "open", "pread", "read_file", "size", "drop_cache", "truncate"})
"""With the cut by which an append that a full disk refused is taken back: it belongs to the append."""
EVERYTHING = NAMES | PAGE_CACHE | {"listdir", "entries", "exists", "is_directory", "room", "modified_ms"}
KINDS = (SYNCS, NAMES, NAMES, EVERYTHING)
"""The calls that hang: a cache that takes writes, a frozen file system, a server that is gone."""
CAUGHT_SECONDS = 1.0
"""So long after the beginning of a hang an event loop may walk into it."""
LOOK_SECONDS = 0.1


@dataclass(eq=False)
class Hang:
    """The hang of one log dir, from its beginning to its end."""

    calls: frozenset[str]
    began_s: float
    is_over: bool = False
    waiting: dict[Process, float] = field(default_factory=dict)
    """Since when some thread of a process has waited."""
    caught: set[Process] = field(default_factory=set)
    """Processes whose event loop waits."""
    wrong: list[str] = field(default_factory=list)
    """Event loops that walked into it."""

    def meet(self, process: Process, call: str, path: str, *, is_running: bool) -> None:
        """A call to the log dir is about to be made; comes back when the disk answers."""
        fiber, scheduler = process.current, process.scheduler
        if fiber is None or call not in self.calls or (fiber.is_main and call in PAGE_CACHE):
            return
        if fiber.is_main:
            self.caught.add(process)
            if is_running and scheduler.now_s - self.began_s > CAUGHT_SECONDS:
                self.wrong.append(f"the event loop of {process.name} waits in {call} of {path}")
        else:
            self.waiting.setdefault(process, scheduler.now_s)
        while not self.is_over:
            process.sleep(LOOK_SECONDS)
