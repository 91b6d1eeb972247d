"""What can happen to a leader, and how it is undone.

kill: SIGKILL. hang: SIGSTOP, the process keeps its connections and says nothing. stop: SIGTERM, in order. In each case
the cluster has to notice, elect, and be found by the producer; only a node that stops in order says so first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.testing import Cluster


@dataclass(frozen=True, slots=True)
class Fault:
    """`strike` returns when it has happened; after `heal` the node is on its way back."""

    strike: Callable[[Cluster, int], object]
    heal: Callable[[Cluster, int], object]


def _start(cluster: Cluster, index: int) -> None:
    cluster.start(index, wait=False)


HOWS = {
    "kill": Fault(Cluster.kill, _start),
    "hang": Fault(Cluster.pause, Cluster.resume),
    "stop": Fault(Cluster.stop, _start),
}
