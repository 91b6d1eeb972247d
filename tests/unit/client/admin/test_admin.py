"""Admin against a fake cluster: what it tells, whom it asks, and its errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import Admin, TopicPartition
from penstock.client.admin.admin_types import ConfigEntry, TopicDescription
from penstock.client.admin.configs import config_changes
from penstock.client.cluster import by_leader
from penstock.errors import (
    BrokerIdNotRegisteredError,
    ElectionNotNeededError,
    LeaderNotAvailableError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    TimedOutError,
    TopicAuthorizationFailedError,
    TopicExistsError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.produce import ProducerState
from penstock.pb import broker_pb2 as pb
from penstock.record.builder import build_batch
from tests.support.fake_broker import FakeCluster, encode_error


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(3) as found:
        yield found


def test_a_topic_lives_and_dies(cluster: FakeCluster) -> None:
    with Admin(cluster.bootstrap) as admin:
        made = admin.create_topic("t", partitions=3, replication_factor=1, config={"retention.ms": 5, "flag": True})
        assert made.partition_count == 3 and made.config == {"retention.ms": "5", "flag": "true"}
        assert admin.list_topics() == ["t"]
        assert admin.describe_topic("t") == made and admin.describe_topics() == [made]
        assert admin.describe_topics(ask_leaders=False) == [made]
        with pytest.raises(TopicExistsError):
            admin.create_topic("t")
        assert admin.create_topic("t", partitions=5, exist_ok=True) == made, "it stays as it is"
        admin.delete_topic("t")
        assert admin.list_topics() == []
        admin.delete_topic("t", missing_ok=True)
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.delete_topic("t")
        with pytest.raises(UnknownTopicOrPartitionError, match="'t' does not exist; `penstock topics list`"):
            admin.describe_topic("t")


def test_a_partition_is_described_with_the_error_that_only_its_leader_knows(cluster: FakeCluster) -> None:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("t", partitions=3, replication_factor=1)
        for leader in (1, 2, 3):
            cluster.freeze_metadata(leader, "t")
            (topic,) = cluster.frozen_metadata[leader].topics
            (own,) = (p for p in topic.partitions if p.leader_id == leader)
            own.error.CopyFrom(encode_error(LeaderNotAvailableError(f"rotten on {leader}")))
        answer = [str(partition.error) for partition in admin.describe_topic("t").partitions]
        assert sorted(answer) == ["rotten on 1", "rotten on 2", "rotten on 3"]
        errors = {leader: [p.error for p in topic.partitions] for leader, topic in described(admin).items()}
        assert [len([error for error in found if error]) for found in errors.values()] == [3, 1]


def described(admin: Admin) -> dict[bool, TopicDescription]:
    """The only topic, with its leaders asked and without."""
    return {are_asked: admin.describe_topics(ask_leaders=are_asked)[0] for are_asked in (True, False)}


def test_a_partition_is_not_described_with_the_error_of_another_topic_or_of_an_older_epoch() -> None:
    with FakeCluster(4) as cluster, Admin(cluster.bootstrap) as admin:
        admin.create_topic("t", partitions=3, replication_factor=1)
        for leader in (1, 2, 3):
            cluster.freeze_metadata(leader, "t")
            answer = cluster.frozen_metadata[leader]
            answer.metadata_offset = 0  # it lags: node 4 describes the topic
            (own,) = (p for p in answer.topics[0].partitions if p.leader_id == leader)
            own.error.CopyFrom(encode_error(LeaderNotAvailableError(f"rotten on {leader}")))
            if leader == 1:
                answer.topics[0].topic_id = "of the topic that had the name before"
            elif leader == 2:
                own.leader_epoch -= 1
        found = [str(partition.error) for partition in admin.describe_topic("t").partitions]
        assert found == ["None", "None", "rotten on 3"]


def test_a_topic_created_again_after_a_lost_answer_may_be_the_calls_own() -> None:
    with FakeCluster(1) as cluster, Admin(cluster.bootstrap, retry_backoff_ms=1) as admin:
        cluster.loses_next_creation = True
        with pytest.raises(TopicExistsError, match="exists; or use it: an earlier attempt, whose answer was lost"):
            admin.create_topic("t")
        with pytest.raises(TopicExistsError, match=r"exists$"):
            admin.create_topic("t")


def test_a_topic_deleted_again_after_a_lost_answer_is_not_the_one_made_in_between(cluster: FakeCluster) -> None:
    cluster.create_topic("t")
    cluster.on_delete_topics = lambda: cluster.create_topic("t")
    with Admin(cluster.bootstrap, retry_backoff_ms=1) as admin:
        admin.delete_topic("t")
        assert admin.describe_topic("t").topic_id == cluster.topics["t"] == "id-2-of-t"


def test_many_topics_are_deleted_in_one_request_also_when_its_answer_is_lost(cluster: FakeCluster) -> None:
    for name in ("t", "u", "stays"):
        cluster.create_topic(name)
    requests: list[None] = []
    cluster.on_delete_topics = lambda: requests.append(None)
    with Admin(cluster.bootstrap, retry_backoff_ms=1) as admin:
        found = admin.delete_topics(["t", "nope", "u", "t"])
        assert list(cluster.topics) == ["stays"] and len(requests) == 1
        assert (found["t"], found["u"]) == (None, None) and isinstance(found["nope"], UnknownTopicOrPartitionError)
        assert admin.delete_topics(["t"], missing_ok=True) == {"t": None}
        for wrong in ("stays", {"stays"}, [1]):
            with pytest.raises(TypeError):
                admin.delete_topics(wrong)  # type: ignore[arg-type]


def test_a_topic_that_somebody_else_deleted_is_an_error_and_the_new_one_of_its_name_stays(cluster: FakeCluster) -> None:
    cluster.create_topic("t")
    for node_id in (1, 2, 3):
        cluster.freeze_metadata(node_id, "t")
    cluster.delete_topic("t")
    cluster.create_topic("t")
    with Admin(cluster.bootstrap) as admin, pytest.raises(UnknownTopicIdError, match="id id-1-of-t was deleted by"):
        admin.delete_topic("t")
    assert "t" in cluster.topics


def test_a_change_follows_the_hint_to_the_controller(cluster: FakeCluster) -> None:
    cluster.controller_id = 3
    with Admin(cluster.bootstrap) as admin:
        for number in range(4):
            admin.create_topic(f"t{number}")
        assert {"t0", "t1", "t2", "t3"} <= set(admin.list_topics())


def test_the_cluster_and_the_quorum_are_described(cluster: FakeCluster) -> None:
    with Admin(cluster.bootstrap) as admin:
        found = admin.describe_cluster()
        assert (found.cluster_id, found.controller_id) == ("fake", 1)
        assert [broker.node_id for broker in found.brokers] == [1, 2, 3]
        quorum = admin.describe_quorum()
        assert (quorum.leader_id, quorum.leader_epoch, quorum.voters[0].node_id) == (1, 3, 1)


def cut_off(answer: pb.DescribeClusterResponse) -> None:
    """The answer of a node that has not heard from the quorum for long."""
    answer.controller_id, answer.metadata_offset, answer.standing.metadata_age_ms = -1, 5, 60_000
    answer.standing.fenced = True


def test_a_node_that_is_cut_off_does_not_describe_the_cluster_while_another_one_hears_of_it(
    cluster: FakeCluster,
) -> None:
    cluster.on_describe_cluster = dict.fromkeys((1, 2), cut_off)
    with Admin(cluster.bootstrap) as admin:
        for _ in range(4):
            found = admin.describe_cluster()
            assert (found.controller_id, found.standing.node_id) == (1, 3)
    cluster.on_describe_cluster[3] = cut_off
    with Admin(cluster.bootstrap) as admin:
        found = admin.describe_cluster()
        assert (found.controller_id, found.standing.metadata_age_ms) == (-1, 60_000)


def test_the_health_of_a_cluster_is_asked_of_every_broker(cluster: FakeCluster) -> None:
    with Admin(cluster.bootstrap, retry_backoff_ms=1) as admin:
        admin.list_topics()
        cluster.stop_node(2)
        cluster.on_describe_cluster[3] = cut_off
        found = admin.cluster_health()
    brokers = next(check for check in found.checks if check.name == "brokers")
    assert found.status == "degraded" and len(brokers.details) == 2
    assert "does not answer" in brokers.details[0] and "no controller answers it" in brokers.details[1]


def test_topics_of_some_names_are_described_in_one_question_and_each_lonely_leader_is_asked_once(
    cluster: FakeCluster,
) -> None:
    with Admin(cluster.bootstrap) as admin:
        for name in ("c", "a", "b"):
            admin.create_topic(name, partitions=3, replication_factor=1)
        before = cluster.metadata_requests
        found = admin.describe_topics(["b", "no-such", "c", "b"])
        assert cluster.metadata_requests == before + 1 + 3, "one question, and one to each lonely leader"
        assert found == [admin.describe_topic("b"), admin.describe_topic("c")]
        before = cluster.metadata_requests
        assert admin.describe_topics(["b", "c"], ask_leaders=False) == found
        assert cluster.metadata_requests == before + 1
        assert admin.describe_topics([]) == []
        with pytest.raises(TypeError, match="must be a list of names"):
            admin.describe_topics("b")
        with pytest.raises(TypeError, match="topic must be a str"):
            admin.describe_topics([1])  # type: ignore[list-item]


def test_a_topic_is_not_described_by_a_broker_that_has_heard_less_than_one_whose_picture_was_seen(
    cluster: FakeCluster,
) -> None:
    cluster.create_topic("t", 1)
    newest = 100

    def change(answer: pb.DescribeClusterResponse) -> None:
        answer.metadata_offset = newest

    with Admin(cluster.bootstrap, retry_backoff_ms=1) as admin:
        admin.list_topics()
        for lagging in (1, 2):
            cluster.freeze_metadata(lagging, "t")
        cluster.move_leader("t", 0, 2)
        cluster.heard_offset, cluster.on_describe_cluster[3] = newest, change
        admin.cluster_health()
        for _ in range(6):
            assert admin.describe_topic("t").partitions[0].leader_id == 2


def test_offsets_are_listed_by_spec(cluster: FakeCluster) -> None:
    cluster.create_topic("t", 2)
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    with Admin(cluster.bootstrap) as admin:
        assert {tp: info.offset for tp, info in admin.list_offsets([first, second]).items()} == {first: 0, second: 0}
        assert admin.list_offsets({first: "earliest", second: 5})[second].offset == -1
        with pytest.raises(ValueError, match="must be 'earliest', 'latest'"):
            admin.list_offsets({first: "newest"})


def test_a_node_that_is_down_is_passed_over(cluster: FakeCluster) -> None:
    with Admin(cluster.bootstrap, retry_backoff_ms=1) as admin:
        assert admin.list_topics() == []
        cluster.stop_node(2)
        for _ in range(4):
            assert admin.describe_cluster().cluster_id == "fake"


# -- configs -----------------------------------------------------------------------------------------------------------


def test_a_config_value_is_written_in_kafkas_spelling() -> None:
    changes = config_changes({"a": 5, "b": True, "c": None, "d": ["x", "y"]}, {"e": "x"}, {"f": ("x", "y")})
    assert [(change.key, change.operation.name, change.value) for change in changes] == [
        ("a", "SET", "5"),
        ("b", "SET", "true"),
        ("c", "DELETE", ""),
        ("d", "SET", "x,y"),
        ("e", "APPEND", "x"),
        ("f", "SUBTRACT", "x,y"),
    ]


def test_a_topics_config_is_described_with_its_sources(cluster: FakeCluster) -> None:
    cluster.create_topic("t", config={"retention.ms": "5"})
    with Admin(cluster.bootstrap) as admin:
        found = admin.describe_topic_config("t")
        assert found["retention.ms"] == ConfigEntry(
            "retention.ms", "5", "DYNAMIC_TOPIC_CONFIG", "string", "says nothing"
        )
        assert [entry.is_default for entry in found.values()] == [False, True]
        with pytest.raises(UnknownTopicOrPartitionError, match="nope"):
            admin.describe_topic_config("nope")


def test_a_topics_config_is_not_told_by_a_broker_that_has_not_heard_of_its_change(cluster: FakeCluster) -> None:
    cluster.create_topic("t", config={"retention.ms": "1"})
    with Admin(cluster.bootstrap, retry_backoff_ms=1) as admin:
        cluster.freeze_metadata(1, "t")
        before = cluster.frozen_metadata.pop(1)
        admin.alter_topic_config("t", {"retention.ms": 2})
        cluster.frozen_metadata |= {1: before, 2: before}
        assert admin.describe_topic_config("t")["retention.ms"].value == "2"


def test_a_refused_config_is_an_error_at_once_whatever_its_answer_has_for_an_offset(cluster: FakeCluster) -> None:
    cluster.create_topic("t")
    cluster.refused_configs.add("t")
    with Admin(cluster.bootstrap, default_api_timeout_ms=2_000) as admin:
        admin.describe_topic("t")
        with pytest.raises(TopicAuthorizationFailedError, match="may not DescribeConfigs"):
            admin.describe_topic_config("t")


def test_a_brokers_config_is_told_by_that_broker(cluster: FakeCluster) -> None:
    with Admin(cluster.bootstrap) as admin:
        assert [admin.describe_broker_config(node)["node.id"].value for node in (1, 2, 3)] == ["1", "2", "3"]
        with pytest.raises(BrokerIdNotRegisteredError, match="broker 9"):
            admin.describe_broker_config(9)


def test_a_broker_or_all_of_them_are_altered_and_told(cluster: FakeCluster) -> None:
    with Admin(cluster.bootstrap) as admin:
        admin.alter_broker_config(
            2, {"log.retention.ms": 5, "log.roll.ms": None}, append={"logger.level": "raft=debug"}
        )
        admin.alter_broker_config(None, {"auto.leader.rebalance.enable": True})
        assert cluster.broker_configs == {"2": {"log.retention.ms": "5"}, "": {"auto.leader.rebalance.enable": "true"}}
        assert [change.operation for change in cluster.alterations[0].resources[0].changes] == [0, 1, 2]
        found = admin.describe_broker_config(2)
        assert (found["log.retention.ms"].source, found["node.id"].is_read_only) == ("DYNAMIC_BROKER_CONFIG", True)
        (entry,) = admin.describe_broker_config(None).values()
        assert (entry.name, entry.source) == ("auto.leader.rebalance.enable", "DYNAMIC_DEFAULT_BROKER_CONFIG")
        for node_id, error in ((-1, ValueError), ("1", TypeError), (True, TypeError)):
            with pytest.raises(error, match="node_id"):
                admin.alter_broker_config(node_id, {"log.retention.ms": 5})  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="changes"):
            admin.alter_broker_config(1, ["log.retention.ms"])  # type: ignore[arg-type]


def test_altering_waits_until_every_broker_has_heard_of_it(cluster: FakeCluster) -> None:
    cluster.create_topic("t")
    with Admin(cluster.bootstrap) as admin:
        admin.list_topics()
        cluster.metadata_offset = cluster.heard_offset + 5
        admin.alter_topic_config("t", {"retention.ms": 5})
        assert cluster.heard_offset > cluster.metadata_offset
        assert cluster.configs["t"] == {"retention.ms": "5"}
        with pytest.raises(UnknownTopicOrPartitionError, match="nope"):
            admin.alter_topic_config("nope", {"retention.ms": 5})


def test_the_configurations_of_many_topics_are_altered_in_one_request(cluster: FakeCluster) -> None:
    for name in ("t", "u"):
        cluster.create_topic(name)
    with Admin(cluster.bootstrap) as admin:
        changes = {name: {"retention.ms": 5} for name in ("t", "nope", "u")}
        checked = admin.alter_topic_configs(changes, validate_only=True)
        assert cluster.configs["t"] == {} and cluster.alterations[-1].validate_only
        cluster.metadata_offset = cluster.heard_offset + 5
        found = admin.alter_topic_configs(changes)
        assert cluster.heard_offset > cluster.metadata_offset
        for errors in (checked, found):
            assert list(errors) == ["t", "nope", "u"] and errors["t"] is None and errors["u"] is None
            assert isinstance(errors["nope"], UnknownTopicOrPartitionError)
        assert cluster.configs["t"] == cluster.configs["u"] == {"retention.ms": "5"}
        assert len(cluster.alterations) == 2
        for wrong in (["t"], {"t": ["retention.ms"]}):
            with pytest.raises(TypeError, match="changes"):
                admin.alter_topic_configs(wrong)  # type: ignore[arg-type]


def test_validating_changes_nothing_and_waits_for_nobody(cluster: FakeCluster) -> None:
    cluster.create_topic("t")
    with Admin(cluster.bootstrap) as admin:
        cluster.metadata_offset = 10**9
        admin.alter_topic_config("t", {"retention.ms": 5}, validate_only=True)
        assert cluster.configs["t"] == {} and cluster.alterations[-1].validate_only


# -- deletion ----------------------------------------------------------------------------------------------------------


def _append(cluster: FakeCluster, partition: int, count: int) -> None:
    for _ in range(count):
        cluster.append("t", partition, build_batch([b"v"], timestamps_ms=1))


def test_records_are_deleted_by_their_leaders(cluster: FakeCluster) -> None:
    cluster.create_topic("t", 3)
    for partition in range(3):
        _append(cluster, partition, 5)
    with Admin(cluster.bootstrap) as admin:
        wanted = {TopicPartition("t", partition): partition + 1 for partition in range(3)}
        assert admin.delete_records(wanted) == wanted
    assert sorted((node, request.partitions[0].partition) for node, request in cluster.deletions) == [
        (1, 0),
        (2, 1),
        (3, 2),
    ]


def test_leaders_tell_the_producers_that_they_know(cluster: FakeCluster) -> None:
    cluster.create_topic("t", 3)
    partitions = [TopicPartition("t", partition) for partition in range(3)]
    known = {partitions[0]: [ProducerState(7, 1, 41, 1_000), ProducerState(8, 0, 2, 2_000)], partitions[2]: []}
    cluster.known_producers = known
    with Admin(cluster.bootstrap) as admin:
        found = admin.describe_producers(partitions)
        assert found == {tp: tuple(known.get(tp, ())) for tp in partitions}
        with pytest.raises(UnknownTopicOrPartitionError, match="partitions 0 to 2, not 3"):
            admin.describe_producers([TopicPartition("t", 3)])


def test_everything_is_what_was_there_when_the_first_attempt_was_made(cluster: FakeCluster) -> None:
    """An answer that was lost is asked for again; what was written meanwhile is not to be deleted by that."""
    cluster.create_topic("t")
    _append(cluster, 0, 5)
    cluster.fail_delete("t", 0, RequestTimedOutError("a replica is late"), NotLeaderOrFollowerError("moving"))
    with Admin(cluster.bootstrap, retry_backoff_ms=1) as admin:
        assert admin.delete_records({TopicPartition("t", 0): -1}) == {TopicPartition("t", 0): 5}
        _append(cluster, 0, 5)
    assert [request.partitions[0].before_offset for _, request in cluster.deletions] == [5, 5, 5]


def test_a_deletion_that_is_asked_for_again_deletes_nothing_of_a_topic_made_anew(cluster: FakeCluster) -> None:
    cluster.create_topic("t")
    _append(cluster, 0, 5)
    cluster.on_delete_records = lambda: (cluster.delete_topic("t"), cluster.create_topic("t"), _append(cluster, 0, 5))
    cluster.fail_delete("t", 0, RequestTimedOutError("a replica is late"))
    with (
        Admin(cluster.bootstrap, retry_backoff_ms=1) as admin,
        pytest.raises(UnknownTopicIdError, match="topic 't' with id id-1-of-t was deleted"),
    ):
        admin.delete_records({TopicPartition("t", 0): -1})
    assert cluster.logs[TopicPartition("t", 0)].log_start_offset == 0


def test_a_deletion_that_is_refused_is_an_error_with_the_bounds(cluster: FakeCluster) -> None:
    cluster.create_topic("t")
    cluster.fail_delete("t", 0, OffsetOutOfRangeError("no", log_start_offset=3, log_end_offset=8))
    with Admin(cluster.bootstrap) as admin:
        with pytest.raises(OffsetOutOfRangeError) as caught:
            admin.delete_records({TopicPartition("t", 0): 9})
        assert (caught.value.log_start_offset, caught.value.log_end_offset) == (3, 8)
        with pytest.raises(UnknownTopicOrPartitionError, match="partitions 0 to 0, not 4"):
            admin.delete_records({TopicPartition("t", 4): 9})
        assert admin.delete_records({}) == {}


def test_a_deletion_that_some_replica_never_confirms_times_out(cluster: FakeCluster) -> None:
    cluster.create_topic("t")
    cluster.fail_delete("t", 0, *[RequestTimedOutError("replica 2 is late")] * 1000)
    with (
        Admin(cluster.bootstrap, retry_backoff_ms=1, default_api_timeout_ms=2_000) as admin,
        pytest.raises(TimedOutError, match="replica 2 is late"),
    ):
        admin.delete_records({TopicPartition("t", 0): 0})


def test_more_partitions_than_one_call_takes_are_asked_for_in_several(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_leader, "PARTITIONS_PER_CALL_MAX", 2)
    cluster.create_topic("t", 9)
    wanted = {TopicPartition("t", partition): 0 for partition in range(9)}
    with Admin(cluster.bootstrap) as admin:
        assert admin.delete_records(wanted) == wanted
        assert len(admin.list_offsets(list(wanted))) == 9
    assert sorted(len(request.partitions) for _, request in cluster.deletions) == [1, 1, 1, 2, 2, 2]


def test_offsets_of_many_topics_take_one_look_at_the_metadata(cluster: FakeCluster) -> None:
    names = [f"t{number}" for number in range(50)]
    for name in names:
        cluster.create_topic(name)
    with Admin(cluster.bootstrap) as admin:
        admin.list_topics()
        before = cluster.metadata_requests
        assert len(admin.list_offsets([TopicPartition(name, 0) for name in names])) == 50
        assert cluster.metadata_requests == before + 1
        missing = TopicPartition("nope", 0)
        with pytest.raises(UnknownTopicOrPartitionError, match="topic 'nope' does not exist"):
            admin.list_offsets([missing, *(TopicPartition(name, 0) for name in names)])


@pytest.fixture
def moved(cluster: FakeCluster) -> FakeCluster:
    """Three partitions, led by nodes 1, 2 and 3; the preferred leader of each is node 1."""
    cluster.create_topic("t", 3)
    return cluster


def test_preferred_leaders_are_elected(moved: FakeCluster) -> None:
    with Admin(moved.bootstrap) as admin:
        found = admin.elect_leaders()
        assert {tp.partition: (r.leader_id, r.error) for tp, r in found.items()} == {1: (1, None), 2: (1, None)}
        (result,) = admin.elect_leaders([TopicPartition("t", 1)]).values()
        assert isinstance(result.error, ElectionNotNeededError) and result.leader_id == 1
        assert admin.elect_leaders([]) == {}


def test_an_election_whose_answer_was_lost_is_not_an_error_the_second_time(moved: FakeCluster) -> None:
    moved.loses_next_election = True
    with Admin(moved.bootstrap, retry_backoff_ms=1) as admin:
        (result,) = admin.elect_leaders([TopicPartition("t", 1)]).values()
    assert (result.leader_id, result.error) == (1, None)


def test_partitions_are_named_as_everywhere(moved: FakeCluster) -> None:
    wrong: object
    with Admin(moved.bootstrap) as admin:
        for wrong in ("t", TopicPartition("t", 0), [("t",)], [("t", "0")]):
            with pytest.raises((TypeError, ValueError)):
                admin.elect_leaders(wrong)  # type: ignore[arg-type]
