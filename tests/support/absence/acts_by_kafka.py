"""Acts in Kafka's protocol while a node is away. Each ends when it is done, or is Refused."""

from __future__ import annotations

from typing import Any

from broker.kafka.schemas import configs, offsets, reassignments, security, topics
from broker.kafka.schemas.cluster import DescribeClusterRequest, UnregisterBrokerRequest
from broker.kafka.schemas.features import FeatureUpdateKey, UpdateFeaturesRequest
from broker.kafka.schemas.fetch import FetchRequest, FetchRequestFetchPartition, FetchRequestFetchTopic
from broker.kafka.schemas.groups import classic
from broker.kafka.schemas.groups import offsets as commits
from broker.kafka.schemas.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)
from broker.kafka.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.kafka.schemas.producers import InitProducerIdRequest
from broker.kafka.schemas.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from broker.kafka.schemas.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic, EndTxnRequest
from penstock.record.batch import with_producer
from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from penstock.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartitions,
    encode_consumer_protocol,
)
from tests.support.absence.acts_by_grpc import EVERYBODY
from tests.support.absence.kafka_calls import GROUP, TRANSACTION
from tests.support.absence.stage import AWAY, PRESENT, Stage

TOPIC, BROKER, SET = 2, 4, 0
"""Kinds of resources, and an operation on a configuration."""
TIMEOUT_MS = 30_000
PRODUCE_VERSION, FETCH_VERSION, JOIN_VERSION, COMMIT_VERSION, TXN_VERSION = 9, 12, 3, 8, 3


async def _create(stage: Stage, name: str, partitions: int, factor: int, *by_hand: tuple[int, ...]) -> None:
    rows = [
        topics.CreatableReplicaAssignment(partition_index=at, broker_ids=list(replicas))
        for at, replicas in enumerate(by_hand)
    ]
    topic = topics.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=factor, assignments=rows, configs=[]
    )
    await stage.kafka.ask(topics.CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS))
    await stage.kafka.topic(name)


async def create_topic(stage: Stage) -> None:
    await _create(stage, "kafka-three", 4, 3)
    stage.made.add("kafka-three")


async def create_topic_by_default(stage: Stage) -> None:
    await _create(stage, "kafka-default", -1, -1)
    stage.made.add("kafka-default")


async def create_topic_of_two(stage: Stage) -> None:
    await _create(stage, "kafka-two", 4, 2)
    made = (await stage.kafka.topic("kafka-two")).partitions
    assert all(set(partition.isr_nodes) == set(partition.replica_nodes) for partition in made)


async def create_topic_by_hand(stage: Stage) -> None:
    await _create(stage, "kafka-by-hand", -1, -1, EVERYBODY)
    stage.made.add("kafka-by-hand")


async def create_topic_on_demand(stage: Stage) -> None:
    """`auto.create.topics.enable`."""
    await stage.kafka.topic("kafka-on-demand", may_be_made=True)
    stage.made.add("kafka-on-demand")


async def _add(stage: Stage, name: str, count: int, *by_hand: tuple[int, ...]) -> None:
    rows = [topics.CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in by_hand]
    asked = topics.CreatePartitionsTopic(name=name, count=count, assignments=rows or None)
    await stage.kafka.ask(topics.CreatePartitionsRequest(topics=[asked], timeout_ms=TIMEOUT_MS))


async def add_partitions(stage: Stage) -> None:
    await _add(stage, "before", 5)


async def add_partitions_by_hand(stage: Stage) -> None:
    await _add(stage, "before-by-hand", 3, EVERYBODY)


async def _produce(stage: Stage, topic: str, records: bytes, transactional_id: str | None = None) -> int:
    data = [PartitionProduceData(index=0, records=memoryview(records))]
    body = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )
    answer = await stage.kafka.ask(body, PRODUCE_VERSION, await stage.kafka.leader(topic))
    return int(answer.responses[0].partition_responses[0].base_offset)


def _batch() -> bytes:
    return build_batch([b"value"], keys=[b"key"], timestamps_ms=1_000)


async def write_and_read(stage: Stage) -> None:
    """A topic that is made now, with min.insync.replicas = 2."""
    await _create(stage, "kafka-written", 2, stage.factor)
    offset = await _produce(stage, "kafka-written", _batch())
    partition = FetchRequestFetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    asked = FetchRequestFetchTopic(topic="kafka-written", partitions=[partition])
    body = FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=[asked])
    while True:
        answer = await stage.kafka.ask(body, FETCH_VERSION, await stage.kafka.leader("kafka-written"))
        if answer.responses[0].partitions[0].records:
            return


async def first_group(stage: Stage) -> None:
    group, rows = "kafka-group", [ConsumerProtocolTopicPartitions(topic="read", partitions=[0])]
    metadata = encode_consumer_protocol(
        ConsumerProtocolSubscription(topics=["read"], owned_partitions=[], generation_id=-1)
    )
    join = classic.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=TIMEOUT_MS,
        rebalance_timeout_ms=TIMEOUT_MS,
        protocol_type="consumer",
        protocols=[classic.JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    joined = await _of_group(stage, join, JOIN_VERSION)
    me, generation = joined.member_id, joined.generation_id
    assert joined.leader == me
    assignment = encode_consumer_protocol(ConsumerProtocolAssignment(assigned_partitions=rows))
    mine = classic.SyncGroupRequestAssignment(member_id=me, assignment=assignment)
    sync = classic.SyncGroupRequest(group_id=group, generation_id=generation, member_id=me, assignments=[mine])
    assert (await _of_group(stage, sync, JOIN_VERSION)).assignment
    partition = commits.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = commits.OffsetCommitRequestTopic(name="read", partitions=[partition])
    commit = commits.OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=generation, member_id=me, topics=[topic]
    )
    await _of_group(stage, commit, COMMIT_VERSION)
    asked = commits.OffsetFetchRequestTopics(name="read", partition_indexes=[0])
    fetch = commits.OffsetFetchRequest(groups=[commits.OffsetFetchRequestGroup(group_id=group, topics=[asked])])
    (found,) = (await _of_group(stage, fetch, COMMIT_VERSION)).groups[0].topics[0].partitions
    assert found.committed_offset == 1
    leave = classic.LeaveGroupRequest(group_id=group, members=[classic.MemberIdentity(member_id=me)])
    await _of_group(stage, leave, JOIN_VERSION)


async def _of_group(stage: Stage, request: Any, version: int) -> Any:
    return await stage.kafka.ask_coordinator("kafka-group", GROUP, request, version)


async def first_transaction(stage: Stage) -> None:
    name = "kafka-transaction"
    asked = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
    given = await stage.kafka.ask_coordinator(name, TRANSACTION, asked, TXN_VERSION)
    producer = given.producer_id, given.producer_epoch
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="before", partitions=[0])],
    )
    await stage.kafka.ask_coordinator(name, TRANSACTION, add, TXN_VERSION)
    await _produce(stage, "before", with_producer(_batch(), *producer, 0, is_transactional=True), name)
    end = EndTxnRequest(transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=True)
    await stage.kafka.ask_coordinator(name, TRANSACTION, end, TXN_VERSION)


async def producer_id(stage: Stage) -> None:
    for node in PRESENT:
        await stage.kafka.ask(InitProducerIdRequest(transaction_timeout_ms=TIMEOUT_MS), TXN_VERSION, node)


async def elect(stage: Stage) -> None:
    named = reassignments.ElectLeadersRequestTopicPartitions(topic="kafka-elected", partitions=[0])
    await stage.kafka.ask(reassignments.ElectLeadersRequest(topic_partitions=[named], timeout_ms=TIMEOUT_MS))


async def _move(stage: Stage, topic: str, replicas: list[int] | None) -> None:
    partition = reassignments.ReassignablePartition(partition_index=0, replicas=replicas)
    named = reassignments.ReassignableTopic(name=topic, partitions=[partition])
    body = reassignments.AlterPartitionReassignmentsRequest(topics=[named], timeout_ms=TIMEOUT_MS)
    await stage.kafka.ask(body, 0)


async def _moving(stage: Stage) -> dict[str, Any]:
    found = (await stage.kafka.ask(reassignments.ListPartitionReassignmentsRequest())).topics
    return {topic.name: topic.partitions[0] for topic in found}


async def _over(stage: Stage, topic: str) -> None:
    while topic in await _moving(stage):
        await stage.pause()


async def move_there_and_cancel(stage: Stage) -> None:
    await _move(stage, "two", [AWAY, PRESENT[0]])
    if stage.kind.serves:
        await _over(stage, "two")
    else:
        assert (await _moving(stage))["two"].adding_replicas == [AWAY]
    await _move(stage, "two", list(PRESENT) if stage.kind.serves else None)
    await _over(stage, "two")


async def move_away(stage: Stage) -> None:
    await _move(stage, "kafka-left", list(PRESENT))
    await _over(stage, "kafka-left")
    assert set((await stage.kafka.topic("kafka-left")).partitions[0].isr_nodes) == set(PRESENT)


async def _alter(stage: Stage, kind: int, name: str, key: str, value: str, node: int = 0) -> None:
    change = configs.IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=SET, value=value)
    resource = configs.IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[change]
    )
    await stage.kafka.ask(configs.IncrementalAlterConfigsRequest(resources=[resource]), node=node)


async def _described(stage: Stage, kind: int, name: str, key: str, node: int = 0) -> str | None:
    resource = configs.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[key])
    answer = await stage.kafka.ask(configs.DescribeConfigsRequest(resources=[resource]), node=node)
    return next((one.value for one in answer.results[0].configs), None)


async def _altered(stage: Stage, kind: int, name: str, key: str, value: str) -> None:
    await _alter(stage, kind, name, key, value)
    while await _described(stage, kind, name, key) != value:
        await stage.pause()


async def alter_topic(stage: Stage) -> None:
    await _altered(stage, TOPIC, "before", "retention.ms", "1000001")


async def alter_all_brokers(stage: Stage) -> None:
    await _altered(stage, BROKER, "", "log.retention.ms", "2000001")


async def alter_present_broker(stage: Stage) -> None:
    await _altered(stage, BROKER, "0", "log.retention.ms", "3000001")


async def alter_absent_broker(stage: Stage) -> None:
    await _alter(stage, BROKER, str(AWAY), "log.retention.ms", "4000001")


async def set_user(stage: Stage) -> None:
    made = security.ScramCredentialUpsertion(
        name="k", mechanism=1, iterations=4096, salt=b"salt" * 4, salted_password=b"p" * 32
    )
    await stage.kafka.ask(security.AlterUserScramCredentialsRequest(deletions=[], upsertions=[made]))
    asked = security.DescribeUserScramCredentialsRequest(users=None)
    while "k" not in {one.user for one in (await stage.kafka.ask(asked)).results}:
        await stage.pause()


async def set_acl(stage: Stage) -> None:
    acl = security.AclCreation(
        resource_type=TOPIC, resource_name="before", principal="User:k", host="*", operation=3, permission_type=3
    )
    await stage.kafka.ask(security.CreateAclsRequest(creations=[acl]))
    ours = {"principal_filter": "User:k", "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    asked = security.DescribeAclsRequest(resource_type_filter=1, **ours)
    while not (await stage.kafka.ask(asked)).resources:
        await stage.pause()
    gone = await stage.kafka.ask(
        security.DeleteAclsRequest(filters=[security.DeleteAclsFilter(resource_type_filter=1, **ours)])
    )
    assert len(gone.filter_results[0].matching_acls) == 1


async def set_quota(stage: Stage) -> None:
    entity = [configs.EntityData(entity_type="user", entity_name="k")]
    change = configs.OpData(key="producer_byte_rate", value=1e6, remove=False)
    entry = configs.AlterClientQuotasRequestEntryData(entity=entity, ops=[change])
    await stage.kafka.ask(configs.AlterClientQuotasRequest(entries=[entry]))
    asked = configs.DescribeClientQuotasRequest(
        components=[configs.ComponentData(entity_type="user", match_type=0, match="k")], strict=True
    )
    while not (await stage.kafka.ask(asked)).entries:
        await stage.pause()


async def raise_level(stage: Stage) -> None:
    update = FeatureUpdateKey(feature="metadata.version", max_version_level=2)
    await stage.kafka.ask(UpdateFeaturesRequest(timeout_ms=5_000, feature_updates=[update]))


async def delete_records(stage: Stage) -> None:
    partition = offsets.DeleteRecordsPartition(partition_index=0, offset=1)
    topic = offsets.DeleteRecordsTopic(name="kafka-trimmed", partitions=[partition])
    body = offsets.DeleteRecordsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
    answer = await stage.kafka.ask(body, node=await stage.kafka.leader("kafka-trimmed"))
    assert answer.topics[0].partitions[0].low_watermark == 1


async def delete_group(stage: Stage) -> None:
    await _of_group(stage, classic.DeleteGroupsRequest(groups_names=["kafka-group"]), 2)


async def delete_topic(stage: Stage) -> None:
    await stage.kafka.ask(topics.DeleteTopicsRequest(topic_names=["kafka-deleted"], timeout_ms=TIMEOUT_MS), 5)


async def look(stage: Stage) -> None:
    asked = DescribeQuorumRequestTopicData(
        topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
    )
    for node in PRESENT:
        assert {b.broker_id for b in (await stage.kafka.ask(DescribeClusterRequest(), node=node)).brokers} >= set(
            PRESENT
        )
        await stage.kafka.ask(DescribeQuorumRequest(topics=[asked]), node=node)


async def log_dirs(stage: Stage) -> None:
    for node in PRESENT:
        assert (await stage.kafka.ask(DescribeLogDirsRequest(topics=None), node=node)).results


async def move_log_dir(stage: Stage) -> None:
    """To the last log dir of a node, which may have no other."""
    node, partition = PRESENT[1], TopicPartition("before", 0)
    log_dir = stage.cluster.config(node).log_dirs[-1]
    topic = AlterReplicaLogDirTopic(name=partition.topic, partitions=[partition.partition])
    body = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=log_dir, topics=[topic])])
    await stage.kafka.ask(body, node=node)
    while stage.log_dir_of(node, partition) != log_dir:
        await stage.pause()


async def unregister(stage: Stage) -> None:
    await stage.kafka.ask(UnregisterBrokerRequest(broker_id=AWAY))
