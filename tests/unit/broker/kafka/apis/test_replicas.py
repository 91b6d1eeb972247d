"""Promises of elections and reassignments in Kafka's protocol, version by version."""

from __future__ import annotations

from typing import Any

import pytest

from broker.kafka.schemas.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.errors import NotControllerError
from penstock.messages.topics import NewTopic, ReplicaAssignment
from tests.unit.broker.kafka.apis.admin_node import AdminNode

ELECT, REASSIGN, LIST = 43, 45, 46
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
