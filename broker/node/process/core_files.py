"""Keeps the memory of a node that holds secrets out of core files.

A core file has the process's memory: private keys, users' credentials, tokens. Its limit of 0 (core(5)) stops the
kernel from writing one. A kernel that pipes cores to a program (systemd-coredump, apport) does not ask for that limit,
so no memory is selected for a core either: the program gets the registers, and none of the memory. The user that starts
the node can still attach a debugger. /proc/PID belongs to the node's user as before, which it would not if the process
were made not dumpable (prctl(2)).

A node without TLS and SASL holds no secret, and its cores are left to the machine's settings.
"""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path
from typing import Final

from broker.config.node_config import NodeConfig

COREDUMP_FILTER: Final = Path("/proc/self/coredump_filter")
NO_MEMORY: Final = "0"


def keep_secrets_out_of_cores(config: NodeConfig) -> None:
    """Applies to this process and its children; called BEFORE a secret is read."""
    if config.tls_listeners or any(config.security_protocol(name).is_sasl for name in config.listeners):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        select_no_memory()


def select_no_memory() -> None:
    """A core of this process has no memory of it, wherever it goes. Elsewhere than on Linux nothing happens."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # /proc cannot be written to here: the limit of 0 stands
            COREDUMP_FILTER.write_text(NO_MEMORY, encoding="ascii")
