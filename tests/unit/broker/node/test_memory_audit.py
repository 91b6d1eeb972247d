"""Every administrative API is asked of whole nodes, with secrets in every place that can hold one: each is told by a
line of the audit log, and no secret is in a log, an answer, an error, a metric or a description."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from broker.metrics.metrics_text import metrics_text
from penstock.errors import ApiError
from penstock.messages.apis import APIS
from penstock.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    ConfigChange,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from penstock.messages.elections import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    NamedPartitions,
    ReassignedPartition,
)
from penstock.messages.features import FeatureUpdate, UpdateFeaturesRequest
from penstock.messages.groups.classic_protocol import LeaveGroupRequest, LeavingMember
from penstock.messages.groups.listing import DeleteGroupsRequest
from penstock.messages.groups.offsets import OffsetCommitPartition, OffsetCommitRequest, OffsetDeleteRequest
from penstock.messages.log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest
from penstock.messages.nodes.brokers import UnregisterBrokerRequest
from penstock.messages.offsets import DeleteRecordsPartition, DeleteRecordsRequest
from penstock.messages.quorum import DescribeMetadataRequest
from penstock.messages.security.acls import (
    AclBinding,
    AclFilter,
    CreateAclsRequest,
    DeleteAclsRequest,
    Operation,
    ResourceType,
)
from penstock.messages.security.quotas import AlterClientQuotasRequest, QuotaAlteration, QuotaChange, QuotaEntity
from penstock.messages.security.users import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramUpsertion,
)
from penstock.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewPartitions,
    NewTopic,
)
from penstock.messages.transactions.listing import EndHangingTransactionRequest
from penstock.messages.voters import (
    AddVoterRequest,
    MakeQuorumDynamicRequest,
    RemoveVoterRequest,
    UnregisterControllerRequest,
)
from penstock.types import TopicPartition
from tests.support.memory_cluster import MemoryCluster, run_in_memory

CANARY = "canary8d1fe07a"
KEY = CANARY.encode().ljust(32, b"!")
ORDERS, NO_ID = TopicPartition("orders", 0), "A" * 22
ACL = AclBinding(ResourceType.TOPIC, "orders", "User:anna", Operation.READ)
SET, APPEND = 0, 2
EVERYBODY = {"authorizer.class.name": "StandardAuthorizer", "super.users": "User:ANONYMOUS"}
"""With an authorizer, without which there are no ACLs."""


def _changed(kind: str, name: str, *changes: ConfigChange) -> AlterConfigsResource:
    return AlterConfigsResource(kind, name, changes)


ACTS: dict[str, Any] = {
    "CreateTopics": CreateTopicsRequest(
        (NewTopic("bad", 1, config={"sasl.jaas.config": CANARY}), NewTopic("orders", 1), NewTopic("other", 1))
    ),
    "CreatePartitions": CreatePartitionsRequest((NewPartitions("orders", 2),)),
    "AlterConfigs": AlterConfigsRequest(
        (
            _changed("topic", "orders", ConfigChange("ssl.keystore.password", SET, CANARY)),
            _changed("broker", "0", ConfigChange("ssl.key.password", APPEND, CANARY)),
            _changed("topic", "other", ConfigChange("retention.ms", SET, "3600000")),
        )
    ),
    "ElectLeaders": ElectLeadersRequest(0, (NamedPartitions("orders", (0,)),)),
    "AlterPartitionReassignments": AlterPartitionReassignmentsRequest((ReassignedPartition("orders", 0, (0,)),)),
    "AlterReplicaLogDirs": AlterReplicaLogDirsRequest(
        (AlterReplicaLogDir("/none", (NamedPartitions("orders", (0,)),)),)
    ),
    "DeleteRecords": DeleteRecordsRequest((DeleteRecordsPartition(ORDERS, NO_ID, 0),), 1_000),
    "OffsetCommit": OffsetCommitRequest("g", (OffsetCommitPartition(ORDERS, 1, metadata=CANARY),)),
    "OffsetDelete": OffsetDeleteRequest("g", (ORDERS,)),
    "LeaveGroup": LeaveGroupRequest("g", (LeavingMember("", "host-1"),)),
    "DeleteGroups": DeleteGroupsRequest(("g",)),
    "EndHangingTransaction": EndHangingTransactionRequest(ORDERS, NO_ID, 1, 0, 0),
    "AlterUserScramCredentials": AlterUserScramCredentialsRequest(
        (), (ScramUpsertion("anna", 1, 4096, KEY, KEY, KEY), ScramUpsertion("bob", 99, 1, KEY, KEY, KEY))
    ),
    "AlterClientQuotas": AlterClientQuotasRequest(
        (QuotaAlteration(QuotaEntity("anna"), (QuotaChange("producer_byte_rate", 1e6), QuotaChange("password", 1.0))),)
    ),
    "CreateAcls": CreateAclsRequest((ACL,)),
    "DeleteAcls": DeleteAclsRequest((AclFilter(principal="User:anna"),)),
    "UnregisterBroker": UnregisterBrokerRequest(0),
    "DeleteTopics": DeleteTopicsRequest((NO_ID,)),
    "AddVoter": AddVoterRequest(9, "D" * 22, ()),
    "RemoveVoter": RemoveVoterRequest(9, "D" * 22),
    "UnregisterController": UnregisterControllerRequest(9),
    "MakeQuorumDynamic": MakeQuorumDynamicRequest("of-another-cluster"),
    "UpdateFeatures": UpdateFeaturesRequest((FeatureUpdate("metadata.version", 2), FeatureUpdate("shoe.size", 1))),
}
LOOKS: dict[str, Any] = {
    "DescribeConfigs": DescribeConfigsRequest(
        (DescribeConfigsResource("broker", "0"), DescribeConfigsResource("topic", "orders")), include_synonyms=True
    ),
    "DescribeUserScramCredentials": DescribeUserScramCredentialsRequest(),
    "DescribeMetadata": DescribeMetadataRequest(-1, 0, 1 << 20),
}


def test_every_act_is_told_and_no_secret_is(caplog: pytest.LogCaptureFixture) -> None:
    assert set(ACTS) == {api.name for api in APIS.values() if api.administers is not None}
    heard: list[str] = []

    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        for api, body in (ACTS | LOOKS).items():
            try:
                answer = await cluster.ask(cluster.endpoint(0), api, body)
                heard.extend((repr(answer), *(str(error) for error in _errors_of(answer))))
            except ApiError as error:
                heard.append(str(error))
        node = cluster.nodes[0]
        heard.append(str(metrics_text(node.metrics.registry)))
        heard.append(repr(vars(node)))
        assert node.broker.requests.audit.statistics().lines >= len(ACTS)

    with caplog.at_level("DEBUG"):
        run_in_memory(1, story, nodes=1, config=EVERYBODY)
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "penstock.audit"]
    assert {line["api"] for line in lines} == set(ACTS), set(ACTS) - {line["api"] for line in lines}
    by_api = {line["api"]: line for line in lines}
    assert by_api["CreateTopics"]["outcome"] == by_api["AlterConfigs"]["outcome"] == "partly done"
    assert by_api["AlterUserScramCredentials"]["outcome"] == "partly done"
    everything = "\n".join((*heard, caplog.text))
    assert "retention.ms" in everything and "anna" in everything
    assert [secret for secret in _spellings(CANARY) if secret in everything] == []


def _errors_of(answer: Any) -> Iterator[ApiError]:
    for name in getattr(answer, "__slots__", ()):
        value = getattr(answer, name)
        if isinstance(value, tuple):
            yield from (one.error for one in value if getattr(one, "error", None) is not None)


def _spellings(secret: str) -> list[str]:
    """As it is, and in the ways in which bytes become text."""
    encoded = KEY.hex(), base64.b64encode(KEY).decode().rstrip("="), base64.urlsafe_b64encode(KEY).decode().rstrip("=")
    return [secret, *encoded]
