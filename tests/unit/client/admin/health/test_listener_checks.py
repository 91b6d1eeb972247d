"""The listeners for clients as the health of a cluster has them: what some brokers lack is said, and is no fault."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from penstock.client.admin.cluster_views import ClusterViews
from penstock.client.admin.health.health_check import HealthCheck
from penstock.client.admin.health.listener_checks import client_listeners
from penstock.messages.cluster import ClusterInfo, NodeStanding
from penstock.messages.metadata import BrokerInfo, ClientListener

GRPC, KAFKA = {"BROKER": "GRPC"}, {"BROKER": "GRPC", "KAFKA": "KAFKA"}
LACKING = "KAFKA is not on node 2: its clients get LISTENER_NOT_FOUND for the partitions led there"


def judged(*nodes: Mapping[str, str], answering: tuple[int, ...] = (0, 1, 2)) -> HealthCheck:
    """The check of a cluster whose brokers have these listeners; `answering`: those that answer for themselves."""
    brokers = tuple(
        BrokerInfo(
            node, "h", 9192, listeners=tuple(ClientListener(name, "h", 9000 + at) for at, name in enumerate(types))
        )
        for node, types in enumerate(nodes)
    )
    statuses = {node: NodeStanding(node, False, 0, 0, 0, 0, 0, 0, (), listener_types=nodes[node]) for node in answering}
    return client_listeners(
        ClusterViews({node: ClusterInfo("c", 0, brokers, 1, status) for node, status in statuses.items()})
    )


def test_listeners_that_every_broker_has_are_named_with_their_protocols() -> None:
    found = judged(KAFKA, KAFKA, KAFKA)
    assert (found.status, found.summary) == ("ok", "BROKER (GRPC), KAFKA (KAFKA) on every broker")
    assert not found.remedy and not found.details


@pytest.mark.parametrize(
    ("nodes", "details"),
    [
        ((KAFKA, KAFKA, GRPC), (LACKING,)),
        (
            (KAFKA, GRPC, GRPC),
            ("KAFKA is not on nodes 1, 2: its clients get LISTENER_NOT_FOUND for the partitions led there",),
        ),
        (
            (KAFKA, KAFKA, GRPC | {"KAFKA": "GRPC"}),
            ("KAFKA speaks GRPC on node 2 and KAFKA on nodes 0, 1: its clients cannot talk to all of them",),
        ),
    ],
)
def test_a_listener_that_a_broker_has_not_as_the_others_is_a_warning_with_the_names(
    nodes: tuple[Mapping[str, str], ...], details: tuple[str, ...]
) -> None:
    found = judged(*nodes)
    assert (found.status, found.details) == ("warning", details)
    assert found.summary == "1 that some brokers do not have as the others do" and "listener.type.map" in found.remedy


def test_a_broker_that_does_not_answer_is_judged_by_its_registration() -> None:
    assert judged(KAFKA, KAFKA, GRPC, answering=(0, 1)).details == (LACKING,)


def test_an_older_broker_that_tells_nothing_is_not_accused() -> None:
    assert judged({}, {}, {}).summary == "not known of a cluster of an older release"
    assert judged(KAFKA, KAFKA, {}).status == "ok"
