"""A broker is forgotten when nobody needs it: no replica is there or on its way, and its process is gone (KIP-631)."""

from __future__ import annotations

import random

import pytest

from metadata.controller.controller import Controller
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, image_records
from metadata.records import BROKER_RESOURCE, ConfigRecord, PartitionChangeRecord, UnregisterBrokerRecord
from metadata.snapshot import decode_snapshot, encode_snapshot, snapshot_id_of
from penstock.errors import (
    BrokerIdNotRegisteredError,
    InvalidRegistrationError,
    InvalidReplicaAssignmentError,
    InvariantViolation,
    PolicyViolationError,
)
from penstock.messages.configs import ConfigResource
from penstock.messages.nodes.brokers import BrokerHeartbeatRequest, HostedReplicas
from penstock.messages.nodes.partitions import AlterPartitionRequest
from penstock.messages.topics import NewTopic, ReplicaAssignment
from tests.unit.metadata.harness import CLUSTER_ID, EPOCH, SESSION_TIMEOUT_MS, Cluster, is_error, raised_by


def cluster_with(*replicas: int, brokers: int = 4) -> Cluster:
    """One partition with these replicas."""
    cluster = Cluster(brokers)
    assert cluster.create_all(NewTopic("t", assignment=(ReplicaAssignment(0, replicas),)))[0].error is None
    return cluster


def refused(cluster: Cluster, broker_id: int, *words: str) -> None:
    """With these words, and nothing changes."""
    before = cluster.image
    assert is_error(cluster.unregister(broker_id), PolicyViolationError, *words)
    assert cluster.image == before


def test_a_broker_that_is_stopped_and_has_no_replica_is_forgotten() -> None:
    cluster = cluster_with(1, 2)
    assert cluster.heartbeat(4, stop=True).should_shut_down
    assert cluster.unregister(4) is None, "it was let go: nobody has to wait for the end of its session"
    cluster.let_die(3)
    assert cluster.unregister(3) is None
    assert sorted(cluster.image.brokers) == [1, 2]
    statistics = cluster.controller.statistics()
    assert (statistics.brokers, statistics.active_brokers, statistics.fenced_brokers) == (2, 2, 0)
    assert [p.replicas for p in cluster.image.topics_by_name["t"].partitions.values()] == [(1, 2)]
    cluster.create("u", 20, 2)
    placed = {replica for p in cluster.image.topics_by_name["u"].partitions.values() for replica in p.replicas}
    assert placed == {1, 2}, "nothing is placed there any more"


def test_a_broker_that_has_a_replica_is_kept_and_the_answer_says_how_it_goes() -> None:
    cluster = cluster_with(1, 2, 4)
    refused(cluster, 4, "replicas of 1 partition, such as t-0", "penstock brokers drain 4")
    cluster.let_die(4)
    assert 4 not in cluster.partition("t").isr
    refused(cluster, 4, "penstock brokers drain 4")
    assert cluster.reassign("t", (1, 2)) is None
    assert cluster.unregister(4) is None


def test_the_last_copy_and_an_eligible_one_are_replicas_too() -> None:
    cluster = cluster_with(3, 4)
    cluster.configure("t", {"min.insync.replicas": "2"})
    cluster.let_die(4)
    cluster.let_die(3)
    partition = cluster.partition("t")
    assert (partition.isr, partition.elr, partition.leader_id) == ((3,), (4,), -1)
    for broker_id in (3, 4):
        refused(cluster, broker_id, "replicas of 1 partition")


def test_the_target_of_a_move_is_kept_and_so_is_its_source() -> None:
    cluster = cluster_with(1, 3)
    assert cluster.reassign("t", (1, 4)) is None
    assert cluster.partition("t").adding_replicas == (4,)
    cluster.let_die(3, 4)
    refused(cluster, 4, "t-0")
    refused(cluster, 3, "t-0")
    assert cluster.reassign("t", None) is None
    assert cluster.unregister(4) is None, "the move was cancelled"


def test_a_broker_that_runs_is_kept_fenced_or_not() -> None:
    cluster = cluster_with(1)
    refused(cluster, 4, "broker 4 runs", f"{SESSION_TIMEOUT_MS} ms", "stop its process first")
    cluster.heartbeat(4, fence=True)
    refused(cluster, 4, "broker 4 runs")
    cluster.register(5)
    refused(cluster, 5, "broker 5 runs")
    cluster.let_die(4, 5)
    assert cluster.unregister(4) is None and cluster.unregister(5) is None


def test_a_new_controller_that_heard_nothing_of_a_fenced_broker_takes_it_for_gone() -> None:
    cluster = cluster_with(1)
    cluster.let_die(4)
    cluster.fail_over()
    refused(cluster, 3, "broker 3 runs")
    assert cluster.unregister(4) is None


def test_one_that_nobody_registered_is_named_as_such_and_so_is_one_that_went() -> None:
    cluster = cluster_with(1)
    cluster.let_die(4)
    epoch = cluster.image.brokers[4].broker_epoch
    assert cluster.unregister(4) is None
    for broker_id in (4, 9, -1):
        assert is_error(cluster.unregister(broker_id), BrokerIdNotRegisteredError, f"broker {broker_id} is not regist")
    heartbeat = BrokerHeartbeatRequest(CLUSTER_ID, 4, epoch)
    late = raised_by(lambda: cluster.controller.heartbeat(heartbeat, cluster.now_ms))
    assert is_error(late, BrokerIdNotRegisteredError, "must register first")
    proposal = AlterPartitionRequest(4, epoch, (cluster.proposal("t", (1,)),))
    late = raised_by(lambda: cluster.controller.alter_partition(proposal, cluster.now_ms))
    assert is_error(late, BrokerIdNotRegisteredError)
    assert is_error(cluster.reassign("t", (1, 4)), InvalidReplicaAssignmentError, "broker 4 is not registered")
    assert cluster.tick() == (), "its session went with it"


def test_who_comes_back_with_the_id_is_a_new_broker_whatever_it_holds() -> None:
    cluster = cluster_with(1, 2, 4)
    held, epoch = cluster.held_by(4), cluster.image.brokers[4].broker_epoch
    cluster.let_die(4)
    cluster.reassign("t", (1, 2))
    before = cluster.partition("t")
    assert cluster.unregister(4) is None
    lost = raised_by(lambda: cluster.register(4, log_dirs=("d",), lost_log_dirs=("old",)))
    assert is_error(lost, InvalidRegistrationError, "it is new")
    again = cluster.register(4, previous_broker_epoch=epoch, log_dirs=("d",), replicas=held)
    assert again > epoch and cluster.image.brokers[4].fenced
    assert not cluster.heartbeat(4).is_fenced
    assert cluster.partition("t") == before, "what its log dirs hold is no replica of the partition"
    refused(cluster, 4, "broker 4 runs")


def test_its_dynamic_configuration_goes_with_it() -> None:
    cluster = cluster_with(1)
    for broker_id in ("4", "3", ""):
        cluster.commit_record(ConfigRecord(BROKER_RESOURCE, broker_id, "num.io.threads", "8"))
    cluster.let_die(4)
    assert cluster.unregister(4) is None
    assert sorted(cluster.image.configs) == [ConfigResource(BROKER_RESOURCE, ""), ConfigResource(BROKER_RESOURCE, "3")]


def test_a_snapshot_of_the_metadata_does_not_know_it() -> None:
    cluster = cluster_with(1)
    cluster.let_die(4)
    cluster.unregister(4)
    image = cluster.image
    again = decode_snapshot(b"".join(encode_snapshot(image, 0)), snapshot_id_of(image))
    assert sorted(again.brokers) == [1, 2, 3] and again.digest() == image.digest()
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in image_records(image):
        delta.replay(record)
    assert Controller(delta.apply(image.offset, EPOCH), cluster.config, random.Random(0), 0).find_broker(4) is None


def test_a_record_about_another_registration_is_refused() -> None:
    cluster = cluster_with(1)
    stale = UnregisterBrokerRecord(4, cluster.image.brokers[4].broker_epoch - 1)
    with pytest.raises(InvariantViolation, match="is not known"):
        MetadataDelta(cluster.image).replay(stale)


def test_an_unfinished_log_of_the_forgotten_broker_is_no_reason_to_elect_it() -> None:
    """It registers with the replica on its disk while the partition has no leader: it is no candidate."""
    cluster = cluster_with(1, 4)
    held: tuple[HostedReplicas, ...] = cluster.held_by(4)
    cluster.let_die(4)
    cluster.reassign("t", (1,))
    cluster.unregister(4)
    cluster.configure("t", {"unclean.leader.election.enable": "true"})
    cluster.let_die(1)
    cluster.start(4, replicas=held)
    partition = cluster.partition("t")
    assert (partition.leader_id, partition.isr, partition.elr) == (-1, (1,), ())
    assert not any(isinstance(r, PartitionChangeRecord) and r.leader_id == 4 for r in cluster.log)
