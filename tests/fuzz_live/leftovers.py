"""The things that a node still holds of clients that have gone: connections, open requests, and their memory.

Read from the node's metrics and its descriptors before the attacks and after them, with some slack for what the honest
client has open. A session of fetches may outlive its connection, so sessions do not count.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from penstock.testing import Cluster
from tests.support.campaign.measures import samples

WAIT_S = 40.0
"""A request that was taken may go on for its time-out, and what a gRPC peer holds is noticed late."""
LOOK_S = 1.0
SLACK: Mapping[str, float] = {
    "penstock_connections": 6,
    "penstock_tcp_connections": 6,
    "penstock_request_queue_size": 6,
    "penstock_response_queue_size": 6,
    "penstock_memory_waiting_streams": 0,
    "penstock_memory_used_bytes": 2 << 20,
    "sockets": 12,
}
"""How much more there may be of each."""
ATTEMPTS = 3


class Leftovers:
    """Begun before the attacks."""

    def __init__(self, cluster: Cluster, nodes: int) -> None:
        self._cluster, self._nodes = cluster, nodes
        self._before = [self._look(node) for node in range(nodes)]

    def found(self) -> list[str]:
        """Each thing that is still there when the attackers have been gone for a while."""
        deadline = time.monotonic() + WAIT_S
        while (found := self._more()) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        return found

    def _more(self) -> list[str]:
        found = []
        for node, before in enumerate(self._before):
            for name, value in self._look(node).items():
                slack = SLACK[name.partition("{")[0]]
                if value > before.get(name, 0.0) + slack:
                    found.append(f"node {node}: {name} was {before.get(name, 0.0):g} and is {value:g}")
        return found

    def _look(self, node: int) -> dict[str, float]:
        seen: dict[str, float] = {"sockets": _sockets(self._cluster.pid(node))}
        for _ in range(ATTEMPTS):
            with suppress(OSError):
                for sample in samples(self._cluster.metrics_url(node), timeout_s=10):
                    labels = ",".join(f"{name}={value}" for name, value in sample.labels.items())
                    if sample.name in SLACK and "sessions" not in labels:
                        seen[f"{sample.name}{{{labels}}}"] = sample.value
                break
        return seen


def _sockets(pid: int) -> int:
    count = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            count += os.readlink(entry).startswith("socket:")
    return count
