"""Configs and deletions on real nodes: felt at once, durable on every replica, and bad requests told exactly why."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import grpc.aio
import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.errors import (
    ERRORS,
    ApiError,
    InvalidConfigError,
    InvalidRecordError,
    InvalidRequestError,
    InvalidTopicError,
    MessageTooLargeError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from penstock.pb import broker_pb2 as pb
from penstock.pb import configs_pb2
from penstock.record.builder import build_batch
from penstock.testing import Cluster
from tests.support import raw_broker
from tests.support.grpc_stub import Stub
from tests.support.waiting import wait_until

NODES = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=NODES) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap) as made:
        yield made


def make(admin: Admin, name: str, records: int = 0, **config: object) -> TopicPartition:
    """A topic of one partition on every node, with records of one batch each."""
    admin.create_topic(name, 1, NODES, config={key.replace("_", "."): value for key, value in config.items()})
    tp = TopicPartition(name, 0)
    if records:
        data = b"".join(build_batch([b"v%d" % number], timestamps_ms=now_ms()) for number in range(records))
        (answer,) = raw_broker.produce(leader_address(admin, tp), raw_broker.records(name, 0, data))
        assert raw_broker.codes([answer]) == [0]
    return tp


def now_ms() -> int:
    return int(time.time() * 1000)


def leader_of(admin: Admin, tp: TopicPartition) -> int:
    return admin.describe_topic(tp.topic).partitions[tp.partition].leader_id


def leader_address(admin: Admin, tp: TopicPartition) -> str:
    (node,) = [b for b in admin.describe_cluster().brokers if b.node_id == leader_of(admin, tp)]
    return f"{node.host}:{node.port}"


def earliest(admin: Admin, tp: TopicPartition) -> int:
    return admin.list_offsets({tp: "earliest"})[tp].offset


def unary(address: str, method: str, request: Any) -> Any:
    """One raw call; the typed error of the whole where the node refuses it."""

    async def main() -> Any:
        async with grpc.aio.insecure_channel(address) as channel:
            return await getattr(Stub(channel, "Broker"), method)(request, timeout=30)

    try:
        return asyncio.run(main())
    except grpc.aio.AioRpcError as error:
        codes = [int(value) for key, value in error.trailing_metadata() or () if key == "penstock-error-code"]
        assert codes, error
        raise ERRORS[codes[0]](error.details() or "") from None


# -- configs -----------------------------------------------------------------------------------------------------------


def test_a_smaller_limit_is_felt_by_the_next_record_and_gone_with_the_next_change(admin: Admin) -> None:
    make(admin, "limited")
    with Producer(admin_bootstrap(admin), acks="all") as producer:
        producer.send("limited", value=b"x" * 5_000).result(60)
        admin.alter_topic_config("limited", {"max.message.bytes": 1_000})
        with pytest.raises(MessageTooLargeError, match=r"max\.message\.bytes = 1000"):
            producer.send("limited", value=b"x" * 5_000).result(60)
        admin.alter_topic_config("limited", {"max.message.bytes": None})
        producer.send("limited", value=b"x" * 5_000).result(60)


def admin_bootstrap(admin: Admin) -> str:
    return ",".join(f"{broker.host}:{broker.port}" for broker in admin.describe_cluster().brokers)


def test_a_smaller_segment_is_begun_at_once_on_every_replica(cluster: Cluster, admin: Admin) -> None:
    make(admin, "rolled", records=20)

    def segments(node: int) -> int:
        return len(list((cluster.directory(node) / "rolled-0").glob("*.log")))

    assert [segments(node) for node in range(NODES)] == [1, 1, 1]
    admin.alter_topic_config("rolled", {"segment.bytes": 1024})
    with Producer(cluster.bootstrap, acks="all", linger_ms=0) as producer:
        for _ in range(12):
            producer.send("rolled", value=b"x" * 200).result(60)
    wait_until(lambda: min(segments(node) for node in range(NODES)) > 1)


def test_a_change_is_described_by_every_node_and_survives_them_all(cluster: Cluster, admin: Admin) -> None:
    make(admin, "described", retention_ms=5_000)
    admin.alter_topic_config("described", {"segment.ms": 60_000}, append={"cleanup.policy": "compact"})
    for node in range(NODES):
        with Admin(cluster.endpoint(node)) as asked:
            found = asked.describe_topic_config("described")
        own = {name: entry.value for name, entry in found.items() if entry.source == "DYNAMIC_TOPIC_CONFIG"}
        assert own == {"retention.ms": "5000", "segment.ms": "60000", "cleanup.policy": "delete,compact"}
        assert found["max.message.bytes"].is_default and found["min.insync.replicas"].source == "STATIC_BROKER_CONFIG"
        assert admin.describe_broker_config(node)["node.id"].value == str(node)


BAD_CHANGES: dict[str, tuple[dict[str, Any], type[ApiError], str]] = {
    "unknown key": ({"retention.mss": 1}, InvalidConfigError, r"did you mean retention\.ms"),
    "a broker's key": ({"log.retention.ms": 1}, InvalidConfigError, r"for a topic it is retention\.ms"),
    "unknown key to its default": ({"retention.mss": None}, InvalidConfigError, r"did you mean retention\.ms"),
    "ill-typed": ({"retention.ms": "soon"}, InvalidConfigError, r"retention\.ms"),
    "out of range": ({"segment.bytes": 1}, InvalidConfigError, r"segment\.bytes"),
    "not of the list": ({"cleanup.policy": "shred"}, InvalidConfigError, r"cleanup\.policy"),
    "more in sync than there are": ({"min.insync.replicas": NODES + 1}, InvalidConfigError, "replication factor"),
}


@pytest.mark.parametrize("row", BAD_CHANGES)
def test_a_bad_change_is_refused_and_spoils_the_good_one_beside_it(admin: Admin, row: str) -> None:
    changes, error, words = BAD_CHANGES[row]
    if "careful" not in admin.list_topics():
        make(admin, "careful", retention_ms=7)
    with pytest.raises(error, match=words):
        admin.alter_topic_config("careful", {"segment.ms": 9, **changes})
    assert admin.describe_topic("careful").config == {"retention.ms": "7"}


def test_a_change_of_what_does_not_exist_says_so_at_once(admin: Admin) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="'nope'"):
        admin.alter_topic_config("nope", {"retention.ms": 1})
    with pytest.raises(UnknownTopicOrPartitionError, match="'nope'"):
        admin.describe_topic_config("nope")


def test_bad_requests_about_configs_have_typed_errors(cluster: Cluster, admin: Admin) -> None:
    make(admin, "raw")
    address = cluster.endpoint(1)
    with pytest.raises(InvalidRequestError, match="names no resource"):
        unary(address, "AlterConfigs", configs_pb2.AlterConfigsRequest())
    with pytest.raises(InvalidRequestError, match="timeout_ms is -1"):
        unary(address, "AlterConfigs", configs_pb2.AlterConfigsRequest(timeout_ms=-1))
    with pytest.raises(InvalidRequestError, match="names 0 resources"):
        unary(address, "DescribeConfigs", configs_pb2.DescribeConfigsRequest())
    request = configs_pb2.AlterConfigsRequest()
    for resource_type, name in (("topic", "raw"), ("topic", "raw"), ("broker", "1"), ("", ""), ("topic", "nope")):
        request.resources.add(resource_type=resource_type, resource_name=name).changes.add(key="segment.ms", value="1")
    answer = unary(address, "AlterConfigs", request)
    assert [result.error.code for result in answer.resources] == [42, 42, 40, 42, 3]
    assert admin.describe_topic("raw").config == {}


# -- deletion ----------------------------------------------------------------------------------------------------------


def test_deleted_records_are_gone_on_every_replica(cluster: Cluster, admin: Admin) -> None:
    tp = make(admin, "deleted", records=30)
    assert admin.delete_records({tp: 12}) == {tp: 12}
    for node in range(NODES):
        assert "deleted 0 12" in (cluster.directory(node) / "log-start-offset-checkpoint").read_text()
    with Consumer(cluster.bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 11)
        with pytest.raises(OffsetOutOfRangeError) as caught:
            for _ in range(100):
                consumer.poll(timeout_ms=1_000)
        assert (caught.value.log_start_offset, caught.value.log_end_offset) == (12, 30)
        assert consumer.beginning_offsets([tp]) == {tp: 12}
    assert admin.delete_records({tp: -1}) == {tp: 30}


def test_bad_deletions_have_typed_errors_and_delete_nothing(cluster: Cluster, admin: Admin) -> None:
    tp, compacted = make(admin, "kept", records=5), make(admin, "compacted", cleanup_policy="compact")
    with pytest.raises(ValueError, match="offset=-2 must be from -1"):
        admin.delete_records({tp: -2})
    for offset in (6, 2**62):
        with pytest.raises(OffsetOutOfRangeError) as caught:
            admin.delete_records({tp: offset})
        assert (caught.value.log_start_offset, caught.value.log_end_offset) == (0, 5)
    with pytest.raises(PolicyViolationError, match=r"cleanup\.policy=compact"):
        admin.delete_records({compacted: 0})
    for unknown in (TopicPartition("kept", 1), TopicPartition("kept", -1)):
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.delete_records({unknown: 0})
    with pytest.raises(InvalidTopicError):
        admin.delete_records({TopicPartition("", 0): 0})
    assert earliest(admin, tp) == 0


def test_bad_deletion_requests_have_typed_errors(cluster: Cluster, admin: Admin) -> None:
    tp = make(admin, "raw-deletion", records=5)
    address, leader = leader_address(admin, tp), leader_of(admin, tp)
    topic_id = admin.describe_topic(tp.topic).topic_id
    with pytest.raises(InvalidRequestError, match="names 0 partitions"):
        unary(address, "DeleteRecords", pb.DeleteRecordsRequest(timeout_ms=1_000))
    with pytest.raises(InvalidRequestError, match="timeout_ms is -5"):
        unary(address, "DeleteRecords", deletion("raw-deletion", topic_id, 0, timeout_ms=-5))
    many = pb.DeleteRecordsRequest(timeout_ms=1_000)
    for number in range(10_001):
        many.partitions.add(topic="raw-deletion", topic_id=topic_id, partition=number, before_offset=0)
    with pytest.raises(InvalidRequestError, match="partitions has 10001 elements"):
        unary(address, "DeleteRecords", many)
    del many.partitions[10_000:]
    answer = unary(address, "DeleteRecords", many)
    assert [result.error.code for result in answer.partitions] == [0] + [UnknownTopicIdError.code] * 9_999
    (result,) = unary(address, "DeleteRecords", deletion("__cluster_metadata", topic_id, 0)).partitions
    assert result.error.code == InvalidTopicError.code
    (result,) = unary(
        cluster.endpoint((leader + 1) % NODES), "DeleteRecords", deletion("raw-deletion", topic_id, 1)
    ).partitions
    assert (result.error.code, result.error.leader.leader_id) == (NotLeaderOrFollowerError.code, leader)
    assert earliest(admin, tp) == 0


def deletion(topic: str, topic_id: str, before_offset: int, timeout_ms: int = 5_000) -> pb.DeleteRecordsRequest:
    request = pb.DeleteRecordsRequest(timeout_ms=timeout_ms)
    request.partitions.add(topic=topic, topic_id=topic_id, partition=0, before_offset=before_offset)
    return request


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_record_without_a_key_is_refused_by_a_topic_from_the_moment_it_is_compacted(
    cluster: Cluster, admin: Admin
) -> None:
    tp = make(admin, "keyed")
    for compression in ("none", "zstd"):
        with Producer(cluster.bootstrap, acks="all", compression_type=compression) as producer:
            producer.send("keyed", value=b"no key yet").result(60)
            admin.alter_topic_config("keyed", {"cleanup.policy": "compact"})
            with pytest.raises(InvalidRecordError, match="has no key"):
                producer.send("keyed", value=b"no key").result(60)
            producer.send("keyed", key=b"k", value=b"v").result(60)
            admin.alter_topic_config("keyed", {"cleanup.policy": None})
    assert admin.list_offsets([tp])[tp].offset == 4


# -- deletion and death; last, because the nodes need a while to come back ---------------------------------------------


def test_a_follower_that_was_away_learns_of_a_deletion_and_no_death_brings_the_records_back(
    cluster: Cluster, admin: Admin
) -> None:
    tp = make(admin, "away", records=3)
    away = (leader_of(admin, tp) + 1) % NODES
    cluster.kill(away)
    with Producer(cluster.bootstrap, acks="all") as producer:
        producer.send_many("away", [b"%d" % number for number in range(100)]).result(60)
    assert admin.delete_records({tp: 50}) == {tp: 50}, "who is not in service is not waited for"
    cluster.start(away)  # its log ends below 50, which is in the middle of a batch
    wait_until(lambda: len(admin.describe_topic("away").partitions[0].isr) == NODES)
    for node in range(NODES):
        cluster.kill(node)
    for node in range(NODES):
        cluster.start(node, wait=False)
    cluster.wait_ready()
    wait_until(lambda: leader_of(admin, tp) >= 0)
    assert earliest(admin, tp) == 50
    assert admin.list_offsets([tp])[tp].offset == 103
