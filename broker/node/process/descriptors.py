"""How the process's file descriptors are shared out: half for segments (storage/segment/open_files.py), a quarter for
clients' connections, and the rest for other nodes, for flushes and for small files.

Decided once, at the start.
"""

from __future__ import annotations

import contextlib
import resource

from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass

OPEN_FILES = 65_536
"""The wanted number. More would cost kernel memory for files that are not read."""
OPEN_MAX = 10_240
"""The number that macOS gives at least, whatever it reports as its hard limit."""
DESCRIPTORS_MIN = 128
"""The least number. With fewer a node could not open its own files beside a few connections."""
DESCRIPTORS_WANTED = 4096
CLIENTS_SHARE, NODES_SHARE = 4, 16
REMEDY = "raise it: LimitNOFILE=65536 in the systemd unit, or ulimit -n 65536"


@dataclass(frozen=True, slots=True)
class DescriptorPlan:
    """The most connections that each kind of listener may have, and what is wrong with the limit, if anything."""

    client_connections_max: int
    node_connections_max: int
    warning: str = ""


def plan_descriptors(limit: int) -> DescriptorPlan:
    """The shares of a process that may have `limit` descriptors; ConfigError if these are too few."""
    if limit < DESCRIPTORS_MIN:
        raise ConfigError(f"the limit of open files is {limit}: a node needs {DESCRIPTORS_MIN} at least; {REMEDY}")
    clients, nodes = limit // CLIENTS_SHARE, limit // NODES_SHARE
    warning = ""
    if limit < DESCRIPTORS_WANTED:
        warning = f"the limit of open files is {limit}, so clients may have {clients} connections; {REMEDY}"
    return DescriptorPlan(clients, nodes, warning)


def raise_open_files_limit() -> None:
    """Raise the limit as far as the machine allows: the soft limit of a shell is too low for a node."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError):  # macOS tells no hard limit, and takes no more than its OPEN_MAX
        if soft < OPEN_MAX:
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_MAX, hard))


def open_files_limit() -> int:
    """How many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES if soft == resource.RLIM_INFINITY else soft
