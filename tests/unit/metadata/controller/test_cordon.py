"""A cordoned broker gets no new replica, whoever places it, and keeps what it has (KIP-1066)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from broker.config.dynamic_keys import BROKER_CONFIGS
from metadata.controller.config import ControllerConfig
from metadata.cordon import CORDON_RESOURCE, CORDONED_LOG_DIRS, is_cordoned
from metadata.records import ALL_BROKERS, BROKER_RESOURCE
from penstock.errors import (
    ApiError,
    InvalidConfigError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
)
from penstock.messages.configs import ConfigResource
from penstock.messages.topics import CreateInternalTopicRequest, NewPartitions, NewTopic, ReplicaAssignment
from penstock.topic_names import CONSUMER_OFFSETS
from tests.unit.metadata.harness import CLUSTER_ID, SESSION_TIMEOUT_MS, Cluster

CONFIG = ControllerConfig(CLUSTER_ID, session_timeout_ms=SESSION_TIMEOUT_MS, broker_configs=BROKER_CONFIGS)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(3, CONFIG)


def cordon(cluster: Cluster, broker_id: int | None, value: str | None = "*") -> None:
    name = ALL_BROKERS if broker_id is None else str(broker_id)
    assert cluster.configure(name, {CORDONED_LOG_DIRS: value}, BROKER_RESOURCE) is None


def cordoned(cluster: Cluster) -> set[int]:
    image = cluster.image
    return {id_ for id_, broker in image.brokers.items() if is_cordoned(broker, image.configs)}


def replicas_of(cluster: Cluster, name: str) -> set[int]:
    return {replica for p in cluster.image.topics_by_name[name].partitions.values() for replica in p.replicas}


def refused(error: ApiError | None, kind: type[ApiError], *words: str) -> None:
    assert isinstance(error, kind), error
    assert all(word in str(error) for word in words), error


# -- placement ---------------------------------------------------------------------------------------------------------


def test_nothing_new_is_placed_on_a_cordoned_broker_and_what_it_has_stays(cluster: Cluster) -> None:
    cluster.create("before", 6, 3)
    cordon(cluster, 2)
    cluster.create("after", 6, 2)
    assert replicas_of(cluster, "after") == {1, 3} and replicas_of(cluster, "before") == {1, 2, 3}
    assert all(2 in p.isr for p in cluster.image.topics_by_name["before"].partitions.values())
    cluster.add_partitions(NewPartitions("after", 12))
    assert replicas_of(cluster, "after") == {1, 3}
    cordon(cluster, 2, None)
    cluster.create("again", 6, 2)
    assert replicas_of(cluster, "again") == {1, 2, 3}


@pytest.mark.parametrize("absent", [True, False])
def test_too_few_brokers_that_are_not_cordoned_are_named_in_the_error(cluster: Cluster, absent: bool) -> None:
    cluster.create("t", 1, 3)
    if absent:
        cluster.let_die(2)
    cordon(cluster, 2)
    words = ("needs 3 brokers, and 2 of the 3", "broker 2 is cordoned", "penstock brokers uncordon 2")
    refused(cluster.create("u", 1, 3).error, InvalidReplicationFactorError, *words)
    refused(cluster.add_partitions(NewPartitions("t", 2))[0].error, InvalidReplicationFactorError, *words)
    for one in (1, 3):
        cordon(cluster, one)
    refused(cluster.create("u").error, InvalidReplicationFactorError, "brokers 1, 2, 3 are cordoned")


def test_a_cluster_that_is_cordoned_but_for_an_absent_broker_needs_one_in_service(cluster: Cluster) -> None:
    cluster.let_die(2)
    for one in (1, 3):
        cordon(cluster, one)
    refused(cluster.create("u").error, InvalidReplicationFactorError, "that are not cordoned are fenced")


def test_an_assignment_by_hand_to_a_cordoned_broker_is_refused(cluster: Cluster) -> None:
    cluster.create("t", 1, 2)
    cordon(cluster, 2)
    made = cluster.create_all(NewTopic("u", assignment=(ReplicaAssignment(0, (1, 2)),)))[0]
    refused(made.error, InvalidReplicaAssignmentError, "u-0", "broker 2 is cordoned")
    added = cluster.add_partitions(NewPartitions("t", 2, (ReplicaAssignment(1, (1, 2)),)))[0]
    refused(added.error, InvalidReplicaAssignmentError, "t-1", "broker 2 is cordoned")


def test_internal_topics_are_not_made_on_a_cordoned_broker(cluster: Cluster) -> None:
    cordon(cluster, 3)
    epoch = cluster.image.brokers[1].broker_epoch

    def make(factor: int) -> None:
        request = CreateInternalTopicRequest(1, epoch, CONSUMER_OFFSETS, 4, factor)
        cluster.commit(cluster.controller.create_internal_topic(request, cluster.now_ms))

    with pytest.raises(InvalidReplicationFactorError, match="broker 3 is cordoned"):
        make(3)
    make(2)
    assert replicas_of(cluster, CONSUMER_OFFSETS) == {1, 2}


# -- reassignments -----------------------------------------------------------------------------------------------------


def test_no_reassignment_brings_a_replica_to_a_cordoned_broker_and_those_there_may_stay(cluster: Cluster) -> None:
    cluster.create_all(NewTopic("t", assignment=(ReplicaAssignment(0, (1, 2)),)))
    cordon(cluster, 2)
    cordon(cluster, 3)
    refused(cluster.reassign("t", (1, 3)), InvalidReplicaAssignmentError, "t-0", "broker 3 is cordoned")
    assert cluster.reassign("t", (2, 1)) is None
    assert cluster.partition("t").replicas == (2, 1)


def test_a_move_that_was_under_way_may_end_be_cancelled_or_be_given_again(cluster: Cluster) -> None:
    cluster.create_all(NewTopic("t", assignment=(ReplicaAssignment(0, (1, 2)),)))
    assert cluster.reassign("t", (1, 3)) is None
    cordon(cluster, 3)
    assert cluster.reassign("t", (3, 1)) is None
    assert cluster.reassign("t", None) is None
    assert cluster.partition("t").replicas == (1, 2)


def test_the_schedule_moves_nothing_to_a_cordoned_broker() -> None:
    cluster = Cluster(2, replace(CONFIG, replica_balance_enable=True, replica_balance_check_interval_ms=1_000))
    cluster.create("t", 8, 2)
    cluster.start(3)
    cordon(cluster, 3)

    def run() -> None:
        for _ in range(20):
            cluster.now_ms += 1_000
            for broker_id in (1, 2, 3):
                cluster.heartbeat(broker_id)
            cluster.tick()

    def moves() -> bool:
        return any(p.is_reassigning for p in cluster.image.topics_by_name["t"].partitions.values())

    run()
    assert not moves()
    cordon(cluster, 3, None)
    run()
    assert moves()


# -- who is cordoned ---------------------------------------------------------------------------------------------------


def test_a_broker_is_cordoned_when_all_its_log_dirs_that_are_online_are(cluster: Cluster) -> None:
    cluster.start(4, log_dirs=("a", "b"))
    reported: Mapping[tuple[str, ...], bool] = {("a",): False, ("a", "b"): True, ("b", "stranger"): False, (): False}
    for dirs, is_so in reported.items():
        cluster.heartbeat(4, cordoned=dirs)
        assert (4 in cordoned(cluster)) is is_so
    cluster.heartbeat(4, cordoned=("a",))
    cluster.heartbeat(4, cordoned=("a",), offline=("b",))
    cluster.heartbeat(4, cordoned=("a",), offline=("b",))
    assert 4 in cordoned(cluster)


def test_a_heartbeat_that_tells_the_same_makes_no_record(cluster: Cluster) -> None:
    cluster.start(4, log_dirs=("a", "b"))
    cluster.heartbeat(4, cordoned=("b", "a"))
    before = len(cluster.log)
    cluster.heartbeat(4, cordoned=("a", "b"))
    assert len(cluster.log) == before


def test_a_cordon_outlives_a_failover_the_absence_of_its_broker_and_a_new_process(cluster: Cluster) -> None:
    cluster.start(4, log_dirs=("a",))
    cluster.heartbeat(4, cordoned=("a",))
    cluster.fail_over()
    assert cordoned(cluster) == {4}
    cluster.now_ms += SESSION_TIMEOUT_MS
    for one in (1, 2, 3):
        cluster.heartbeat(one)
    cluster.tick()
    assert cordoned(cluster) == {4}
    cluster.come_back(4, log_dirs=("a",))
    assert cordoned(cluster) == {4}
    refused(cluster.create("t", 1, 4).error, InvalidReplicationFactorError, "broker 4 is cordoned")


def test_every_dir_holds_for_a_broker_of_an_older_release_which_tells_nothing(cluster: Cluster) -> None:
    cordon(cluster, 2)
    cluster.heartbeat(2, cordoned=())
    assert cordoned(cluster) == {2}


def test_a_value_for_all_brokers_holds_for_each_without_its_own(cluster: Cluster) -> None:
    cordon(cluster, None)
    cordon(cluster, 1, "")
    assert cordoned(cluster) == {2, 3}


def test_an_empty_list_uncordons_at_once_whatever_the_broker_told_by_its_file(cluster: Cluster) -> None:
    cluster.start(4, log_dirs=("a",))
    cluster.heartbeat(4, cordoned=("a",))
    cordon(cluster, 4, "")
    assert not cordoned(cluster)


@pytest.mark.parametrize("whose", [4, None])
def test_a_broker_that_is_away_is_uncordoned_when_its_configuration_names_nothing_more(
    cluster: Cluster, whose: int | None
) -> None:
    cluster.start(4, log_dirs=("a",))
    cordon(cluster, whose)
    cluster.heartbeat(4, cordoned=("a",))
    cluster.let_die(4)
    cordon(cluster, whose, None)
    assert not cordoned(cluster)


def test_a_broker_that_is_forgotten_takes_its_cordon_with_it(cluster: Cluster) -> None:
    cluster.start(4, log_dirs=("a",))
    cordon(cluster, 4)
    cluster.heartbeat(4, cordoned=("a",))
    cluster.now_ms += 2 * SESSION_TIMEOUT_MS
    for one in (1, 2, 3):
        cluster.heartbeat(one)
    cluster.tick()
    assert cluster.unregister(4) is None
    assert ConfigResource(CORDON_RESOURCE, "4") not in cluster.image.configs
    cluster.start(4, log_dirs=("a",))
    assert not cordoned(cluster)


@pytest.mark.parametrize("value", ["/a,/a", ","])
def test_a_value_that_is_no_list_is_refused(cluster: Cluster, value: str) -> None:
    error = cluster.configure("2", {CORDONED_LOG_DIRS: value}, BROKER_RESOURCE)
    assert isinstance(error, InvalidConfigError) and CORDONED_LOG_DIRS in str(error)
