"""The faults of a leader, and how each is undone.

kill: SIGKILL. hang: SIGSTOP, the process keeps its connections and says nothing. stop: SIGTERM, in order. cut: the node
lives and clients reach it, but no other node does. In each case the cluster has to notice, elect, and be found by the
producer; only a node that stops in order says so first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.testing import Cluster
from tests.failover.network import Network

HOWS = ("kill", "hang", "stop", "cut")


@dataclass(frozen=True, slots=True)
class Fault:
    """`strike` returns when it has happened to the node; after `heal` the node is on its way back."""

    strike: Callable[[int], object]
    heal: Callable[[int], object]


def fault_of(how: str, cluster: Cluster, network: Network) -> Fault:
    """The fault of this name, for the nodes of this cluster."""

    def start(index: int) -> None:
        cluster.start(index, wait=False)

    return {
        "kill": Fault(cluster.kill, start),
        "hang": Fault(cluster.pause, cluster.resume),
        "stop": Fault(cluster.stop, start),
        "cut": Fault(network.cut, network.heal),
    }[how]
