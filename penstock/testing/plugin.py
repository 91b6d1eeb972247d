"""The pytest plugin: the fixture `penstock_cluster` and the marker `penstock` that shapes it.

    @pytest.mark.penstock(nodes=3, config={"log.segment.bytes": 1048576})
    def test_orders_survive(penstock_cluster): ...

Without the marker the fixture is one node. Every test gets a cluster of its own. Nothing is imported before a test asks
for the fixture, because pytest loads this module in every run wherever Penstock is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.testing.cluster import Cluster


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "penstock(nodes=1, config={}): the shape of the `penstock_cluster` fixture")


@pytest.fixture
def penstock_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running cluster of real node processes, stopped after the test."""
    from penstock.testing.cluster import Cluster

    marker = request.node.get_closest_marker("penstock")
    with Cluster(**(marker.kwargs if marker is not None else {"nodes": 1})) as cluster:
        yield cluster
