"""Promises of DescribeCluster and UnregisterBroker in Kafka's protocol."""

from __future__ import annotations

import pytest

from broker.kafka.schemas.cluster import DescribeClusterRequest, UnregisterBrokerRequest
from penstock.errors import NotControllerError
from penstock.types import Endpoint, ListenerEndpoint
from tests.unit.broker.kafka.apis.admin_node import AdminNode

CLUSTER, UNREGISTER = 60, 64


@pytest.mark.parametrize("version", range(3))
def test_the_brokers_in_service_are_told_and_the_fenced_ones_to_those_who_ask(version: int) -> None:
    node = AdminNode(2, controller_id=2)
    node.cluster.start(3, rack="r")
    node.cluster.let_die(1)
    answer = node.call(CLUSTER, DescribeClusterRequest(), version)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "cluster-1", 2)
    assert [(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers] == [
        (2, "host-2", 9192, None), (3, "host-3", 9192, "r"),
    ]  # fmt: skip
    if version == 2:
        answer = node.call(CLUSTER, DescribeClusterRequest(include_fenced_brokers=True), 2)
        assert [(b.broker_id, b.is_fenced) for b in answer.brokers] == [(1, True), (2, False), (3, False)]


def test_operations_are_told_to_those_who_ask() -> None:
    node = AdminNode()
    body = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert node.call(CLUSTER, body, 0).cluster_authorized_operations == 8096
    assert node.call(CLUSTER, DescribeClusterRequest(), 0).cluster_authorized_operations == -(2**31)


@pytest.mark.parametrize(("endpoint_type", "code"), [(1, 0), (2, 114), (3, 115), (0, 115)])
def test_only_brokers_are_told_here(endpoint_type: int, code: int) -> None:
    answer = AdminNode().call(CLUSTER, DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    assert (answer.error_code, answer.endpoint_type, len(answer.brokers)) == (code, 1, 0 if code else 1)
    assert bool(answer.error_message) == bool(code)


def test_brokers_without_the_clients_listener_are_left_out() -> None:
    node = AdminNode(1)
    node.cluster.start(2, listeners=(ListenerEndpoint("KAFKA", Endpoint("outside", 9)),))
    row = next(row for row in node._rows if row.key == CLUSTER)
    answer = node.does(row.plan, DescribeClusterRequest(include_fenced_brokers=True), 2, "KAFKA")
    assert [(b.broker_id, b.host, b.port) for b in answer.brokers] == [(2, "outside", 9)]
    assert answer.controller_id == 2


def test_a_broker_is_unregistered_if_it_is_out_of_service() -> None:
    node = AdminNode(2)
    assert node.call(UNREGISTER, UnregisterBrokerRequest(broker_id=2), 0).error_code != 0
    node.cluster.let_die(2)
    answer = node.call(UNREGISTER, UnregisterBrokerRequest(broker_id=2), 0)
    assert (answer.error_code, answer.error_message) == (0, None) and 2 not in node.cluster.image.brokers
    gone = node.call(UNREGISTER, UnregisterBrokerRequest(broker_id=2), 0)
    assert gone.error_code == 102 and gone.error_message


def test_what_the_controller_refuses_is_told() -> None:
    node = AdminNode()

    def refuses(body: object) -> None:
        raise NotControllerError("none")

    node.answers = {"UnregisterBroker": refuses, "DescribeCluster": refuses}
    for answer in (
        node.call(UNREGISTER, UnregisterBrokerRequest(broker_id=1), 0),
        node.call(CLUSTER, DescribeClusterRequest(), 1),
    ):
        assert (answer.error_code, answer.error_message) == (41, "none")
