"""The calls of clients that a broker forwards to the active controller: between protobuf and values, in one table.

Each has the same messages at both doors, and on the way between them. The message of a request has a `timeout_ms`,
which is not part of the value. An edge. Not here: the forwarding itself (`broker/apis/forwarding.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from broker.grpc.codec import configs, elections, reassignments, registration, topics
from metadata.requests import (
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    UnregisterBrokerRequest,
)


class ForwardedCall(NamedTuple):
    """How one call is decoded and encoded. `to_pb` takes the request, and the time limit in ms."""

    request: type[Any]
    from_pb: Callable[[Any], Any]
    to_pb: Callable[[Any, int], Any]
    response_to_pb: Callable[[Any], Any]
    response_from_pb: Callable[[Any], Any]


FORWARDED: Final = {
    "CreateTopics": ForwardedCall(
        CreateTopicsRequest,
        topics.create_topics_from_pb,
        topics.create_topics_to_pb,
        topics.create_topics_response_to_pb,
        topics.create_topics_response_from_pb,
    ),
    "CreatePartitions": ForwardedCall(
        CreatePartitionsRequest,
        topics.create_partitions_from_pb,
        topics.create_partitions_to_pb,
        topics.create_partitions_response_to_pb,
        topics.create_partitions_response_from_pb,
    ),
    "DeleteTopics": ForwardedCall(
        DeleteTopicsRequest,
        topics.delete_topics_from_pb,
        topics.delete_topics_to_pb,
        topics.delete_topics_response_to_pb,
        topics.delete_topics_response_from_pb,
    ),
    "AlterConfigs": ForwardedCall(
        AlterConfigsRequest,
        configs.alter_configs_from_pb,
        configs.alter_configs_to_pb,
        configs.alter_configs_response_to_pb,
        configs.alter_configs_response_from_pb,
    ),
    "ElectLeaders": ForwardedCall(
        ElectLeadersRequest,
        elections.elect_leaders_from_pb,
        elections.elect_leaders_to_pb,
        elections.elect_leaders_response_to_pb,
        elections.elect_leaders_response_from_pb,
    ),
    "AlterPartitionReassignments": ForwardedCall(
        AlterPartitionReassignmentsRequest,
        reassignments.request_from_pb,
        reassignments.request_to_pb,
        reassignments.response_to_pb,
        reassignments.response_from_pb,
    ),
    "UnregisterBroker": ForwardedCall(
        UnregisterBrokerRequest,
        registration.unregister_from_pb,
        registration.unregister_to_pb,
        registration.unregister_response_to_pb,
        registration.unregister_response_from_pb,
    ),
}
"""By the name of the API."""
APIS_FORWARDED: Final = {call.request: api for api, call in FORWARDED.items()}
"""By the type of the request."""
