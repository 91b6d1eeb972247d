"""The pytest plugin: `penstock_cluster`, a cluster for one test, and `penstock_session_cluster`, one for all tests.

    @pytest.mark.penstock(nodes=3, config={"log.segment.bytes": 1048576})
    def test_orders_survive(penstock_cluster): ...

Without the marker `penstock_cluster` is one node. The session's cluster is started once, at its first use, and has the
shape that the fixture `penstock_session_shape` returns: one node, unless a conftest.py has its own. Nothing is imported
before a test asks for a fixture, because pytest loads this module in every run wherever Penstock is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from penstock.testing.cluster import Cluster


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "penstock(nodes=1, config={}): the shape of the `penstock_cluster` fixture")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A test that fails shows the last lines of each node's log, of every cluster among its fixtures: a temporary
    cluster is gone with its logs when anybody looks."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    module = sys.modules.get("penstock.testing.cluster")
    if module is None or not report.failed or report.when == "teardown":
        return
    for name, value in getattr(item, "funcargs", {}).items():
        if isinstance(value, module.Cluster):
            report.sections += [(f"{name}: {title}", text) for title, text in value.log_tails()]


@pytest.fixture
def penstock_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running cluster of real node processes, stopped after the test."""
    from penstock.testing.cluster import Cluster

    marker = request.node.get_closest_marker("penstock")
    with Cluster(**(marker.kwargs if marker is not None else {"nodes": 1})) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def penstock_session_shape() -> dict[str, Any]:
    """The arguments of the session's `Cluster`; write a fixture of this name to have another one."""
    return {"nodes": 1}


@pytest.fixture(scope="session")
def penstock_session_cluster(penstock_session_shape: dict[str, Any]) -> Iterator[Cluster]:
    """A running cluster that all tests of the session share, stopped after the last; with pytest-xdist, of a worker.

    Let each test have topics of its own (`cluster.topic()`), and break nodes in `with` blocks (`cluster.down(0)`).
    """
    from penstock.testing.cluster import Cluster

    with Cluster(**penstock_session_shape) as cluster:
        yield cluster
