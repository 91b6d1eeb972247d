"""AlterPartition: only the current leader, with current epochs, and only with members that live as it knows them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata.controller.config import ControllerConfig
from penstock.errors import (
    BrokerIdNotRegisteredError,
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    NotControllerError,
    StaleBrokerEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.nodes.partitions import AlterPartitionData, AlterPartitionRequest, IsrMember
from tests.unit.metadata.harness import CLUSTER_ID, Cluster, is_error, raised_by


@pytest.fixture
def cluster() -> Cluster:
    """Three brokers; partition t-0 is led by 1 with the replicas 1, 2, 3; broker 4 is no replica."""
    for seed in range(20):
        made = Cluster(brokers=3, seed=seed)
        made.create("t", replication_factor=3)
        if made.partition("t").replicas == (1, 2, 3):
            made.start(4)
            return made
    raise AssertionError("no seed places the leader on broker 1")


def test_leader_shrinks_and_expands_its_isr(cluster: Cluster) -> None:
    shrunk = cluster.alter(1, cluster.proposal("t", (1, 3)))[0]
    assert (shrunk.error, shrunk.isr, shrunk.partition_epoch, shrunk.leader_epoch) == (None, (1, 3), 1, 0)
    assert cluster.partition("t").isr == (1, 3)
    grown = cluster.alter(1, cluster.proposal("t", (1, 3, 2)))[0]
    assert (grown.isr, grown.partition_epoch, grown.leader_id) == ((1, 3, 2), 2, 1)
    assert cluster.partition("t").leader_epoch == 0


def test_isr_that_is_so_already_makes_no_record(cluster: Cluster) -> None:
    end = cluster.next_offset
    result = cluster.alter(1, cluster.proposal("t", (1, 2, 3)))[0]
    assert (result.error, result.partition_epoch, cluster.next_offset) == (None, 0, end)


def test_requester_must_be_registered_with_its_current_epoch(cluster: Cluster) -> None:
    def ask(broker_id: int, epoch: int) -> Exception:
        request = AlterPartitionRequest(broker_id, epoch, (cluster.proposal("t", (1, 2)),))
        return raised_by(lambda: cluster.controller.alter_partition(request, 0))

    assert is_error(ask(9, 0), BrokerIdNotRegisteredError, "9")
    assert is_error(ask(1, 99), StaleBrokerEpochError, "99")
    assert is_error(ask(1, -1), StaleBrokerEpochError, "-1")


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"topic_id": "unknown"}, UnknownTopicIdError),
        ({"topic_id": ""}, UnknownTopicIdError),
        ({"partition": 1}, UnknownTopicOrPartitionError),
        ({"partition": -1}, UnknownTopicOrPartitionError),
        ({"leader_epoch": 1}, FencedLeaderEpochError),
        ({"leader_epoch": 3}, NotControllerError),
        ({"partition_epoch": 3}, InvalidUpdateVersionError),
        ({"partition_epoch": 9}, NotControllerError),
        ({"new_isr": ()}, InvalidRequestError),
    ],
    ids=repr,
)
def test_request_about_another_state_of_the_partition_is_refused(
    cluster: Cluster, fields: dict[str, object], kind: type[Exception]
) -> None:
    for failed, leader in ((1, 2), (2, 1)):
        cluster.heartbeat(failed, fence=True)
        cluster.heartbeat(failed)
        cluster.alter(leader, cluster.proposal("t", (1, 2, 3)))
    now, end = cluster.partition("t"), cluster.next_offset
    assert (now.leader_id, now.leader_epoch, now.partition_epoch) == (1, 2, 4)
    data = replace(cluster.proposal("t", (1, 2)), **fields)  # type: ignore[arg-type]
    assert is_error(cluster.alter(1, data)[0].error, kind)
    assert cluster.next_offset == end


def test_who_is_not_the_leader_changes_nothing(cluster: Cluster) -> None:
    error = cluster.alter(2, cluster.proposal("t", (2, 3)))[0].error
    assert is_error(error, InvalidRequestError, "led by broker 1")


def test_fenced_leader_is_told_who_leads_now(cluster: Cluster) -> None:
    late = cluster.proposal("t", (1, 2))
    cluster.heartbeat(1, fence=True)
    error = cluster.alter(1, late)[0].error
    assert isinstance(error, FencedLeaderEpochError)
    assert error.leader is not None and (error.leader.leader_id, error.leader.leader_epoch) == (2, 1)


@pytest.mark.parametrize(
    ("isr", "says"), [((1, 4), "subset"), ((1, 2, 2), "subset"), ((2, 3), "leader 1"), ((1, -1), "subset")]
)
def test_isr_must_be_of_the_replicas_and_have_the_leader(cluster: Cluster, isr: tuple[int, ...], says: str) -> None:
    members = tuple(IsrMember(member, 0) for member in isr)
    data = replace(cluster.proposal("t", (1,)), new_isr=members)
    assert is_error(cluster.alter(1, data)[0].error, InvalidRequestError, says)


def test_replica_that_has_restarted_meanwhile_is_not_let_in(cluster: Cluster) -> None:
    cluster.alter(1, cluster.proposal("t", (1, 2)))
    in_flight = cluster.proposal("t", (1, 2, 3))
    cluster.start(3, previous_broker_epoch=cluster.image.brokers[3].broker_epoch)
    error = cluster.alter(1, in_flight)[0].error
    assert is_error(error, IneligibleReplicaError, "broker 3", "restarted")
    assert cluster.alter(1, cluster.proposal("t", (1, 2, 3)))[0].error is None


def test_unknown_epoch_of_a_member_is_never_passed_over(cluster: Cluster) -> None:
    data = replace(cluster.proposal("t", (1, 2)), new_isr=(IsrMember(1, -1), IsrMember(2, -1)))
    assert is_error(cluster.alter(1, data)[0].error, IneligibleReplicaError, "-1")


def test_fenced_or_stopping_replica_is_not_let_in(cluster: Cluster) -> None:
    cluster.heartbeat(3, fence=True)
    assert is_error(cluster.alter(1, cluster.proposal("t", (1, 2, 3)))[0].error, IneligibleReplicaError, "fenced")
    cluster.heartbeat(1, offset=0)
    cluster.heartbeat(2, stop=True)
    error = cluster.alter(1, cluster.proposal("t", (1, 2)))[0].error
    assert is_error(error, IneligibleReplicaError, "broker 2")


def test_refused_isr_is_not_accepted_later(cluster: Cluster) -> None:
    """The leader goes on without the replica; an earlier copy of its request may come when that is in service again."""
    cluster.heartbeat(3, fence=True)
    before, copy = cluster.partition("t"), cluster.proposal("t", (1, 2, 3))
    assert is_error(cluster.alter(1, copy)[0].error, IneligibleReplicaError, "fenced")
    after = cluster.partition("t")
    assert after == replace(before, partition_epoch=before.partition_epoch + 1)
    cluster.heartbeat(3)
    cluster.fail_over()
    assert is_error(cluster.alter(1, copy)[0].error, InvalidUpdateVersionError)
    assert cluster.partition("t") == after
    assert cluster.alter(1, cluster.proposal("t", (1, 2, 3)))[0].error is None


def test_leader_that_asks_for_a_refused_isr_again_and_again_makes_one_record(cluster: Cluster) -> None:
    cluster.heartbeat(3, fence=True)
    asked, end = cluster.proposal("t", (1, 2, 3)), cluster.next_offset
    errors = [cluster.alter(1, asked)[0].error for _ in range(5)]
    assert is_error(errors[0], IneligibleReplicaError)
    assert all(is_error(error, InvalidUpdateVersionError) for error in errors[1:])
    assert cluster.next_offset == end + 1


def test_replica_that_was_never_registered_is_not_let_in(cluster: Cluster) -> None:
    data = replace(cluster.proposal("t", (1,)), new_isr=(IsrMember(1, 0), IsrMember(2, 10_000)))
    assert is_error(cluster.alter(1, data)[0].error, IneligibleReplicaError, "broker 2", "10000")


def test_partitions_of_a_request_stand_alone_and_the_second_mention_is_refused(cluster: Cluster) -> None:
    good = cluster.proposal("t", (1, 2))
    bad = AlterPartitionData("unknown", 0, 0, 0, ())
    results = cluster.alter(1, bad, good, cluster.proposal("t", (1,)))
    assert is_error(results[0].error, UnknownTopicIdError)
    assert (results[1].error, results[1].isr) == (None, (1, 2))
    assert is_error(results[2].error, InvalidRequestError, "twice")
    assert cluster.partition("t").isr == (1, 2)


def test_empty_and_oversize_requests() -> None:
    cluster = Cluster(brokers=1, config=ControllerConfig(CLUSTER_ID, max_items_per_request=1))
    assert cluster.alter(1) == ()
    data = AlterPartitionData("unknown", 0, 0, 0, ())
    assert is_error(raised_by(lambda: cluster.alter(1, data, data)), InvalidRequestError, "2 partitions")
