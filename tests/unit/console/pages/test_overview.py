"""The overview shows the worst check first, and takes a node's odd numbers as they are."""

from __future__ import annotations

from penstock.client.admin.health.health_check import ClusterHealth, HealthCheck
from penstock.console.pages.overview import show_overview
from penstock.messages.cluster import ClusterInfo, NodeStanding
from tests.support.console_pages import view_of

CHECKS = (
    HealthCheck("brokers", "degraded", "one is away"),
    HealthCheck("room", "ok", "fine"),
    HealthCheck("clocks", "warning", "odd"),
    HealthCheck("offline partitions", "critical", "some"),
)


class FakeAdmin:
    async def cluster_health(self) -> ClusterHealth:
        return ClusterHealth("critical", CHECKS)

    async def describe_cluster(self) -> ClusterInfo:
        status = NodeStanding(0, False, 0, 0, 0, 0, 0, 0, ())
        return ClusterInfo("<b>", -1, (), 2**63, status, {1: 2**62, -5: 2**62}, offline_partitions=-1)


def test_the_worst_check_is_first_and_what_is_ok_is_no_trouble() -> None:
    view = view_of(show_overview, FakeAdmin())
    assert [check.name for check in view.troubles] == ["offline partitions", "brokers", "clocks"]
    assert (view.leaders, view.offline_partitions, view.controller_id) == (2**63, -1, -1)
    assert view.cluster_id == "<b>"
