"""Promises of elections, reassignments, log dirs and the quorum in Kafka's protocol, version by version."""

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
from broker.kafka.schemas.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.errors import InvalidRequestError, KafkaStorageError, LogDirNotFoundError, NotControllerError
from penstock.messages import log_dirs, quorum
from penstock.messages.topics import NewTopic, ReplicaAssignment
from penstock.types import TopicPartition
from tests.unit.broker.kafka.apis.admin_node import WALL_MS, AdminNode

ELECT, REASSIGN, LIST, DESCRIBE_DIRS, ALTER_DIRS, QUORUM = 43, 45, 46, 35, 34, 55
PREFERRED, UNCLEAN = 0, 1


def refuses(body: object) -> None:
    raise NotControllerError("no controller answers")


# -- ElectLeaders ------------------------------------------------------------------------------------------------------


def electing(*topics: tuple[str, list[int]], everything: bool = False, kind: int = PREFERRED) -> ElectLeadersRequest:
    named = [ElectLeadersRequestTopicPartitions(topic=topic, partitions=numbers) for topic, numbers in topics]
    return ElectLeadersRequest(election_type=kind, topic_partitions=None if everything else named)


def elected(answer: Any) -> list[tuple[str, int, int]]:
    rows = [(topic.topic, row) for topic in answer.replica_election_results for row in topic.partition_result]
    assert all(bool(row.error_message) == bool(row.error_code) for _, row in rows)
    return [(topic, row.partition_id, row.error_code) for topic, row in rows]


def led_by_another() -> tuple[AdminNode, int]:
    """Broker 2 should lead this partition of t, and does not."""
    node = AdminNode(3)
    node.cluster.create("t", 3, 3)
    number = next(n for n in range(3) if node.cluster.partition("t", n).replicas[0] == 2)
    node.cluster.let_die(2)
    node.cluster.come_back(2)
    node.cluster.heartbeat(2)
    state = node.cluster.partition("t", number)
    node.cluster.alter(state.leader_id, node.cluster.proposal("t", state.replicas, number))
    assert node.cluster.partition("t", number).leader_id != 2
    return node, number


@pytest.mark.parametrize("version", range(3))
def test_the_preferred_leader_is_elected_and_each_partition_is_told(version: int) -> None:
    node, number = led_by_another()
    asked = electing(("t", [number, 9]), ("gone", [0]), ("t", []))
    answer = node.call(ELECT, asked, version)
    assert elected(answer) == [("t", number, 0), ("t", 9, 3), ("gone", 0, 3)] and answer.error_code == 0
    assert node.cluster.partition("t", number).leader_id == 2
    assert elected(node.call(ELECT, electing(("t", [number])), version)) == [("t", number, 84)]


def test_no_list_is_every_partition_and_leaves_out_those_that_need_no_election() -> None:
    node, number = led_by_another()
    assert elected(node.call(ELECT, electing(everything=True), 2)) == [("t", number, 0)]
    assert elected(node.call(ELECT, electing(everything=True), 2)) == []


def test_an_empty_list_elects_nobody() -> None:
    node, _ = led_by_another()
    for body in (electing(), electing(("t", []))):
        assert elected(node.call(ELECT, body, 2)) == []
    assert not node.asks


def test_an_unclean_leader_is_elected_only_where_there_is_none() -> None:
    node = AdminNode(2)
    node.cluster.create("t", 1, 2)
    assert elected(node.call(ELECT, electing(("t", [0]), kind=UNCLEAN), 2)) == [("t", 0, 84)]
    node.cluster.let_die(2)
    assert node.cluster.partition("t").isr == (1,)
    node.cluster.let_die(1, 2)
    node.cluster.come_back(2)
    node.cluster.heartbeat(2)
    assert node.cluster.partition("t").leader_id == -1
    assert elected(node.call(ELECT, electing(("t", [0]), kind=UNCLEAN), 1)) == [("t", 0, 0)]
    assert node.cluster.partition("t").leader_id == 2


def test_an_election_that_fails_as_a_whole_is_told_of_each_partition() -> None:
    node, _ = led_by_another()
    answer = node.call(ELECT, electing(("t", [0]), kind=7), 1)
    assert (answer.error_code, elected(answer)) == (42, [("t", 0, 42)])
    node.answers["ElectLeaders"] = refuses
    for version in range(3):
        answer = node.call(ELECT, electing(("t", [0, 1])), version)
        assert answer.error_code == (41 if version else 0)
        assert elected(answer) == [("t", 0, 41), ("t", 1, 41)]


# -- reassignments -----------------------------------------------------------------------------------------------------


def moving(*partitions: tuple[str, int, list[int] | None], **fields: Any) -> AlterPartitionReassignmentsRequest:
    topics = [
        ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=number, replicas=replicas)])
        for topic, number, replicas in partitions
    ]
    return AlterPartitionReassignmentsRequest(topics=topics, **fields)


def moved(answer: Any) -> list[tuple[str, int, int]]:
    rows = [(topic.name, row) for topic in answer.responses for row in topic.partitions]
    assert all(bool(row.error_message) == bool(row.error_code) for _, row in rows)
    return [(topic, row.partition_index, row.error_code) for topic, row in rows]


def listing(*topics: tuple[str, list[int]]) -> ListPartitionReassignmentsRequest:
    named = [ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers) for name, numbers in topics]
    return ListPartitionReassignmentsRequest(topics=named or None)


def under_way(
    node: AdminNode, *topics: tuple[str, list[int]]
) -> list[tuple[str, int, list[int], list[int], list[int]]]:
    answer = node.call(LIST, listing(*topics), 0)
    return [
        (topic.name, p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
        for topic in answer.topics
        for p in topic.partitions
    ]


@pytest.mark.parametrize("version", range(2))
def test_a_reassignment_begins_is_listed_and_is_cancelled(version: int) -> None:
    node = AdminNode(3)
    node.cluster.create_all(*by_hand("t", (1, 2), (1, 2)))
    assert under_way(node) == []
    answer = node.call(REASSIGN, moving(("t", 0, [3, 2]), ("gone", 0, [1])), version)
    assert (answer.error_code, moved(answer)) == (0, [("t", 0, 0), ("gone", 0, 3)])
    ongoing = [("t", 0, [3, 2, 1], [3], [1])]
    assert under_way(node) == under_way(node, ("t", [0, 1]), ("gone", [0])) == ongoing
    assert under_way(node, ("t", [1])) == under_way(node, ("gone", [0])) == []
    assert moved(node.call(REASSIGN, moving(("t", 0, None), ("t", 1, None)), version)) == [("t", 0, 0), ("t", 1, 85)]
    assert under_way(node) == [] and node.cluster.partition("t").replicas == (1, 2)


def test_a_change_of_the_number_of_replicas_can_be_forbidden() -> None:
    node = AdminNode(3)
    node.cluster.create_all(*by_hand("t", (1, 2), (1, 2)))
    body = moving(("t", 0, [1, 2, 3]), ("t", 1, [1, 3]), ("gone", 0, [1]), allow_replication_factor_change=False)
    answer = node.call(REASSIGN, body, 1)
    assert moved(answer) == [("t", 0, 38), ("t", 1, 0), ("gone", 0, 3)]
    assert not answer.allow_replication_factor_change
    assert node.cluster.partition("t", 0).adding_replicas == () and node.cluster.partition("t", 1).is_reassigning
    assert moved(node.call(REASSIGN, moving(("t", 0, [1, 2, 3])), 1)) == [("t", 0, 0)]


def test_a_reassignment_that_fails_as_a_whole_is_told_of_each_partition_too() -> None:
    node = AdminNode()
    node.answers["AlterPartitionReassignments"] = refuses
    answer = node.call(REASSIGN, moving(("t", 0, [1]), ("u", 3, None)), 1)
    assert answer.error_code == 41 and answer.error_message
    assert moved(answer) == [("t", 0, 41), ("u", 3, 41)]


def by_hand(name: str, *replicas: tuple[int, ...]) -> list[Any]:
    assignment = tuple(ReplicaAssignment(number, ids) for number, ids in enumerate(replicas))
    return [NewTopic(name, assignment=assignment)]


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
        log_dirs.LogDir("/b", "", KafkaStorageError("it failed"), -1, -1, ()),
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
    told = [(r.replica_id, r.log_end_offset, r.last_fetch_timestamp, r.last_caught_up_timestamp) for r in replicas]
    assert told == [(1, 90, at(0), at(1)), (2, 80, at(30), at(400)), (3, -1, -1, -1), (4, 90, at(20), at(20))]
    nodes = [(n.node_id, [(at.name, at.host, at.port) for at in n.listeners]) for n in answer.nodes]
    assert nodes == ([(1, [("CONTROLLER", "127.0.0.1", 9193)])] if version >= 2 else [])


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
