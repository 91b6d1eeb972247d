"""A node that a cluster does not have is named, with those that it has. No node is started."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.testing import Cluster


@pytest.mark.parametrize("index", [3, -1])
def test_a_node_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, index: int) -> None:
    cluster: Any = Cluster(nodes=3)
    monkeypatch.setattr(cluster._nodes, "_layout", SimpleNamespace())
    monkeypatch.setattr(cluster._nodes, "_nodes", [SimpleNamespace()] * 3)
    with pytest.raises(ValueError, match=f"there is no node {index}: the cluster has the nodes 0 to 2"):
        cluster.kill(index)
