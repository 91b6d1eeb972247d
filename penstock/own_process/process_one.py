"""Behaves as process 1 of a container must. Elsewhere each function does nothing.

The kernel takes no default action for a signal to process 1: without a handler SIGTERM is ignored, and `podman stop`
waits until its time is up. Until a node runs it has no handler of its own, and a recovery may take minutes. So process
1 ends at SIGTERM at once, as every other process does by default. A start that is ended so is begun anew by the next
one. Not here: the ordered stop of a node that runs (broker/node/server.py).
"""

from __future__ import annotations

import os
import signal
from typing import Final

PROCESS_ONE: Final = 1
EXIT_TERMINATED: Final = 128 + signal.SIGTERM
"""The exit code that a shell gives a process which SIGTERM has ended."""


def end_at_sigterm(pid: int) -> None:
    """SIGTERM ends this process, also one that `hold_sigterm` has held back. Called in the main thread."""
    if pid == PROCESS_ONE:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(EXIT_TERMINATED))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def hold_sigterm(pid: int) -> None:
    """Keeps SIGTERM for the program that this process executes next, which has no handler at first."""
    if pid == PROCESS_ONE:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def reap_orphans(pid: int) -> None:
    """The kernel reaps what becomes a child of this process. Not for a process that waits for children of its own."""
    if pid == PROCESS_ONE:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
