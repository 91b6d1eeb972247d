"""Three real nodes: a client that creates topics by one node, and uses each at its leader at once, meets no error of a
leader that does not know the topic yet. It tries nothing twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from broker.kafka.schemas.fetch import FetchRequest, FetchRequestFetchPartition, FetchRequestFetchTopic, FetchResponse
from broker.kafka.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from broker.kafka.schemas.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker.kafka.schemas.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from broker.kafka.schemas.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.testing import Cluster
from penstock.testing.ports import free_ports
from tests.support.kafka_socket import KafkaSocket
from tests.support.partitions import batch

TOPICS, SIDE_BY_SIDE = 60, 6
EARLIEST = -2


def listed(far: KafkaSocket, topic: str) -> int:
    wanted = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)])
    answer = far.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), 7, ListOffsetsResponse)
    return answer.topics[0].partitions[0].error_code


def produced(far: KafkaSocket, topic: str) -> int:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=memoryview(batch()))])
    answer = far.ask(ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[data]), 9, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def fetched(far: KafkaSocket, topic: str) -> int:
    wanted = FetchRequestFetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    topics = [FetchRequestFetchTopic(topic=topic, partitions=[wanted])]
    answer = far.ask(FetchRequest(max_wait_ms=2_000, min_bytes=0, topics=topics), 12, FetchResponse)
    return answer.responses[0].partitions[0].error_code


def ended(far: KafkaSocket, topic: str) -> int:
    wanted = OffsetForLeaderTopic(topic=topic, partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])
    answer = far.ask(OffsetForLeaderEpochRequest(topics=[wanted]), 4, OffsetForLeaderEpochResponse)
    return answer.topics[0].partitions[0].error_code


def deleted(far: KafkaSocket, topic: str) -> int:
    wanted = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])
    answer = far.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=10_000), 2, DeleteRecordsResponse)
    return answer.topics[0].partitions[0].error_code


USES = (listed, produced, fetched, ended, deleted)


def used_at_once(address: str, number: int) -> tuple[str, int]:
    """Creates a topic by that node, and asks the leader one thing."""
    topic, use = f"topic-{number}", USES[number % len(USES)]
    with KafkaSocket(address) as near:
        wanted = CreateTopicsRequest(topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=3)])
        (made,) = near.ask(wanted, 5, CreateTopicsResponse).topics
        assert made.error_code == 0, made
        answer = near.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9, MetadataResponse)
    (partition,) = answer.topics[0].partitions
    assert partition.error_code == 0, "the node that made it tells of its leader"
    leader = next(broker for broker in answer.brokers if broker.node_id == partition.leader_id)
    with KafkaSocket(f"{leader.host}:{leader.port}") as far:
        return use.__name__, use(far, topic)


def test_a_topic_is_used_at_its_leader_as_soon_as_another_node_has_told_of_it() -> None:
    with Cluster(3, kafka_ports=[ports.kafka for ports in free_ports(3)]) as cluster:
        address = cluster.kafka_bootstrap.split(",")[0]
        with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
            answers = list(threads.map(lambda number: used_at_once(address, number), range(TOPICS)))
    assert {use for use, _ in answers} == {use.__name__ for use in USES}
    assert [answer for answer in answers if answer[1] != 0] == []
