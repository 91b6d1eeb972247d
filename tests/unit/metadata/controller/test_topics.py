"""Creating and deleting topics: every bad row has its own error, and spoils no other row."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.quorum.metadata_log import METADATA_BATCH_BYTES_MAX
from metadata.codec import encode_record
from metadata.controller.config import ControllerConfig
from metadata.topic_config import EVERY_TOPIC_KEY
from penstock.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    PolicyViolationError,
    TopicExistsError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.elections import ElectionType, ElectLeadersRequest, NamedPartitions
from penstock.messages.topics import CreateTopicsRequest, NewPartitions, NewTopic, ReplicaAssignment
from tests.unit.metadata.harness import CLUSTER_ID, Cluster, is_error, raised_by


def by_hand(name: str, *replicas: tuple[int, ...], **fields: int) -> NewTopic:
    assignment = tuple(ReplicaAssignment(number, assigned) for number, assigned in enumerate(replicas))
    return NewTopic(name, assignment=assignment, **fields)  # type: ignore[arg-type]


def test_topic_has_an_id_leaders_and_full_isrs() -> None:
    cluster = Cluster(brokers=3)
    result = cluster.create("orders", partitions=6, replication_factor=3, config={"retention.ms": " 5 "})
    assert (result.error, result.partitions, result.replication_factor) == (None, 6, 3)
    topic = cluster.image.topics_by_name["orders"]
    assert topic.topic_id == result.topic_id and len(result.topic_id) == 22
    assert cluster.image.topic_config("orders") == {"retention.ms": "5"}
    for partition in topic.partitions.values():
        assert partition.isr == partition.replicas
        assert (partition.leader_id, partition.leader_epoch, partition.partition_epoch) == (partition.isr[0], 0, 0)
    leaders = [partition.leader_id for partition in topic.partitions.values()]
    assert {leaders.count(broker_id) for broker_id in (1, 2, 3)} == {2}


def test_numbers_that_are_left_out_are_the_clusters_defaults() -> None:
    cluster = Cluster(brokers=2, config=ControllerConfig(CLUSTER_ID, num_partitions=4, default_replication_factor=2))
    result = cluster.create_all(NewTopic("t"))[0]
    assert (result.partitions, result.replication_factor) == (4, 2)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "is empty"),
        (".", "directory"),
        ("..", "directory"),
        ("t" * 250, "250 characters"),
        ("../x", "other characters"),
        ("a\x00", "other characters"),
        ("a\n", "other characters"),
        ("a b", "other characters"),
        ("ä", "other characters"),
        ("__cluster_metadata", "reserved for the quorum's own log"),
        ("__consumer_offsets", "reserved for the offsets of consumer groups"),
        ("__transaction_state", "reserved for the state of transactions"),
        ("__consumer.offsets", "collides with __consumer_offsets, which is reserved for"),
    ],
    ids=lambda text: text[:20],
)
def test_name_that_is_not_allowed_says_why(name: str, says: str) -> None:
    cluster = Cluster(brokers=1)
    before = cluster.image
    error = cluster.create(name).error
    assert is_error(error, InvalidTopicError, says)
    assert len(str(error)) < 200 and cluster.image is before


def test_longest_name_is_allowed() -> None:
    assert Cluster(brokers=1).create("t" * 249).error is None


def test_names_that_differ_in_dots_and_underscores_collide() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("a.b")
    assert is_error(cluster.create("a_b").error, InvalidTopicError, "a_b", "a.b")
    first, second = cluster.create_all(NewTopic("c.d", 1, 1), NewTopic("c_d", 1, 1))
    assert first.error is None and is_error(second.error, InvalidTopicError, "c.d")
    cluster.delete("a.b")
    assert cluster.create("a_b").error is None


def test_existing_topic_is_an_error_and_stays_as_it_is() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t")
    end = cluster.next_offset
    assert is_error(cluster.create("t", partitions=9).error, TopicExistsError, "t exists")
    assert cluster.next_offset == end


def test_topic_named_twice_is_refused_each_time_and_others_are_made() -> None:
    cluster = Cluster(brokers=1)
    results = cluster.create_all(NewTopic("a", 1, 1), NewTopic("b", 1, 1), NewTopic("a", 2, 1))
    assert [result.name for result in results] == ["a", "b", "a"]
    assert is_error(results[0].error, InvalidRequestError, "2 times")
    assert is_error(results[2].error, InvalidRequestError, "2 times")
    assert set(cluster.image.topics_by_name) == {"b"}


@pytest.mark.parametrize("partitions", [0, -2, -(10**9), 10_001, 10**9])
def test_impossible_number_of_partitions_is_refused(partitions: int) -> None:
    cluster = Cluster(brokers=1)
    before = cluster.image
    error = cluster.create("t", partitions=partitions).error
    assert is_error(error, InvalidPartitionsError, str(partitions), "10000") and cluster.image is before


def test_clusters_bound_counts_what_exists_and_what_the_request_makes() -> None:
    config = ControllerConfig(CLUSTER_ID, max_partitions=10)
    cluster = Cluster(brokers=1, config=config)
    cluster.create("a", partitions=4)
    results = cluster.create_all(NewTopic("b", 4, 1), NewTopic("c", 3, 1), NewTopic("d", 2, 1))
    assert results[0].error is None
    assert is_error(results[1].error, InvalidPartitionsError, "would have 11", "10")
    assert results[2].error is None


def test_request_that_needs_too_many_records_makes_what_fits() -> None:
    cluster = Cluster(brokers=1, config=ControllerConfig(CLUSTER_ID, max_records_per_decision=6))
    results = cluster.create_all(NewTopic("a", 4, 1), NewTopic("b", 4, 1))
    assert results[0].error is None
    assert is_error(results[1].error, PolicyViolationError, "10 records", "6")


def test_largest_topic_can_be_made_with_any_of_its_configs() -> None:
    cluster = Cluster(brokers=3)
    largest = cluster.config.max_partitions_per_topic
    request = CreateTopicsRequest((NewTopic("t", largest, 3, {"retention.ms": "1", "min.insync.replicas": "2"}),))
    result = cluster.controller.create_topics(request, 0)
    assert result.response.topics[0].error is None
    assert len(result.records) == 1 + 2 + largest
    assert 1 + len(EVERY_TOPIC_KEY) + largest <= cluster.config.max_records_per_decision
    assert sum(map(len, map(encode_record, result.records))) < METADATA_BATCH_BYTES_MAX / 4


@pytest.mark.parametrize("factor", [0, -2, 4, 10**9])
def test_impossible_replication_factor_says_how_many_brokers_are_registered(factor: int) -> None:
    cluster = Cluster(brokers=3)
    cluster.heartbeat(3, fence=True)
    before = cluster.image
    error = cluster.create("t", replication_factor=factor).error
    assert is_error(error, InvalidReplicationFactorError, str(factor), "registered brokers, 3; ask for fewer")
    assert cluster.image is before


def test_a_default_that_is_too_large_is_named_as_the_default() -> None:
    cluster = Cluster(brokers=1, config=ControllerConfig(CLUSTER_ID, default_replication_factor=3))
    error = cluster.create("t", replication_factor=-1).error
    assert is_error(
        error, InvalidReplicationFactorError, "replication factor 3 (default.replication.factor", "brokers, 1"
    )


@pytest.mark.parametrize("away", [1, 2, 3])
@pytest.mark.parametrize("how", ["fenced", "dead", "shutting down", "shut down"])
def test_a_topic_is_made_while_one_of_three_is_away_with_that_one_out_of_sync(how: str, away: int) -> None:
    cluster = Cluster(brokers=3)
    cluster.create("before", partitions=3, replication_factor=3)
    go_away(cluster, away, how)
    result = cluster.create("t", partitions=6, replication_factor=3, config={"min.insync.replicas": "2"})
    assert (result.error, result.partitions, result.replication_factor) == (None, 6, 3)
    for number in range(6):
        made = cluster.partition("t", number)
        assert sorted(made.replicas) == [1, 2, 3] and made.replicas[2] == away
        assert (made.isr, made.leader_id, made.elr) == (made.replicas[:2], made.replicas[0], ())
        assert (made.leader_epoch, made.partition_epoch) == (0, 0)
    leaders = [cluster.partition("t", number).leader_id for number in range(6)]
    assert {leaders.count(broker_id) for broker_id in (1, 2, 3)} == {0, 3}


def go_away(cluster: Cluster, broker_id: int, how: str) -> None:
    if how == "fenced":
        cluster.heartbeat(broker_id, fence=True)
    elif how == "dead":
        assert cluster.let_die(broker_id) == (broker_id,)
    else:
        late = next(other for other in cluster.image.brokers if other != broker_id)
        if how == "shutting down":
            cluster.heartbeat(late, offset=0)  # it has not read yet that it leads now
        cluster.heartbeat(broker_id, stop=True)
        if how == "shut down":
            for other in cluster.image.brokers.keys() - {broker_id}:
                cluster.heartbeat(other)
            cluster.heartbeat(broker_id, stop=True)
    broker = cluster.image.brokers[broker_id]
    assert not broker.is_active and broker.fenced == (how != "shutting down")


def test_the_one_that_was_away_joins_the_isr_when_it_is_back() -> None:
    cluster = Cluster(brokers=3)
    cluster.let_die(2)
    cluster.create("t", replication_factor=3, config={"min.insync.replicas": "3"})
    made = cluster.partition("t")
    assert 2 not in made.isr and made.elr == ()
    cluster.come_back(2)
    cluster.heartbeat(2)
    assert cluster.alter(made.leader_id, cluster.proposal("t", (*made.isr, 2)))[0].error is None
    assert (cluster.partition("t").isr, cluster.partition("t").leader_id) == ((*made.isr, 2), made.leader_id)


def test_the_replica_of_one_that_is_away_is_in_its_only_log_dir_or_in_none_that_is_known() -> None:
    cluster = Cluster()
    for broker_id, log_dirs in ((1, ("a",)), (2, ("b",)), (3, ("c", "d"))):
        cluster.start(broker_id, log_dirs=log_dirs)
    cluster.let_die(2, 3)
    cluster.create("t", replication_factor=3)
    made = cluster.partition("t")
    assert [made.directory_of(broker_id) for broker_id in (1, 2, 3)] == ["a", "b", ""]


def test_the_replica_of_one_that_comes_back_with_another_disk_is_in_no_log_dir_and_out_of_sync() -> None:
    cluster = Cluster()
    for broker_id in (1, 2):
        cluster.start(broker_id, log_dirs=(f"dir-{broker_id}",))
    cluster.let_die(2)
    cluster.create("t", replication_factor=2)
    cluster.register(2, log_dirs=("new",), lost_log_dirs=("dir-2",))
    made = cluster.partition("t")
    assert (made.directory_of(2), made.isr, made.log_lost) == ("", (1,), False)


def test_without_a_broker_no_topic_can_be_made() -> None:
    assert is_error(Cluster().create("t").error, InvalidReplicationFactorError, "registered brokers, 0", "start more")


def test_without_a_broker_in_service_no_topic_can_be_made() -> None:
    cluster = Cluster(brokers=2)
    for broker_id in (1, 2):
        cluster.heartbeat(broker_id, fence=True)
    error = cluster.create("t", replication_factor=2).error
    assert is_error(error, InvalidReplicationFactorError, "needs a broker in service", "all 2 registered", "start one")


def test_broker_that_shuts_down_gets_no_new_replica_where_another_can_have_it() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", partitions=2, replication_factor=2)
    cluster.heartbeat(1, offset=0)
    cluster.heartbeat(2, stop=True)
    cluster.create("u", partitions=4)
    assert {cluster.partition("u", number).replicas for number in range(4)} == {(1,)}


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"retention.mss": "1"}, "did you mean retention.ms?"),
        ({"retention.ms": "soon"}, "retention.ms"),
        ({"retention.ms": "1", "segment.bytes": "-1"}, "segment.bytes"),
        ({"min.insync.replicas": "3"}, "replication factor 2"),
        ({"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}, "max.compaction.lag.ms"),
    ],
)
def test_bad_configuration_makes_no_topic_at_all(config: dict[str, str], says: str) -> None:
    cluster = Cluster(brokers=2)
    end = cluster.next_offset
    assert is_error(cluster.create("t", 1, 2, config).error, InvalidConfigError, says)
    assert cluster.next_offset == end


def test_validate_only_answers_the_same_and_makes_nothing() -> None:
    cluster = Cluster(brokers=1)
    end = cluster.next_offset
    good, bad = cluster.create_all(NewTopic("t", 3, 1), NewTopic("u", 0, 1), validate_only=True)
    assert (good.error, good.topic_id, good.partitions) == (None, "", 3)
    assert is_error(bad.error, InvalidPartitionsError)
    assert cluster.next_offset == end


def test_empty_request_is_answered_with_nothing() -> None:
    cluster = Cluster(brokers=1)
    assert cluster.create_all() == ()
    assert cluster.delete() == ()


def test_requests_are_bounded() -> None:
    cluster = Cluster(brokers=1, config=ControllerConfig(CLUSTER_ID, max_items_per_request=2))
    topics = [NewTopic(str(number), 1, 1) for number in range(3)]
    assert is_error(raised_by(lambda: cluster.create_all(*topics)), InvalidRequestError, "3 topics", "2")
    assert is_error(raised_by(lambda: cluster.delete("a", "b", "c")), InvalidRequestError, "3 topics")


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_assignment_by_hand_is_taken_as_it_is() -> None:
    cluster = Cluster(brokers=3)
    result = cluster.create_all(by_hand("t", (3, 1), (1, 2)))[0]
    assert (result.error, result.partitions, result.replication_factor) == (None, 2, 2)
    assert [cluster.partition("t", number).replicas for number in (0, 1)] == [(3, 1), (1, 2)]
    assert cluster.partition("t").leader_id == 3


def test_assignment_by_hand_may_name_a_fenced_broker_which_is_then_not_in_sync() -> None:
    cluster = Cluster(brokers=2)
    cluster.heartbeat(1, fence=True)
    cluster.create_all(by_hand("t", (1, 2)))
    assert (cluster.partition("t").isr, cluster.partition("t").leader_id) == ((2,), 2)


@pytest.mark.parametrize(
    ("topic", "kind", "says"),
    [
        (by_hand("t", (1, 9)), InvalidReplicaAssignmentError, "broker 9 is not registered"),
        (by_hand("t", (1, 1)), InvalidReplicaAssignmentError, "each another broker"),
        (by_hand("t", ()), InvalidReplicaAssignmentError, "at least one"),
        (by_hand("t", (1, 2), (1,)), InvalidReplicaAssignmentError, "same number"),
        (by_hand("t", (3,)), InvalidReplicaAssignmentError, "fenced"),
        (by_hand("t", (1,), partitions=2), InvalidRequestError, "2 partitions"),
        (by_hand("t", (1,), replication_factor=2), InvalidRequestError, "replication factor 2"),
        (NewTopic("t", assignment=(ReplicaAssignment(1, (1,)),)), InvalidReplicaAssignmentError, "from 0 on"),
        (NewTopic("t", assignment=(ReplicaAssignment(0, (1,)),) * 2), InvalidReplicaAssignmentError, "each once"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_assignment_by_hand_is_refused(topic: NewTopic, kind: type[Exception], says: str) -> None:
    cluster = Cluster(brokers=3)
    cluster.heartbeat(3, fence=True)
    assert is_error(cluster.create_all(topic)[0].error, kind, says)


def test_bound_of_the_cluster_holds_for_assignments_by_hand_in_one_request() -> None:
    cluster = Cluster(brokers=1, config=ControllerConfig(CLUSTER_ID, max_partitions=3))
    results = cluster.create_all(by_hand("a", (1,), (1,)), by_hand("b", (1,), (1,)))
    assert results[0].error is None
    assert is_error(results[1].error, InvalidPartitionsError, "would have 4")


# -- delete ------------------------------------------------------------------------------------------------------------


def test_deleted_topic_is_gone_with_its_configuration_and_comes_back_as_another() -> None:
    cluster = Cluster(brokers=1)
    old = cluster.create("t", partitions=2, config={"retention.ms": "1"})
    result = cluster.delete("t")[0]
    assert (result.error, result.topic_id, result.partitions) == (None, old.topic_id, 2)
    assert cluster.image.topics_by_id == {} and cluster.image.configs == {}
    assert cluster.controller.statistics().partitions == 0
    new = cluster.create("t")
    assert new.error is None and new.topic_id != old.topic_id
    assert cluster.image.topic_config("t") == {}


ELECTION = ElectLeadersRequest(ElectionType.PREFERRED, (NamedPartitions("t", (0,)),))
NAMED: dict[str, Callable[[Cluster], Exception | None]] = {
    "new partitions": lambda cluster: cluster.add_partitions(NewPartitions("t", 5))[0].error,
    "a configuration": lambda cluster: cluster.configure("t", {"retention.ms": "5"}),
    "no configuration": lambda cluster: cluster.configure("t", {"retention.ms": None}),
    "other replicas": lambda cluster: cluster.reassign("t", (2,)),
    "no other replicas": lambda cluster: cluster.reassign("t", None),
    "another leader": lambda cluster: cluster.commit(cluster.controller.elect_leaders(ELECTION, 0)).partitions[0].error,
}


@pytest.mark.parametrize("what", NAMED)
def test_a_topic_that_was_deleted_is_unknown_to_whatever_is_asked_for_it(what: str) -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", config={"retention.ms": "1"})
    cluster.delete("t")
    before = cluster.image
    assert is_error(NAMED[what](cluster), UnknownTopicOrPartitionError, "t")
    assert cluster.image is before


def test_a_deletion_that_is_late_spares_the_topic_that_was_made_anew() -> None:
    """It names the id of the topic that it was meant for."""
    cluster = Cluster(brokers=1)
    old = cluster.create("t")
    cluster.delete("t")
    cluster.create("t")
    before = cluster.image
    (result,) = cluster.delete(old.topic_id)
    assert is_error(result.error, UnknownTopicIdError, old.topic_id) and cluster.image is before


def test_delete_of_an_unknown_or_repeated_id_is_an_error_of_that_id_only() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("a")
    cluster.create("b")
    results = cluster.delete("x", "a", "b", "b")
    assert is_error(results[0].error, UnknownTopicIdError, "'x'")
    assert results[1].error is None
    assert is_error(results[2].error, InvalidRequestError) and is_error(results[3].error, InvalidRequestError)
    assert set(cluster.image.topics_by_name) == {"b"}


def test_deleted_topic_leaves_nothing_for_a_dying_broker_to_change() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", partitions=3, replication_factor=2)
    cluster.delete("t")
    end = cluster.next_offset
    cluster.let_die(1)
    assert cluster.next_offset == end + 1
