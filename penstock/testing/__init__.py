"""A real Penstock for your own tests: `Cluster`, and the pytest fixture `penstock_cluster` (see plugin.py)."""

from penstock.local_nodes.node_process import NodeFailedError
from penstock.testing.cluster import Cluster

__all__ = ["Cluster", "NodeFailedError"]
