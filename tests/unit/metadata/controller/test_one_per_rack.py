"""With `replica.placement.one.per.rack` no partition gets two replicas in one rack, whoever places them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.config.dynamic_keys import BROKER_CONFIGS
from metadata.controller.config import ControllerConfig
from metadata.controller.configuration.cluster_defaults import ONE_PER_RACK
from metadata.records import ALL_BROKERS, BROKER_RESOURCE
from penstock.errors import ApiError, InvalidReplicaAssignmentError, InvalidReplicationFactorError
from penstock.messages.topics import CreateInternalTopicRequest, NewTopic, ReplicaAssignment
from penstock.topic_names import CONSUMER_OFFSETS
from raft.voters import NO_VOTERS, VoterSet
from tests.support.voters import voters_of
from tests.unit.metadata.harness import CLUSTER_ID, SESSION_TIMEOUT_MS, Cluster

CONFIG = ControllerConfig(
    CLUSTER_ID, session_timeout_ms=SESSION_TIMEOUT_MS, broker_configs=BROKER_CONFIGS, one_replica_per_rack=True
)
HOSTS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "b", 6: "c"}


def a_cluster(config: ControllerConfig = CONFIG, seed: int = 1, voters: VoterSet = NO_VOTERS) -> Cluster:
    made = Cluster(0, config, seed, voters)
    for broker_id, rack in HOSTS.items():
        made.start(broker_id, rack=rack)
    return made


def racks_of(cluster: Cluster, name: str) -> list[list[str]]:
    partitions = cluster.image.topics_by_name[name].partitions
    return [[HOSTS[replica] for replica in partitions[number].replicas] for number in sorted(partitions)]


def refused(error: ApiError | None, kind: type[ApiError], *words: str) -> None:
    assert isinstance(error, kind), error
    assert all(word in str(error) for word in (*words, ONE_PER_RACK)), error


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("away", [(), (6,), (1, 3), (1, 2)])
def test_placement_puts_no_two_replicas_in_a_rack_also_while_brokers_are_away(seed: int, away: tuple[int, ...]) -> None:
    cluster = a_cluster(seed=seed)
    cluster.let_die(*away)
    cluster.create("t", 12, 3)
    assert all(sorted(racks) == ["a", "b", "c"] for racks in racks_of(cluster, "t"))


def test_more_replicas_than_racks_are_refused_and_without_the_key_they_share_one() -> None:
    cluster = a_cluster()
    refused(cluster.create("t", 1, 4).error, InvalidReplicationFactorError, "4 racks", "in 3")
    assert cluster.configure(ALL_BROKERS, {ONE_PER_RACK: "false"}, BROKER_RESOURCE) is None
    cluster.create("t", 1, 4)
    assert len(racks_of(cluster, "t")[0]) == 4


def test_brokers_without_a_rack_are_each_one() -> None:
    cluster = Cluster(3, CONFIG)
    cluster.create("t", 3, 3)
    assert all(len(p.replicas) == 3 for p in cluster.image.topics_by_name["t"].partitions.values())


def test_an_assignment_by_hand_is_held_to_it_too() -> None:
    cluster = a_cluster()
    topic = NewTopic("t", -1, -1, {}, (ReplicaAssignment(0, (1, 2, 3)),))
    refused(cluster.create_all(topic)[0].error, InvalidReplicaAssignmentError, "t-0", "1 and 2")


def test_a_move_may_not_bring_two_replicas_into_one_rack() -> None:
    cluster = a_cluster()
    cluster.create_all(NewTopic("t", -1, -1, {}, (ReplicaAssignment(0, (1, 3, 6)),)))
    refused(cluster.reassign("t", (2, 1, 6)), InvalidReplicaAssignmentError, "2 and 1")
    assert cluster.reassign("t", (2, 4, 6)) is None


def test_two_that_share_a_rack_may_not_go_on_to_share_another() -> None:
    cluster = a_cluster(replace(CONFIG, one_replica_per_rack=False))
    cluster.create_all(NewTopic("t", -1, -1, {}, (ReplicaAssignment(0, (1, 2)),)))
    assert cluster.configure(ALL_BROKERS, {ONE_PER_RACK: "true"}, BROKER_RESOURCE) is None
    refused(cluster.reassign("t", (3, 4)), InvalidReplicaAssignmentError, "3 and 4")
    assert cluster.reassign("t", (1, 3)) is None


def test_a_partition_from_before_the_key_is_mended_step_by_step() -> None:
    cluster = a_cluster(replace(CONFIG, one_replica_per_rack=False))
    cluster.create_all(NewTopic("t", -1, -1, {}, (ReplicaAssignment(0, (3, 4, 5)),)))
    assert cluster.configure(ALL_BROKERS, {ONE_PER_RACK: "true"}, BROKER_RESOURCE) is None
    assert cluster.reassign("t", (3, 4, 1)) is None
    assert cluster.reassign("t", None) is None  # a cancelled one is as it was
    assert cluster.reassign("t", (5, 4, 3)) is None


@pytest.mark.parametrize(
    ("voters", "replicas"),
    [
        pytest.param((1, 3, 6), 3, id="a voter in each rack"),
        pytest.param((1, 2), 3, id="all voters in one rack, and brokers in others"),
        pytest.param((101, 102, 103), 3, id="controllers alone"),
    ],
)
def test_an_internal_topic_has_a_replica_in_as_many_racks_as_it_may(voters: tuple[int, ...], replicas: int) -> None:
    cluster = a_cluster(voters=voters_of(*voters))
    assert internal_replicas(cluster) == replicas


def test_the_internal_topic_of_one_host_has_one_replica() -> None:
    cluster = Cluster(0, CONFIG, voters=voters_of(1, 2, 3))
    for broker_id in (1, 2, 3):
        cluster.start(broker_id, rack="a")
    assert internal_replicas(cluster) == 1


def internal_replicas(cluster: Cluster) -> int:
    request = CreateInternalTopicRequest(1, cluster.image.brokers[1].broker_epoch, CONSUMER_OFFSETS, 2, -1, {})
    cluster.commit(cluster.controller.create_internal_topic(request, cluster.now_ms))
    return len(cluster.image.topics_by_name[CONSUMER_OFFSETS].partitions[0].replicas)
