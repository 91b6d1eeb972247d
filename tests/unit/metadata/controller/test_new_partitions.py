"""More partitions for a topic (KIP-195): only behind those that are there, and every bad row has its own error."""

from __future__ import annotations

import pytest

from metadata.controller.config import ControllerConfig
from metadata.delta import MetadataDelta
from metadata.records import PartitionRecord
from penstock.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvariantViolation,
    PolicyViolationError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.topics import CreatePartitionsRequest, NewPartitions, NewTopic, ReplicaAssignment
from tests.unit.metadata.harness import CLUSTER_ID, Cluster, is_error, raised_by


def by_hand(total: int, *replicas: tuple[int, ...], first: int = 2, name: str = "t") -> NewPartitions:
    assignment = tuple(ReplicaAssignment(first + at, assigned) for at, assigned in enumerate(replicas))
    return NewPartitions(name, total, assignment)


def grown(partitions: int = 2, factor: int = 2) -> Cluster:
    """Three brokers, of which the third is fenced, and a topic on the others."""
    cluster = Cluster(brokers=3)
    cluster.heartbeat(3, fence=True)
    cluster.create("t", partitions, factor)
    return cluster


def test_new_partitions_are_empty_and_in_sync_and_the_old_ones_stay_as_they_are() -> None:
    cluster = Cluster(brokers=3)
    created = cluster.create("t", partitions=2, replication_factor=3)
    gone = cluster.partition("t").leader_id
    cluster.let_die(gone)
    cluster.come_back(gone)
    cluster.heartbeat(gone)
    old = [cluster.partition("t", number) for number in (0, 1)]
    assert gone not in old[0].isr
    end = cluster.next_offset
    (result,) = cluster.add_partitions(NewPartitions("t", 5))
    assert (result.error, result.topic_id, result.partitions, result.replication_factor) == (
        None,
        created.topic_id,
        5,
        3,
    )
    assert [cluster.partition("t", number) for number in (0, 1)] == old
    made = [cluster.partition("t", number) for number in (2, 3, 4)]
    for partition in made:
        assert partition.isr == partition.replicas and len(partition.replicas) == 3
        assert (partition.leader_id, partition.leader_epoch, partition.partition_epoch) == (partition.isr[0], 0, 0)
    assert {type(record) for record in cluster.log[end:]} == {PartitionRecord}
    firsts = [p.replicas[0] for p in (*old, *made)]
    assert sorted(firsts.count(broker) for broker in (1, 2, 3)) == [1, 2, 2]
    assert cluster.controller.statistics().partitions == 5


def test_a_controller_that_takes_over_has_them_too() -> None:
    cluster = grown()
    cluster.add_partitions(NewPartitions("t", 3))
    cluster.fail_over()
    assert is_error(cluster.add_partitions(NewPartitions("t", 3))[0].error, InvalidPartitionsError, "3 partitions")
    assert cluster.add_partitions(NewPartitions("t", 4))[0].error is None


def test_new_replicas_are_in_the_only_log_dir_of_their_broker() -> None:
    cluster = Cluster()
    cluster.start(1, log_dirs=("dir-1",))
    cluster.create("t")
    cluster.add_partitions(NewPartitions("t", 2))
    assert cluster.partition("t", 1).directories == ("dir-1",)


def test_racks_are_kept_apart() -> None:
    cluster = Cluster()
    for broker_id, rack in ((1, "a"), (2, "a"), (3, "b"), (4, "b")):
        cluster.start(broker_id, rack=rack)
    cluster.create("t", 1, 2)
    cluster.add_partitions(NewPartitions("t", 9))
    for number in range(9):
        assert {cluster.image.brokers[replica].rack for replica in cluster.partition("t", number).replicas} == {
            "a",
            "b",
        }


@pytest.mark.parametrize("total", [2, 1, 0, -1, -(10**9)])
def test_a_topic_never_gets_fewer_or_as_many(total: int) -> None:
    cluster = grown()
    end = cluster.next_offset
    (result,) = cluster.add_partitions(NewPartitions("t", total))
    says = "ask for more than that" if total == 2 else f"more than the {total} asked for; partitions cannot be removed"
    assert is_error(result.error, InvalidPartitionsError, "topic t has 2 partitions already", says)
    assert result.partitions == (2 if total == 2 else 0)
    assert cluster.next_offset == end


def test_a_request_that_is_repeated_finds_what_it_made_and_another_one_does_not() -> None:
    """The number of partitions in the result says that the topic is as this request wants it."""
    cluster = grown()
    asked = by_hand(4, (1, 2), (2, 1))
    assert cluster.add_partitions(asked)[0].error is None
    (again,) = cluster.add_partitions(asked)
    assert is_error(again.error, InvalidPartitionsError) and again.partitions == 4
    (other,) = cluster.add_partitions(by_hand(4, (1, 2), (1, 2)))
    assert is_error(other.error, InvalidPartitionsError) and other.partitions == 0
    (more,) = cluster.add_partitions(by_hand(3, (1, 2)))
    assert is_error(more.error, InvalidPartitionsError) and more.partitions == 0


def test_bounds_of_topic_cluster_and_decision_hold() -> None:
    cluster = Cluster(
        brokers=1,
        config=ControllerConfig(
            CLUSTER_ID,
            max_partitions_per_topic=8,
            max_partitions=12,
            max_records_per_decision=5,
            max_items_per_request=3,
        ),
    )
    cluster.create_all(NewTopic("a", 3, 1))
    cluster.create_all(NewTopic("b", 3, 1))
    assert is_error(cluster.add_partitions(NewPartitions("a", 9))[0].error, InvalidPartitionsError, "9", "1 to 8")
    assert is_error(cluster.add_partitions(NewPartitions("a", 10**9))[0].error, InvalidPartitionsError, "1 to 8")
    first, second = cluster.add_partitions(NewPartitions("a", 6), NewPartitions("b", 7), validate_only=True)
    assert first.error is None
    assert is_error(second.error, InvalidPartitionsError, "would have 13", "12")
    first, second = cluster.add_partitions(NewPartitions("a", 6), NewPartitions("b", 6))
    assert first.error is None
    assert is_error(second.error, PolicyViolationError, "6 records", "5")
    assert set(cluster.image.topics_by_name["b"].partitions) == {0, 1, 2}
    four = tuple(NewPartitions(name, 2) for name in "wxyz")
    assert is_error(raised_by(lambda: cluster.add_partitions(*four)), InvalidRequestError, "4 topics", "3")


def test_the_largest_topic_can_be_reached_in_one_step() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", 1, 3)
    largest = cluster.config.max_partitions_per_topic
    request = CreatePartitionsRequest((NewPartitions("t", largest),))
    result = cluster.controller.create_partitions(request, 0)
    assert result.response.topics[0].error is None and len(result.records) == largest - 1


def test_topics_that_are_not_there_or_not_the_one_meant() -> None:
    cluster = grown()
    topic_id = cluster.image.topics_by_name["t"].topic_id
    cluster.delete("t")
    cluster.create("t")
    end = cluster.next_offset
    unknown, other = cluster.add_partitions(NewPartitions("u" * 300, 2), NewPartitions("t", 2, topic_id=topic_id))
    assert is_error(unknown.error, UnknownTopicOrPartitionError, "uuu", "does not exist")
    assert len(str(unknown.error)) < 200
    assert is_error(other.error, UnknownTopicIdError, topic_id, "made anew")
    assert cluster.next_offset == end


def test_a_topic_that_is_named_twice_is_refused_each_time_and_others_get_theirs() -> None:
    cluster = grown()
    cluster.create("b")
    results = cluster.add_partitions(NewPartitions("t", 3), NewPartitions("b", 2), NewPartitions("t", 4))
    assert [result.name for result in results] == ["t", "b", "t"]
    assert all(is_error(results[at].error, InvalidRequestError, "'t'", "2 times") for at in (0, 2))
    assert (len(cluster.image.topics_by_name["t"].partitions), len(cluster.image.topics_by_name["b"].partitions)) == (
        2,
        2,
    )


def test_validate_only_answers_the_same_and_makes_nothing() -> None:
    cluster = grown()
    end = cluster.next_offset
    (good,) = cluster.add_partitions(NewPartitions("t", 4), validate_only=True)
    (bad,) = cluster.add_partitions(by_hand(3, (1, 1)), validate_only=True)
    assert (good.error, good.partitions) == (None, 4)
    assert is_error(bad.error, InvalidReplicaAssignmentError)
    assert cluster.next_offset == end


def test_new_partitions_are_placed_on_a_broker_that_is_away_where_the_factor_needs_it() -> None:
    cluster = grown()
    cluster.heartbeat(2, fence=True)
    (result,) = cluster.add_partitions(NewPartitions("t", 4))
    assert (result.error, result.partitions, result.replication_factor) == (None, 4, 2)
    for number in (2, 3):
        made = cluster.partition("t", number)
        assert made.replicas[0] == 1 and made.replicas[1] in (2, 3)
        assert (made.isr, made.elr, made.leader_id) == ((1,), (), 1)


def test_without_a_broker_in_service_no_partition_can_be_added() -> None:
    cluster = grown()
    for broker_id in (1, 2):
        cluster.heartbeat(broker_id, fence=True)
    error = cluster.add_partitions(NewPartitions("t", 3))[0].error
    assert is_error(error, InvalidReplicationFactorError, "needs a broker in service", "all 3 registered", "start one")


def test_an_assignment_may_name_a_broker_that_is_away() -> None:
    cluster = grown()
    cluster.heartbeat(2, fence=True)
    assert cluster.add_partitions(by_hand(3, (2, 1)))[0].error is None
    made = cluster.partition("t", 2)
    assert (made.replicas, made.isr, made.leader_id) == ((2, 1), (1,), 1)


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_assignment_by_hand_is_taken_as_it_is_in_the_order_of_partitions() -> None:
    cluster = grown()
    asked = by_hand(4, (2, 1), (1, 3))
    assert cluster.add_partitions(NewPartitions("t", 4, asked.assignment[::-1]))[0].error is None
    assert [cluster.partition("t", number).replicas for number in (2, 3)] == [(2, 1), (1, 3)]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (by_hand(4, (1, 2)), "would get 2 more, but the assignment names 1"),
        (by_hand(3, (1, 2), (2, 1)), "would get 1 more, but the assignment names 2"),
        (by_hand(4, (1, 2), (2, 1), first=0), "2 to 3"),
        (by_hand(4, (1, 2), (2, 1), first=3), "2 to 3"),
        (NewPartitions("t", 4, (ReplicaAssignment(2, (1, 2)),) * 2), "each once"),
        (by_hand(3, (1, 1)), "each another broker"),
        (by_hand(3, ()), "at least one"),
        (by_hand(3, (1, 9)), "broker 9 is not registered"),
        (by_hand(3, (1, -1)), "broker -1 is not registered"),
        (by_hand(3, (1,)), "1 replicas, partition 0 has 2"),
        (by_hand(4, (1, 2), (1, 2, 3)), "3 replicas, partition 0 has 2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_assignment_by_hand_changes_nothing(asked: NewPartitions, says: str) -> None:
    cluster = grown()
    end = cluster.next_offset
    assert is_error(cluster.add_partitions(asked)[0].error, InvalidReplicaAssignmentError, says)
    assert cluster.next_offset == end


def test_an_assignment_of_fenced_brokers_alone_is_refused() -> None:
    cluster = grown(factor=1)
    asked = by_hand(3, (3,))
    assert is_error(cluster.add_partitions(asked)[0].error, InvalidReplicaAssignmentError, "t-2", "fenced")


# -- between the parts -------------------------------------------------------------------------------------------------


def test_the_record_of_a_partition_that_is_there_stops_whoever_replays_it() -> None:
    """It would take ISR and epochs back: a bug or damage."""
    cluster = grown()
    again = cluster.partition("t").to_record()
    with pytest.raises(InvariantViolation, match="there already"):
        MetadataDelta(cluster.image).replay(again)
    with pytest.raises(InvariantViolation, match="there already"):
        cluster.controller.replay(again, cluster.next_offset)


def test_a_delta_names_only_the_new_partitions() -> None:
    """So brokers look at these alone; the topic is not a new one."""
    cluster = grown()
    result = cluster.controller.create_partitions(CreatePartitionsRequest((NewPartitions("t", 4),)), 0)
    delta = MetadataDelta(cluster.image)
    for record in result.records:
        delta.replay(record)
    topic_id = cluster.image.topics_by_name["t"].topic_id
    assert delta.changed_topics == {topic_id: {2, 3}} and not delta.created_topic_ids


def test_new_partitions_that_are_deleted_with_their_topic_leave_nothing_behind() -> None:
    cluster = grown()
    cluster.add_partitions(NewPartitions("t", 5))
    cluster.delete("t")
    assert cluster.controller.statistics().partitions == 0
    end = cluster.next_offset
    cluster.let_die(1)
    assert cluster.next_offset == end + 1
