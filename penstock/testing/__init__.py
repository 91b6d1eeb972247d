"""A real Penstock for your own tests: `Cluster`, and the pytest fixture `penstock_cluster` (see plugin.py)."""

from penstock.testing.cluster import Cluster
from penstock.testing.process import NodeFailedError

__all__ = ["Cluster", "NodeFailedError"]
