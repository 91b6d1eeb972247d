"""Chooses the I/O engine of gRPC in a node's process: the one that polls in the thread that waits for the event.

gRPC 1.80 gave Python the EventEngine. It hands a message from a poller to a pool of threads and from there to the
completion queue, where one more thread wakes the event loop. The engine before it, iomgr, polls in the thread that
waits on the completion queue: two hand-overs of a thread fewer for each message, and six messages make one record
durable on three nodes. The figures, and what happens when gRPC has no iomgr any more, are in ADR 0013.

The choice counts only BEFORE the process imports grpc. An operator who has set GRPC_EXPERIMENTS has the say. Clients
keep gRPC's own choice, because their process may use gRPC for other purposes.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from importlib.metadata import PackageNotFoundError, version

EXPERIMENTS = "GRPC_EXPERIMENTS"
POLL_WHERE_WAITED = "-event_engine_client,-event_engine_listener"
MEASURED_VERSIONS = ("1.85.",)
"""gRPC's versions that have both engines and in which iomgr was measured to be quicker. Another version keeps its own
choice: one that does not know the names complains on stderr at every start."""


def choose_grpc_engine(environment: MutableMapping[str, str] = os.environ, installed: str | None = None) -> bool:
    """Call it before anything imports grpc. Whether it has chosen."""
    installed = _installed() if installed is None else installed
    if EXPERIMENTS in environment or not installed.startswith(MEASURED_VERSIONS):
        return False
    environment[EXPERIMENTS] = POLL_WHERE_WAITED
    return True


def _installed() -> str:
    try:
        return version("grpcio")
    except PackageNotFoundError:
        return ""
