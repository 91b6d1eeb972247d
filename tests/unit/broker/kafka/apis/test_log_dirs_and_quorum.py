"""Promises of what a broker tells of its log dirs and of the quorum in Kafka's protocol, version by version."""

from __future__ import annotations

from typing import Any

import pytest

from broker.kafka.apis.admin.replica_log_dirs import REPLICAS_MAX
from broker.kafka.schemas.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from broker.kafka.schemas.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from penstock.errors import InvalidRequestError, KafkaStorageError, LogDirNotFoundError, NotControllerError
from penstock.messages import log_dirs, quorum
from penstock.types import Endpoint, ListenerEndpoint, TopicPartition
from tests.support.voters import disk_of, endpoints_of, voters_at
from tests.unit.broker.kafka.apis.admin_node import WALL_MS, AdminNode

DESCRIBE_DIRS, ALTER_DIRS, QUORUM = 35, 34, 55


def refuses(body: object) -> None:
    raise NotControllerError("no controller answers")


# -- log dirs ----------------------------------------------------------------------------------------------------------


def replica(partition: int, size: int, **fields: Any) -> log_dirs.LogDirReplica:
    return log_dirs.LogDirReplica(partition, size, 0, 9, **fields)


TWO_DIRS = log_dirs.DescribeLogDirsResponse(
    1,
    (
        log_dirs.LogDir("/a", "id-a", None, 100, 60, (
            log_dirs.LogDirTopic("t", "id", (replica(0, 5), replica(1, 6))),
            log_dirs.LogDirTopic("u", "id", (replica(0, 7),)),
            log_dirs.LogDirTopic("t", "id", (replica(2, 3, is_future=True, offset_lag=4),)),
        )),
        log_dirs.LogDir("/b", "", KafkaStorageError("it failed"), -1, -1, (), is_cordoned=True),
    ),
)  # fmt: skip
Found = list[tuple[str, int, int, bool]]


@pytest.mark.parametrize("version", range(1, 6))
def test_log_dirs_are_described(version: int) -> None:
    node = AdminNode()
    node.answers["DescribeLogDirs"] = lambda body: TWO_DIRS

    def found(*topics: tuple[str, list[int]], everything: bool = False) -> Found:
        named = [DescribableLogDirTopic(topic=topic, partitions=numbers) for topic, numbers in topics]
        answer = node.call(DESCRIBE_DIRS, DescribeLogDirsRequest(topics=None if everything else named), version)
        first, failed = answer.results
        assert (answer.error_code, first.error_code, first.log_dir) == (0, 0, "/a")
        assert (first.total_bytes, first.usable_bytes) == ((100, 60) if version >= 4 else (-1, -1))
        assert (failed.error_code, failed.log_dir, failed.topics) == (56, "/b", [])
        assert (first.is_cordoned, failed.is_cordoned) == (False, version >= 5)
        assert len({topic.name for topic in first.topics}) == len(first.topics)
        rows = [(topic.name, row) for topic in first.topics for row in topic.partitions]
        return [(name, row.partition_index, row.partition_size, row.is_future_key) for name, row in rows]

    every = [("t", 0, 5, False), ("t", 1, 6, False), ("t", 2, 3, True), ("u", 0, 7, False)]
    assert found(everything=True) == every and node.asks[-1].body.topics == ()
    assert found(("t", [1, 2])) == every[1:3] and node.asks[-1].body.topics == ("t",)
    assert found() == found(("t", [])) == []


def test_a_description_that_fails_says_so_where_it_can() -> None:
    node = AdminNode()
    node.answers["DescribeLogDirs"] = refuses
    for version in range(1, 5):
        answer = node.call(DESCRIBE_DIRS, DescribeLogDirsRequest(topics=None), version)
        assert (answer.error_code, answer.results) == (41 if version >= 3 else 0, [])


def placing(*replicas: tuple[str, str, list[int]]) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=numbers)])
            for path, topic, numbers in replicas
        ]
    )


def placed(answer: Any) -> dict[tuple[str, int], int]:
    rows = [(t.topic_name, p.partition_index, p.error_code) for t in answer.results for p in t.partitions]
    assert len({row[:2] for row in rows}) == len(rows)
    return {(topic, number): code for topic, number, code in rows}


def placing_node() -> AdminNode:
    """/a is a log dir of it."""
    node = AdminNode()

    def alter(body: log_dirs.AlterReplicaLogDirsRequest) -> log_dirs.AlterReplicaLogDirsResponse:
        named = [
            (TopicPartition(topic, number), None if found.path == "/a" else LogDirNotFoundError(found.path))
            for found in body.dirs
            for topic, numbers in found.topics
            for number in numbers
        ]
        return log_dirs.AlterReplicaLogDirsResponse(1, tuple(log_dirs.AlterReplicaLogDirResult(*row) for row in named))

    node.answers["AlterReplicaLogDirs"] = alter
    return node


@pytest.mark.parametrize("version", [1, 2])
def test_replicas_are_moved_between_log_dirs(version: int) -> None:
    answer = placing_node().call(ALTER_DIRS, placing(("/a", "t", [0, 1]), ("/x", "t", [2]), ("/a", "u", [0])), version)
    assert placed(answer) == {("t", 0): 0, ("t", 1): 0, ("t", 2): 57, ("u", 0): 0}


def test_a_replica_that_is_named_twice_is_moved_nowhere() -> None:
    node = placing_node()
    answer = node.call(ALTER_DIRS, placing(("/a", "t", [0, 1]), ("/x", "t", [0]), ("/a", "u", [3, 3])), 2)
    assert placed(answer) == {("t", 0): 42, ("t", 1): 0, ("u", 3): 42}
    (ask,) = node.asks
    assert [(found.path, found.topics) for found in ask.body.dirs] == [("/a", (("t", (1,)),))]


def test_many_replicas_are_moved_in_several_requests_and_each_has_its_own_outcome() -> None:
    node = placing_node()
    alter, count = node.answers["AlterReplicaLogDirs"], REPLICAS_MAX + 5

    def refuses_the_second(body: Any) -> Any:
        if len(node.asks) == 2:
            raise InvalidRequestError("too many")
        return alter(body)

    node.answers["AlterReplicaLogDirs"] = refuses_the_second
    codes = placed(node.call(ALTER_DIRS, placing(("/a", "t", list(range(count)))), 2))
    assert codes == {("t", number): 0 if number < REPLICAS_MAX else 42 for number in range(count)}


# -- the quorum --------------------------------------------------------------------------------------------------------


def describing(topic: str = "__cluster_metadata", partition: int = 0) -> DescribeQuorumRequest:
    partitions = [DescribeQuorumRequestPartitionData(partition_index=partition)]
    return DescribeQuorumRequest(topics=[DescribeQuorumRequestTopicData(topic_name=topic, partitions=partitions)])


def quorum_of(only_own_view: bool = False, leader_id: int = 1) -> quorum.QuorumInfo:
    voters = (
        quorum.QuorumReplicaInfo(1, 90, 0, 1),
        quorum.QuorumReplicaInfo(2, 80, 30, 400),
        quorum.QuorumReplicaInfo(3, -1, -1),
    )
    return quorum.QuorumInfo(leader_id, 5, 88, voters, (quorum.QuorumReplicaInfo(4, 90, 20, 20),), only_own_view)


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_is_described_as_kafkas_metadata_topic(version: int) -> None:
    node = AdminNode()
    node.answers["DescribeQuorum"] = lambda body: quorum_of()
    answer = node.call(QUORUM, describing(), version)
    (partition,) = answer.topics[0].partitions
    assert (answer.error_code, partition.error_code) == (0, 0)
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 5, 88)
    at = (lambda ago_ms: WALL_MS - ago_ms) if version >= 1 else (lambda ago_ms: -1)
    replicas = [*partition.current_voters, *partition.observers]
    replicas_of_answer = [
        (r.replica_id, r.log_end_offset, r.last_fetch_timestamp, r.last_caught_up_timestamp) for r in replicas
    ]
    assert replicas_of_answer == [
        (1, 90, at(0), at(1)),
        (2, 80, at(30), at(400)),
        (3, -1, -1, -1),
        (4, 90, at(20), at(20)),
    ]
    nodes = [(n.node_id, [(at.name, at.host, at.port) for at in n.listeners]) for n in answer.nodes]
    assert nodes == ([(1, [("CONTROLLER", "127.0.0.1", 9193)])] if version >= 2 else [])


def test_the_voters_are_told_with_the_addresses_that_they_have_now() -> None:
    node = AdminNode()
    node.answers["DescribeQuorum"] = lambda body: quorum_of()
    node.voters = voters_at(1, 3)
    nodes = node.call(QUORUM, describing(), 2).nodes
    assert [(found.node_id, found.listeners[0].host) for found in nodes] == [(1, "host-1"), (3, "host-3")]


@pytest.mark.parametrize("version", range(3))
def test_the_disk_of_each_replica_is_told_and_every_address_of_a_voter(version: int) -> None:
    endpoints = (*endpoints_of(2), ListenerEndpoint("CONTROLLER_2", Endpoint("other", 1)))
    voter = quorum.QuorumReplicaInfo(2, 9, 0, 1, disk_of(2), endpoints)
    observer = quorum.QuorumReplicaInfo(4, 9, 0, 1, disk_of(4))
    node = AdminNode()
    node.answers["DescribeQuorum"] = lambda body: quorum.QuorumInfo(2, 5, 9, (voter,), (observer,), is_dynamic=True)
    answer = node.call(QUORUM, describing(), version)
    (partition,) = answer.topics[0].partitions
    replicas_of_answer = [one.replica_directory_id for one in (*partition.current_voters, *partition.observers)]
    assert replicas_of_answer == ([disk_of(2), disk_of(4)] if version >= 2 else ["", ""])
    nodes = [(n.node_id, [(at.name, at.host, at.port) for at in n.listeners]) for n in answer.nodes]
    listeners = [("CONTROLLER", "host-2", 9193), ("CONTROLLER_2", "other", 1)]
    assert nodes == ([(2, listeners)] if version >= 2 else [])


@pytest.mark.parametrize("view", [quorum_of(only_own_view=True), quorum_of(leader_id=-1)])
def test_a_quorum_without_a_leader_is_asked_for_again(view: quorum.QuorumInfo) -> None:
    node = AdminNode()
    node.answers["DescribeQuorum"] = lambda body: view
    (partition,) = node.call(QUORUM, describing(), 2).topics[0].partitions
    assert partition.error_code == 6 and partition.error_message and len(partition.current_voters) == 3


def test_no_other_partition_has_a_quorum() -> None:
    node = AdminNode()
    node.answers["DescribeQuorum"] = lambda body: quorum_of()
    for body in (describing("t"), describing(partition=1)):
        (partition,) = node.call(QUORUM, body, 2).topics[0].partitions
        assert (partition.error_code, partition.current_voters) == (3, [])
    assert node.call(QUORUM, DescribeQuorumRequest(), 2).error_code == 42
