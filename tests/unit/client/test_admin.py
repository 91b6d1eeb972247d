"""Admin against a fake cluster: what it tells, whom it asks, and its errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import Admin, TopicPartition
from penstock.errors import TopicExistsError, UnknownTopicOrPartitionError
from tests.support.fake_broker import FakeCluster


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(3) as found:
        yield found


def test_a_topic_lives_and_dies(cluster: FakeCluster) -> None:
    with Admin(cluster.bootstrap) as admin:
        made = admin.create_topic("t", partitions=3, replication_factor=1, config={"retention.ms": 5, "flag": True})
        assert made.partition_count == 3 and made.config == {"retention.ms": "5", "flag": "true"}
        assert admin.list_topics() == ["t"]
        assert admin.describe_topic("t") == made
        with pytest.raises(TopicExistsError):
            admin.create_topic("t")
        admin.delete_topic("t")
        assert admin.list_topics() == []
        with pytest.raises(UnknownTopicOrPartitionError, match="'t' does not exist"):
            admin.describe_topic("t")


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
