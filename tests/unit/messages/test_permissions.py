"""The table's column `operation` is that of Kafka's own API of the same name.

Kafka's are listed in its documentation ("Security", "Operations and Resources on Protocols"); of several lines for one
API, the one that a client needs who names existing topics and has no transaction. Not here: the resources, which
the rules name (`tests/unit/broker/authorization/`).
"""

from __future__ import annotations

from penstock.messages.api import ApiKind, Operation
from penstock.messages.apis import APIS

KAFKAS = {
    "Produce": Operation.WRITE,
    "Fetch": Operation.READ,
    "ListOffsets": Operation.DESCRIBE,
    "OffsetForLeaderEpoch": Operation.DESCRIBE,
    "DeleteRecords": Operation.DELETE,
    "Metadata": Operation.DESCRIBE,
    "CreateTopics": Operation.CREATE,
    "CreatePartitions": Operation.ALTER,
    "DeleteTopics": Operation.DELETE,
    "InitProducerId": Operation.IDEMPOTENT_WRITE,
    "AlterConfigs": Operation.ALTER_CONFIGS,
    "DescribeConfigs": Operation.DESCRIBE_CONFIGS,
    "ElectLeaders": Operation.ALTER,
    "AlterPartitionReassignments": Operation.ALTER,
    "ListPartitionReassignments": Operation.DESCRIBE,
    "AlterUserScramCredentials": Operation.ALTER,
    "DescribeUserScramCredentials": Operation.DESCRIBE,
    "UnregisterBroker": Operation.ALTER,
    "DescribeCluster": Operation.DESCRIBE,
    "DescribeQuorum": Operation.DESCRIBE,
    "AddVoter": Operation.ALTER,
    "DescribeFeatures": Operation.DESCRIBE,
    "RemoveVoter": Operation.ALTER,
    "UnregisterController": Operation.ALTER,
    "MakeQuorumDynamic": Operation.ALTER,
    "DescribeLogDirs": Operation.DESCRIBE,
    "AlterReplicaLogDirs": Operation.ALTER,
    "DescribeProducers": Operation.READ,
    "FindCoordinator": Operation.DESCRIBE,
    "ConsumerGroupHeartbeat": Operation.READ,
    "JoinGroup": Operation.READ,
    "SyncGroup": Operation.READ,
    "Heartbeat": Operation.READ,
    "LeaveGroup": Operation.READ,
    "OffsetCommit": Operation.READ,
    "OffsetFetch": Operation.DESCRIBE,
    "OffsetDelete": Operation.DELETE,
    "ListGroups": Operation.DESCRIBE,
    "DescribeGroups": Operation.DESCRIBE,
    "DeleteGroups": Operation.DELETE,
    "CreateAcls": Operation.ALTER,
    "DeleteAcls": Operation.ALTER,
    "AlterClientQuotas": Operation.ALTER_CONFIGS,
    "DescribeClientQuotas": Operation.DESCRIBE_CONFIGS,
    "DescribeAcls": Operation.DESCRIBE,
    "AddPartitionsToTxn": Operation.WRITE,
    "AddOffsetsToTxn": Operation.WRITE,
    "TxnOffsetCommit": Operation.WRITE,
    "EndTxn": Operation.WRITE,
    "BeginAtomicBatch": Operation.WRITE,
    "CommitAtomicBatch": Operation.WRITE,
    "AbortAtomicBatch": Operation.WRITE,
    "DescribeTransactions": Operation.DESCRIBE,
    "ListTransactions": Operation.DESCRIBE,
    "EndHangingTransaction": Operation.ALTER,
    "UpdateFeatures": Operation.ALTER,
}
OURS = {"DescribeMetadata", "SaslAuthenticate"}
"""APIs of clients that Kafka does not have."""


def test_what_a_client_must_be_permitted_is_what_kafka_asks_for() -> None:
    of_clients = {api.name: api.operation for api in APIS.values() if api.kind.at_broker}
    ours = {name: of_clients.pop(name) for name in OURS}
    assert of_clients == {name: KAFKAS[name] for name in of_clients}
    assert set(ours.values()) == {Operation.DESCRIBE}


def test_what_nodes_ask_of_each_other_is_an_action_of_the_cluster() -> None:
    between = [api for api in APIS.values() if not api.kind.at_broker]
    assert {api.kind for api in between} == {ApiKind.CONTROLLER, ApiKind.QUORUM, ApiKind.BROKERS}
    assert {api.operation for api in between} == {Operation.CLUSTER_ACTION}
