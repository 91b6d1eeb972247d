"""The table's columns `operation` and `resource` are those of Kafka's own APIs of the same name.

Kafka's are listed in its documentation ("Security", "Operations and Resources on Protocols"); of several lines for one
API, the one that a client needs who names existing topics and has no transaction.
"""

from __future__ import annotations

from penstock.messages.api import ApiKind, Operation, Resource
from penstock.messages.apis import APIS

KAFKAS = {
    "Produce": (Operation.WRITE, Resource.TOPIC),
    "Fetch": (Operation.READ, Resource.TOPIC),
    "ListOffsets": (Operation.DESCRIBE, Resource.TOPIC),
    "OffsetForLeaderEpoch": (Operation.DESCRIBE, Resource.TOPIC),
    "DeleteRecords": (Operation.DELETE, Resource.TOPIC),
    "Metadata": (Operation.DESCRIBE, Resource.TOPIC),
    "CreateTopics": (Operation.CREATE, Resource.TOPIC),
    "CreatePartitions": (Operation.ALTER, Resource.TOPIC),
    "DeleteTopics": (Operation.DELETE, Resource.TOPIC),
    "InitProducerId": (Operation.IDEMPOTENT_WRITE, Resource.CLUSTER),
    "AlterConfigs": (Operation.ALTER_CONFIGS, Resource.TOPIC),
    "DescribeConfigs": (Operation.DESCRIBE_CONFIGS, Resource.TOPIC),
    "ElectLeaders": (Operation.ALTER, Resource.CLUSTER),
    "AlterPartitionReassignments": (Operation.ALTER, Resource.CLUSTER),
    "ListPartitionReassignments": (Operation.DESCRIBE, Resource.CLUSTER),
    "AlterUserScramCredentials": (Operation.ALTER, Resource.CLUSTER),
    "DescribeUserScramCredentials": (Operation.DESCRIBE, Resource.CLUSTER),
    "UnregisterBroker": (Operation.ALTER, Resource.CLUSTER),
    "DescribeCluster": (Operation.DESCRIBE, Resource.CLUSTER),
    "DescribeQuorum": (Operation.DESCRIBE, Resource.CLUSTER),
    "DescribeLogDirs": (Operation.DESCRIBE, Resource.CLUSTER),
    "AlterReplicaLogDirs": (Operation.ALTER, Resource.CLUSTER),
    "DescribeProducers": (Operation.READ, Resource.TOPIC),
    "FindCoordinator": (Operation.DESCRIBE, Resource.GROUP),
    "ConsumerGroupHeartbeat": (Operation.READ, Resource.GROUP),
    "JoinGroup": (Operation.READ, Resource.GROUP),
    "SyncGroup": (Operation.READ, Resource.GROUP),
    "Heartbeat": (Operation.READ, Resource.GROUP),
    "LeaveGroup": (Operation.READ, Resource.GROUP),
    "OffsetCommit": (Operation.READ, Resource.GROUP),
    "OffsetFetch": (Operation.DESCRIBE, Resource.GROUP),
    "OffsetDelete": (Operation.DELETE, Resource.GROUP),
    "ListGroups": (Operation.DESCRIBE, Resource.CLUSTER),
    "DescribeGroups": (Operation.DESCRIBE, Resource.GROUP),
    "DeleteGroups": (Operation.DELETE, Resource.GROUP),
    "CreateAcls": (Operation.ALTER, Resource.CLUSTER),
    "DeleteAcls": (Operation.ALTER, Resource.CLUSTER),
    "AlterClientQuotas": (Operation.ALTER_CONFIGS, Resource.CLUSTER),
    "DescribeClientQuotas": (Operation.DESCRIBE_CONFIGS, Resource.CLUSTER),
    "DescribeAcls": (Operation.DESCRIBE, Resource.CLUSTER),
    "AddPartitionsToTxn": (Operation.WRITE, Resource.TRANSACTIONAL_ID),
    "AddOffsetsToTxn": (Operation.WRITE, Resource.TRANSACTIONAL_ID),
    "TxnOffsetCommit": (Operation.WRITE, Resource.TRANSACTIONAL_ID),
    "EndTxn": (Operation.WRITE, Resource.TRANSACTIONAL_ID),
    "BeginAtomicBatch": (Operation.WRITE, Resource.TRANSACTIONAL_ID),
    "CommitAtomicBatch": (Operation.WRITE, Resource.TRANSACTIONAL_ID),
    "AbortAtomicBatch": (Operation.WRITE, Resource.TRANSACTIONAL_ID),
    "DescribeTransactions": (Operation.DESCRIBE, Resource.TRANSACTIONAL_ID),
    "ListTransactions": (Operation.DESCRIBE, Resource.TRANSACTIONAL_ID),
    "EndHangingTransaction": (Operation.ALTER, Resource.CLUSTER),
    "UpdateFeatures": (Operation.ALTER, Resource.CLUSTER),
}
OURS = {"DescribeMetadata", "SaslAuthenticate"}
"""APIs of clients that Kafka does not have."""


def test_what_a_client_must_be_permitted_is_what_kafka_asks_for() -> None:
    of_clients = {api.name: (api.operation, api.resource) for api in APIS.values() if api.kind.at_broker}
    ours = {name: of_clients.pop(name) for name in OURS}
    assert of_clients == {name: KAFKAS[name] for name in of_clients}
    assert set(ours.values()) == {(Operation.DESCRIBE, Resource.CLUSTER)}


def test_what_nodes_ask_of_each_other_is_an_action_of_the_cluster() -> None:
    between = [api for api in APIS.values() if not api.kind.at_broker]
    assert {api.kind for api in between} == {ApiKind.CONTROLLER, ApiKind.QUORUM, ApiKind.BROKERS}
    assert {(api.operation, api.resource) for api in between} == {(Operation.CLUSTER_ACTION, Resource.CLUSTER)}
