"""Changing a topic's configuration: whole or not at all."""

from __future__ import annotations

from metadata.controller.config import ControllerConfig
from metadata.requests import AlterConfigsRequest, AlterConfigsResource
from penstock.errors import InvalidConfigError, InvalidRequestError, PolicyViolationError, UnknownTopicOrPartitionError
from tests.unit.metadata.harness import CLUSTER_ID, Cluster, is_error


def test_keys_are_set_changed_and_returned_to_their_default() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t", config={"retention.ms": "1"})
    assert cluster.configure("t", {"retention.ms": "2", "segment.ms": " 5 "}) is None
    assert cluster.image.topic_config("t") == {"retention.ms": "2", "segment.ms": "5"}
    assert cluster.configure("t", {"retention.ms": None, "segment.bytes": None}) is None
    assert cluster.image.topic_config("t") == {"segment.ms": "5"}


def test_value_that_is_set_already_makes_no_record() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t", config={"retention.ms": "1"})
    end = cluster.next_offset
    assert cluster.configure("t", {"retention.ms": "1", "segment.ms": None}) is None
    assert cluster.next_offset == end


def test_one_bad_key_spoils_all_changes_of_its_topic() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t", config={"max.compaction.lag.ms": "10"})
    for changes, says in (
        ({"segment.ms": "5", "retention.ms": "x"}, "retention.ms"),
        ({"segment.ms": "5", "retention.mss": "1"}, "did you mean"),
        ({"segment.ms": "5", "retention.mss": None}, "did you mean"),
        ({"segment.ms": "5", "min.insync.replicas": "2"}, "replication factor 1"),
        ({"segment.ms": "5", "min.compaction.lag.ms": "11"}, "max.compaction.lag.ms"),
    ):
        assert is_error(cluster.configure("t", changes), InvalidConfigError, says)
    assert cluster.image.topic_config("t") == {"max.compaction.lag.ms": "10"}


def test_resources_stand_alone() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t")
    request = AlterConfigsRequest(
        (
            AlterConfigsResource("topic", "unknown", {}),
            AlterConfigsResource("broker", "1", {}),
            AlterConfigsResource("topic", "t", {"segment.ms": "5"}),
            AlterConfigsResource("topic", "t", {"segment.ms": "6"}),
        )
    )
    results = cluster.commit(cluster.controller.alter_configs(request, 0)).resources
    assert is_error(results[0].error, UnknownTopicOrPartitionError, "unknown")
    assert is_error(results[1].error, InvalidRequestError, "'broker'")
    assert results[2].error is None
    assert is_error(results[3].error, InvalidRequestError, "twice")
    assert cluster.image.topic_config("t") == {"segment.ms": "5"}


def test_validate_only_changes_nothing() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t")
    resource = AlterConfigsResource("topic", "t", {"segment.ms": "5"})
    result = cluster.controller.alter_configs(AlterConfigsRequest((resource,), validate_only=True), 0)
    assert result.records == () and result.response.resources[0].error is None


def test_number_of_records_is_bounded() -> None:
    cluster = Cluster(brokers=1, config=ControllerConfig(CLUSTER_ID, max_records_per_decision=2))
    cluster.create("t")
    assert is_error(cluster.configure("t", {"segment.ms": "5"}), type(None)) is True
    changes = {"segment.ms": "6", "retention.ms": "7", "flush.ms": "8"}
    assert is_error(cluster.configure("t", changes), PolicyViolationError, "2 records")


def test_allowing_unclean_elections_gives_leaderless_partitions_a_leader() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", replication_factor=2)
    first, second = cluster.partition("t").replicas
    cluster.let_die(second)
    cluster.let_die(first)
    cluster.start(second)
    assert cluster.partition("t").leader_id == -1
    assert cluster.configure("t", {"unclean.leader.election.enable": "true"}) is None
    assert (cluster.partition("t").leader_id, cluster.partition("t").isr) == (second, (second,))
    assert cluster.controller.statistics().unclean_elections == 1
