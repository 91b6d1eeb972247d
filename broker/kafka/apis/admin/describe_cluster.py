"""DescribeCluster 0 to 2, and UnregisterBroker 0.

Like Metadata it tells the brokers at the listener that the client uses, and the broker to which changes are sent. From
version 2 on a client may ask for the fenced ones too. Controllers have no endpoints for clients here, so who asks for
them (`endpoint_type` 2) is told that it asks a broker.
"""

from __future__ import annotations

from typing import Final

from broker.kafka.api_row import alone, over, serves
from broker.kafka.apis.authorized_operations import NOT_ASKED, cluster_operations
from broker.kafka.apis.metadata import controller_for
from broker.kafka.errors import code_of, message_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from penstock.errors import ApiError
from penstock.messages import cluster
from penstock.messages.nodes import brokers

BROKERS: Final = 1
CONTROLLERS: Final = 2
MISMATCHED_ENDPOINT_TYPE: Final = 114
UNSUPPORTED_ENDPOINT_TYPE: Final = 115


def describe_cluster(parts: PlanParts, asked: Asked, body: DescribeClusterRequest) -> Plan:
    if body.endpoint_type != BROKERS:
        return _of_another_type(body.endpoint_type)
    found: cluster.ClusterInfo = yield Ask("DescribeCluster", cluster.DescribeClusterRequest())
    reached = [broker for broker in found.brokers if broker.host]
    alive = [broker.node_id for broker in reached if not broker.fenced]
    return DescribeClusterResponse(
        cluster_id=found.cluster_id,
        controller_id=controller_for(alive, found.controller_id, parts.node_id),
        brokers=[
            DescribeClusterBroker(
                broker_id=b.node_id, host=b.host, port=b.port, rack=b.rack or None, is_fenced=b.fenced
            )
            for b in reached
            if body.include_fenced_brokers or not b.fenced
        ],
        cluster_authorized_operations=(
            cluster_operations(parts, asked) if body.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def describe_cluster_failed(asked: Asked, body: DescribeClusterRequest, error: ApiError) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=code_of(error, "DescribeCluster", asked.version), error_message=message_of(error)
    )


def _of_another_type(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == CONTROLLERS:
        code, why = MISMATCHED_ENDPOINT_TYPE, "this is a listener of brokers; controllers take no requests of clients"
    else:
        code, why = UNSUPPORTED_ENDPOINT_TYPE, f"endpoint type {endpoint_type} is not known; 1 is that of brokers"
    return DescribeClusterResponse(error_code=code, error_message=why, endpoint_type=BROKERS)


def unregister_broker(asked: Asked, body: UnregisterBrokerRequest) -> Plan:
    answer = yield Ask("UnregisterBroker", brokers.UnregisterBrokerRequest(body.broker_id))
    return unregister_broker_failed(asked, body, answer.error)


def unregister_broker_failed(
    asked: Asked, body: UnregisterBrokerRequest, error: ApiError | None
) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(
        error_code=code_of(error, "UnregisterBroker", asked.version), error_message=message_of(error)
    )


SERVED: Final = (
    serves(
        DescribeClusterRequest, DescribeClusterResponse, (0, 2), over(describe_cluster), failed=describe_cluster_failed
    ),
    serves(
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
        (0, 0),
        alone(unregister_broker),
        failed=unregister_broker_failed,
    ),
)
