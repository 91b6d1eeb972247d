"""Changing a topic's configuration: whole or not at all."""

from __future__ import annotations

import pytest

from metadata.controller.config import ControllerConfig
from metadata.topic_config import effective_topic_config
from penstock.errors import InvalidConfigError, InvalidRequestError, PolicyViolationError, UnknownTopicOrPartitionError
from penstock.messages.configs import AlterConfigsRequest, AlterConfigsResource, ConfigChange, ConfigOperation
from tests.unit.metadata.harness import CLUSTER_ID, Cluster, is_error

SET, DELETE, APPEND, SUBTRACT = ConfigOperation


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
            AlterConfigsResource("topic", "unknown", ()),
            AlterConfigsResource("group", "1", ()),
            AlterConfigsResource("topic", "t", (ConfigChange("segment.ms", SET, "5"),)),
        )
    )
    results = cluster.commit(cluster.controller.alter_configs(request, 0)).resources
    assert is_error(results[0].error, UnknownTopicOrPartitionError, "unknown")
    assert is_error(results[1].error, InvalidRequestError, "'group'")
    assert results[2].error is None
    assert cluster.image.topic_config("t") == {"segment.ms": "5"}


def test_a_resource_or_a_key_that_is_named_twice_is_refused_every_time() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t")
    change = ConfigChange("segment.ms", SET, "5")
    resource = AlterConfigsResource("topic", "t", (change,))
    results = cluster.commit(cluster.controller.alter_configs(AlterConfigsRequest((resource, resource)), 0)).resources
    assert len(results) == 2 and all(
        is_error(r.error, InvalidRequestError, "topic t is named 2 times") for r in results
    )
    assert is_error(
        cluster.alter_configs("t", change, ConfigChange("segment.ms", DELETE)), InvalidRequestError, "2 times"
    )
    assert cluster.image.topic_config("t") == {}


def test_a_request_without_a_resource_is_refused() -> None:
    cluster = Cluster(brokers=1)
    with pytest.raises(InvalidRequestError, match="names no resource"):
        cluster.controller.alter_configs(AlterConfigsRequest(()), 0)


def test_an_operation_that_is_not_known_is_refused() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t")
    assert is_error(cluster.alter_configs("t", ConfigChange("segment.ms", 4, "5")), InvalidRequestError, "operation 4")


def test_lists_grow_and_shrink_item_by_item() -> None:
    """KIP-339: from the effective list, so that a default is the beginning of what is appended to it."""
    cluster = Cluster(brokers=1)
    cluster.create("t")
    assert cluster.alter_configs("t", ConfigChange("cleanup.policy", APPEND, "compact")) is None
    assert cluster.image.topic_config("t") == {"cleanup.policy": "delete,compact"}
    assert cluster.alter_configs("t", ConfigChange("cleanup.policy", APPEND, "delete")) is None
    assert cluster.alter_configs("t", ConfigChange("cleanup.policy", SUBTRACT, "delete")) is None
    assert cluster.image.topic_config("t") == {"cleanup.policy": "compact"}
    for change, says in (
        (ConfigChange("cleanup.policy", APPEND, "shrink"), "shrink"),
        (ConfigChange("retention.ms", APPEND, "1"), "not a list"),
        (ConfigChange("cleanup.polisy", APPEND, "delete"), "did you mean cleanup.policy"),
    ):
        assert is_error(cluster.alter_configs("t", change), InvalidConfigError, says)
    assert cluster.image.topic_config("t") == {"cleanup.policy": "compact"}


def test_the_cleanup_policy_may_be_empty_whichever_way_it_gets_so() -> None:
    """KIP-1161: neither deleted nor compacted."""
    cluster = Cluster(brokers=1)
    cluster.create("t")
    for change in (ConfigChange("cleanup.policy", SUBTRACT, "delete"), ConfigChange("cleanup.policy", SET, " ")):
        assert cluster.alter_configs("t", change) is None
        assert cluster.image.topic_config("t") == {"cleanup.policy": ""}
    assert effective_topic_config(cluster.image.topic_config("t"))["cleanup.policy"] == ()
    assert cluster.alter_configs("t", ConfigChange("cleanup.policy", APPEND, "compact")) is None
    assert cluster.image.topic_config("t") == {"cleanup.policy": "compact"}
    assert is_error(cluster.alter_configs("t", ConfigChange("cleanup.policy", SET, ",")), InvalidConfigError, "empty")


def test_validate_only_changes_nothing() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t")
    resource = AlterConfigsResource("topic", "t", (ConfigChange("segment.ms", SET, "5"),))
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


def replaced(cluster: Cluster, resource_type: str, name: str, *changes: ConfigChange) -> Exception | None:
    resource = AlterConfigsResource(resource_type, name, changes, replace_all=True)
    return cluster.commit(cluster.controller.alter_configs(AlterConfigsRequest((resource,)), 0)).resources[0].error


def test_a_whole_configuration_takes_the_place_of_the_one_before() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t", config={"retention.ms": "1", "segment.ms": "5"})
    assert replaced(cluster, "topic", "t", ConfigChange("segment.ms", SET, "6")) is None
    assert cluster.image.topic_config("t") == {"segment.ms": "6"}
    assert replaced(cluster, "topic", "t", ConfigChange("retention.ms", APPEND, "6")) is not None
    assert cluster.image.topic_config("t") == {"segment.ms": "6"}
    assert replaced(cluster, "topic", "t") is None
    assert cluster.image.topic_config("t") == {}


def test_a_whole_configuration_is_checked_like_any_other() -> None:
    cluster = Cluster(brokers=1)
    assert is_error(replaced(cluster, "topic", "t"), UnknownTopicOrPartitionError, "t")
    assert is_error(replaced(cluster, "group", "g"), InvalidRequestError, "'group'")
    assert is_error(replaced(cluster, "broker", "x"), InvalidRequestError, "'x'")


def test_deletions_beside_a_whole_configuration_change_nothing_of_it() -> None:
    """So a request that an older controller reads as its changes alone means the same to a newer one."""
    cluster = Cluster(brokers=1)
    cluster.create("t", config={"retention.ms": "1", "segment.ms": "5"})
    changes = (ConfigChange("segment.ms", SET, "6"), ConfigChange("retention.ms", DELETE))
    assert replaced(cluster, "topic", "t", *changes) is None
    assert cluster.image.topic_config("t") == {"segment.ms": "6"}
