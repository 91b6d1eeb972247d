"""The APIs that change the cluster's metadata, by name: each forwards its requests to the active controller."""

from __future__ import annotations

from broker.apis.changes.alter_configs import AlterConfigsApi
from broker.apis.changes.alter_partition_reassignments import AlterPartitionReassignmentsApi
from broker.apis.changes.create_partitions import CreatePartitionsApi
from broker.apis.changes.create_topics import CreateTopicsApi
from broker.apis.changes.delete_topics import DeleteTopicsApi
from broker.apis.changes.elect_leaders import ElectLeadersApi
from broker.apis.changes.unregister_broker import UnregisterBrokerApi
from broker.apis.forwarding import ForwardedRequests
from broker.apis.router import Handle


def changes(forwarded: ForwardedRequests) -> dict[str, Handle]:
    """Their handlers."""
    return {
        "CreateTopics": CreateTopicsApi(forwarded).handle,
        "CreatePartitions": CreatePartitionsApi(forwarded).handle,
        "DeleteTopics": DeleteTopicsApi(forwarded).handle,
        "AlterConfigs": AlterConfigsApi(forwarded).handle,
        "ElectLeaders": ElectLeadersApi(forwarded).handle,
        "AlterPartitionReassignments": AlterPartitionReassignmentsApi(forwarded).handle,
        "UnregisterBroker": UnregisterBrokerApi(forwarded).handle,
    }
