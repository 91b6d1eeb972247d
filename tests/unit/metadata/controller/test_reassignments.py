"""Replicas move while their partition goes on (KIP-455): begun, complete when what comes is in sync, or cancelled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata.controller.config import ControllerConfig
from metadata.internal_topics import CONSUMER_OFFSETS
from metadata.records import PartitionChangeRecord
from metadata.registrations import PartitionRegistration
from penstock.errors import (
    IneligibleReplicaError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    InvariantViolation,
    NoReassignmentInProgressError,
    PolicyViolationError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.elections import ElectionType, ElectLeadersRequest, NamedPartitions, ReassignedPartition
from penstock.messages.topics import CreateInternalTopicRequest, NewTopic
from penstock.messages.topics import ReplicaAssignment as Assigned
from tests.unit.metadata.harness import CLUSTER_ID, Cluster, is_error, raised_by


def cluster_with(replicas: tuple[int, ...], brokers: int = 5, min_isr: int = 2) -> Cluster:
    """One partition on these brokers, all in sync."""
    cluster = Cluster(brokers)
    config = {"min.insync.replicas": str(min(min_isr, len(replicas)))}
    assert cluster.create_all(NewTopic("t", config=config, assignment=(Assigned(0, replicas),)))[0].error is None
    return cluster


def join(cluster: Cluster, *isr: int) -> PartitionRegistration:
    """The leader proposes this ISR, which is accepted."""
    (result,) = cluster.alter(cluster.partition("t").leader_id, cluster.proposal("t", isr))
    assert result.error is None
    return cluster.partition("t")


def shown(partition: PartitionRegistration) -> tuple[tuple[int, ...], ...]:
    return partition.replicas, partition.adding_replicas, partition.removing_replicas, partition.isr


def test_replicas_are_added_first_and_removed_once_all_that_come_are_in_sync() -> None:
    cluster = cluster_with((1, 2, 3))
    began = cluster.partition("t")
    assert cluster.reassign("t", (4, 5, 1)) is None
    moving = cluster.partition("t")
    assert shown(moving) == ((4, 5, 1, 2, 3), (4, 5), (2, 3), (1, 2, 3))
    assert (moving.leader_epoch, moving.leader_id) == (began.leader_epoch, 1), "nobody is interrupted"
    assert (moving.target_replicas, moving.original_replicas, moving.replication_factor) == ((4, 5, 1), (1, 2, 3), 3)
    assert shown(join(cluster, 1, 2, 3, 4)) == ((4, 5, 1, 2, 3), (4, 5), (2, 3), (1, 2, 3, 4))
    moved = join(cluster, 1, 2, 3, 4, 5)
    assert shown(moved) == ((4, 5, 1), (), (), (1, 4, 5))
    assert (moved.leader_id, moved.leader_epoch) == (1, began.leader_epoch + 1)
    assert cluster.controller.statistics().reassigning_partitions == 0


def test_a_leader_that_goes_hands_over_to_one_that_is_in_sync_and_in_service() -> None:
    cluster = cluster_with((1, 2, 3))
    cluster.reassign("t", (4, 5, 2))
    cluster.heartbeat(4, stop=True)
    (result,) = cluster.alter(1, cluster.proposal("t", (1, 2, 3, 5)))
    assert result.error is None
    cluster.start(4)
    moved = join(cluster, 1, 2, 3, 4, 5)
    assert shown(moved) == ((4, 5, 2), (), (), (2, 4, 5)) and moved.leader_id == 4


def coordinator_that_goes() -> tuple[Cluster, int, int]:
    """`__consumer_offsets` with one partition on three of four brokers: its leader goes, and the fourth comes, which
    has just joined the ISR. The old coordinator, and the metadata before the move."""
    cluster = Cluster(4)
    asked = CreateInternalTopicRequest(1, cluster.image.brokers[1].broker_epoch, CONSUMER_OFFSETS, 1, 3)
    cluster.commit(cluster.controller.create_internal_topic(asked, cluster.now_ms))
    old, *stay = cluster.partition(CONSUMER_OFFSETS).replicas
    before = cluster.image.offset
    (new,) = {1, 2, 3, 4}.difference((old, *stay))
    assert cluster.reassign(CONSUMER_OFFSETS, (new, *stay)) is None
    (result,) = cluster.alter(old, cluster.proposal(CONSUMER_OFFSETS, (old, *stay, new)))
    assert result.error is None
    moved = cluster.partition(CONSUMER_OFFSETS)
    assert (moved.leader_id, moved.removing_replicas) == (new, (old,)) and old in moved.isr
    return cluster, old, before


def test_a_coordinator_that_goes_hands_over_and_stays_in_sync_until_it_knows() -> None:
    """Nothing is committed without it, so what it answers from its memory is not old."""
    cluster, old, before = coordinator_that_goes()
    moved = cluster.partition(CONSUMER_OFFSETS)
    for _ in range(3):
        cluster.heartbeat(old, offset=before)
        cluster.tick()
    assert cluster.partition(CONSUMER_OFFSETS) == moved, "it has not heard of it"
    cluster.heartbeat(old)
    cluster.tick()
    done = cluster.partition(CONSUMER_OFFSETS)
    assert not done.is_reassigning and old not in done.isr


def test_a_coordinator_that_goes_and_hears_of_nothing_is_waited_for_until_it_is_fenced() -> None:
    cluster, old, _ = coordinator_that_goes()
    cluster.let_die(old)
    cluster.tick()
    cluster.tick()
    done = cluster.partition(CONSUMER_OFFSETS)
    assert not done.is_reassigning and old not in done.isr


def test_it_is_complete_by_the_clock_when_a_successor_comes_into_service_without_a_change_of_the_isr() -> None:
    cluster = cluster_with((1,), min_isr=1)
    cluster.reassign("t", (2,))
    cluster.heartbeat(2)
    assert shown(join(cluster, 1, 2)) == ((2,), (), (), (2,)), "at once, where it can be"
    cluster = cluster_with((1, 2), min_isr=1)
    cluster.heartbeat(2, stop=True)
    cluster.reassign("t", (2,))
    assert cluster.partition("t").replicas == (2, 1) and cluster.partition("t").leader_id == 1
    cluster.tick()
    assert cluster.partition("t").is_reassigning, "nobody could lead"
    cluster.register(2, previous_broker_epoch=cluster.image.brokers[2].broker_epoch, replicas=cluster.held_by(2))
    cluster.heartbeat(2)
    join(cluster, 1, 2)
    cluster.tick()
    assert shown(cluster.partition("t")) == ((2,), (), (), (2,))


def test_only_replicas_that_are_in_sync_are_taken_away_at_once() -> None:
    cluster = cluster_with((1, 2, 3))
    assert cluster.reassign("t", (2, 3)) is None
    shrunk = cluster.partition("t")
    assert shown(shrunk) == ((2, 3), (), (), (2, 3)) and shrunk.leader_id == 2
    assert cluster.reassign("t", (2, 3)) is None and cluster.partition("t") == shrunk
    assert cluster.reassign("t", (3, 2)) is None
    assert shown(cluster.partition("t")) == ((3, 2), (), (), (2, 3)), "another order, another preferred leader"


def test_it_waits_while_too_few_would_be_in_sync_without_those_that_go() -> None:
    cluster = cluster_with((1, 2, 3))
    cluster.let_die(1)
    assert cluster.partition("t").isr == (2, 3)
    cluster.reassign("t", (1, 2))
    assert shown(cluster.partition("t")) == ((1, 2, 3), (), (3,), (2, 3))
    cluster.tick()
    assert cluster.partition("t").is_reassigning, "one replica in sync is less than min.insync.replicas"
    cluster.come_back(1)
    cluster.heartbeat(1)
    assert shown(join(cluster, 1, 2, 3)) == ((1, 2), (), (), (1, 2))


def test_a_replica_that_comes_does_not_raise_the_min_isr_and_one_that_goes_counts() -> None:
    cluster = cluster_with((1,), min_isr=1)
    assert cluster.configure("t", {"min.insync.replicas": "1"}) is None
    cluster.reassign("t", (2, 3))
    assert cluster.partition("t").replication_factor == 1 and cluster.partition("t").elr == ()
    assert shown(join(cluster, 1, 2)) == ((2, 3, 1), (2, 3), (1,), (1, 2))
    cluster.let_die(1)
    after = cluster.partition("t")
    assert after.leader_id == 2 and after.isr == (2,), "one that comes may lead once it is in sync"
    assert shown(join(cluster, 2, 3)) == ((2, 3), (), (), (2, 3))


def test_a_move_is_cancelled_and_what_came_goes() -> None:
    cluster = cluster_with((1, 2, 3))
    cluster.reassign("t", (4, 5, 1))
    join(cluster, 1, 2, 3, 4)
    epoch = cluster.partition("t").leader_epoch
    assert cluster.reassign("t", None) is None
    after = cluster.partition("t")
    assert shown(after) == ((1, 2, 3), (), (), (1, 2, 3))
    assert after.leader_epoch == epoch + 1, "a fetch of the replica that was deleted does not count"
    assert is_error(cluster.reassign("t", None), NoReassignmentInProgressError, "t-0", "[1, 2, 3]")


@pytest.mark.parametrize("has_failed_over", [False, True])
@pytest.mark.parametrize(
    "targets",
    [
        ((1, 3, 4),),  # from 1, 2, 3: without the order of before, 1, 3, 2
        ((4, 3, 2, 1),),
        ((5, 4, 3), (3, 4, 5)),  # another one while the first goes on
        ((5, 4, 3), (4, 2, 1), (3, 5, 2)),
    ],
)
def test_a_cancelled_move_leaves_the_order_of_before_and_so_the_preferred_leader(
    targets: tuple[tuple[int, ...], ...], has_failed_over: bool
) -> None:
    cluster = cluster_with((1, 2, 3))
    for target in targets:
        assert cluster.reassign("t", target) is None
        moving = cluster.partition("t")
        assert moving.original_replicas == (1, 2, 3) and moving.target_replicas == target
        assert PartitionRegistration.from_record(moving.to_record()) == moving, "as a snapshot has it"
    if len(moving.adding_replicas) > 1:
        assert join(cluster, 1, 2, 3, moving.adding_replicas[0]).original_replicas == (1, 2, 3)
    if has_failed_over:
        cluster.fail_over()
    assert cluster.reassign("t", None) is None
    cancelled = cluster.partition("t")
    assert shown(cancelled)[:3] == ((1, 2, 3), (), ()) and cancelled.replicas_before == ()


def test_a_move_that_an_older_controller_began_is_cancelled_into_what_is_known_of_it() -> None:
    """Its records do not have the order of before."""
    cluster = cluster_with((1, 2, 3))
    began = PartitionChangeRecord(
        cluster.partition("t").topic_id, 0, replicas=(1, 3, 4, 2), adding_replicas=(4,), removing_replicas=(2,)
    )
    moving = cluster.partition("t").merge(began)
    assert (moving.original_replicas, moving.replicas_before) == ((1, 3, 2), ())
    again = replace(began, replicas=(3, 4, 1, 2))
    known = replace(moving, replicas_before=(2, 1, 3)).merge(again)
    assert (known.original_replicas, known.replicas_before) == ((3, 1, 2), ()), "it cannot tell"


def test_an_order_of_before_that_does_not_fit_the_replicas_is_refused() -> None:
    moving = cluster_with((1, 2, 3)).partition("t")
    with pytest.raises(InvariantViolation, match="replicas of before"):
        moving.merge(PartitionChangeRecord(moving.topic_id, 0, replicas=(1, 2, 3), replicas_before=(1, 2, 4)))


def test_a_move_is_not_cancelled_while_that_would_leave_too_few_copies_of_what_was_acked() -> None:
    cluster = cluster_with((1, 2, 3))
    cluster.reassign("t", (4, 5, 1))
    join(cluster, 1, 2, 3, 4)
    cluster.let_die(2, 3)
    before = cluster.partition("t")
    assert before.isr == (1, 4)
    assert is_error(cluster.reassign("t", None), InvalidReplicaAssignmentError, "[1]", "min.insync.replicas is 2")
    assert cluster.partition("t") == before
    cluster.come_back(2)
    cluster.heartbeat(2)
    join(cluster, 1, 2, 4)
    assert cluster.reassign("t", None) is None
    assert shown(cluster.partition("t")) == ((1, 2, 3), (), (), (1, 2))


def test_another_target_replaces_a_move_and_is_reckoned_from_the_replicas_before_it() -> None:
    cluster = cluster_with((1, 2, 3))
    cluster.reassign("t", (4, 2, 3))
    join(cluster, 1, 2, 3)
    assert cluster.reassign("t", (5, 2, 3)) is None
    assert shown(cluster.partition("t")) == ((5, 2, 3, 1), (5,), (1,), (1, 2, 3))
    assert cluster.reassign("t", (1, 2, 3)) is None
    assert shown(cluster.partition("t")) == ((1, 2, 3), (), (), (1, 2, 3))


def test_the_proposal_of_a_leader_that_has_not_heard_of_the_move_is_refused() -> None:
    cluster = cluster_with((1, 2, 3))
    late = cluster.proposal("t", (1, 2))
    cluster.reassign("t", (4, 2, 3))
    (result,) = cluster.alter(1, late)
    assert is_error(result.error, InvalidUpdateVersionError)


def test_the_log_dirs_of_those_that_stay_are_kept_and_that_of_one_that_comes_is_named_if_it_is_known() -> None:
    cluster = Cluster()
    for broker_id in (1, 2, 3):
        cluster.start(broker_id, log_dirs=(f"dir-{broker_id}",))
    cluster.start(4, log_dirs=("dir-4", "dir-4b"))
    cluster.create_all(NewTopic("t", assignment=(Assigned(0, (1, 2)),)))
    cluster.reassign("t", (3, 4, 2))
    assert cluster.partition("t").directories == ("dir-3", "", "dir-2", "dir-1")
    join(cluster, 1, 2, 3, 4)
    assert cluster.partition("t").directories == ("dir-3", "", "dir-2")


def test_a_replica_that_was_never_in_sync_leads_by_order_alone() -> None:
    cluster = cluster_with((1,), min_isr=1)
    cluster.configure("t", {"unclean.leader.election.enable": "true"})
    cluster.reassign("t", (2,))
    cluster.let_die(1)
    assert not cluster.partition("t").has_leader, "it holds nothing, and the other may come back"
    request = ElectLeadersRequest(ElectionType.UNCLEAN, (NamedPartitions("t"),))
    (result,) = cluster.commit(cluster.controller.elect_leaders(request, cluster.now_ms)).partitions
    assert result.error is None and result.leader_id == 2


def test_a_failover_and_a_deletion_of_the_topic_in_mid_move() -> None:
    cluster = cluster_with((1, 2, 3))
    cluster.reassign("t", (4, 2, 3))
    cluster.fail_over()
    assert cluster.controller.statistics().reassigning_partitions == 1
    assert shown(join(cluster, 1, 2, 3, 4)) == ((4, 2, 3), (), (), (2, 3, 4))
    cluster.reassign("t", (1, 2, 3))
    cluster.delete("t")
    assert cluster.controller.statistics().reassigning_partitions == 0
    cluster.tick()


@pytest.mark.parametrize(
    ("asked", "kind", "words"),
    [
        (ReassignedPartition("nope", 0, (1,)), UnknownTopicOrPartitionError, ("'nope'", "does not exist")),
        (ReassignedPartition("t", 7, (1,)), UnknownTopicOrPartitionError, ("no partition 7",)),
        (ReassignedPartition("t", -1, (1,)), UnknownTopicOrPartitionError, ("no partition -1",)),
        (ReassignedPartition("t", 0, ()), InvalidReplicaAssignmentError, ("at least one",)),
        (ReassignedPartition("t", 0, (1, 2, 1)), InvalidReplicaAssignmentError, ("each another broker",)),
        (ReassignedPartition("t", 0, (1, 99)), InvalidReplicaAssignmentError, ("broker 99 is not registered",)),
        (ReassignedPartition("t", 0, (-1,)), InvalidReplicaAssignmentError, ("broker -1",)),
        (ReassignedPartition("t", 0, None), NoReassignmentInProgressError, ("not being reassigned",)),
    ],
)
def test_bad_requests_change_nothing(asked: ReassignedPartition, kind: type[Exception], words: tuple[str, ...]) -> None:
    cluster = cluster_with((1, 2, 3))
    before = cluster.image
    (result,) = cluster.reassign_all(asked)
    assert is_error(result.error, kind, *words) and (result.topic, result.partition) == (asked.topic, asked.partition)
    assert cluster.image is before


def test_a_partition_named_twice_is_refused_the_second_time_and_the_others_go_on() -> None:
    cluster = cluster_with((1, 2, 3))
    once = ReassignedPartition("t", 0, (4, 2, 3))
    results = cluster.reassign_all(once, once)
    assert results[0].error is None and is_error(results[1].error, InvalidRequestError, "twice")
    assert cluster.partition("t").adding_replicas == (4,)


def test_a_request_that_is_too_large_is_refused_as_a_whole() -> None:
    cluster = Cluster(2, ControllerConfig(CLUSTER_ID, max_records_per_decision=4, max_items_per_request=3))
    cluster.create("a", 1)
    cluster.create("b", 2)
    targets = {name: cluster.partition(*name).replicas for name in (("a", 0), ("b", 0), ("b", 1))}
    asked = tuple(ReassignedPartition(*name, (3 - was[0], *was)) for name, was in targets.items())
    assert all(result.error is None for result in cluster.reassign_all(*asked))
    too_many = (*asked, ReassignedPartition("c", 0, (1,)))
    assert is_error(raised_by(lambda: cluster.reassign_all(*too_many)), InvalidRequestError, "at most 3")
    small = Cluster(2, ControllerConfig(CLUSTER_ID, max_records_per_decision=2))
    small.create("a", 1)
    small.create("b", 1)
    small.create("c", 1)
    wanted = (ReassignedPartition(name, 0, (1, 2)) for name in "abc")
    assert is_error(raised_by(lambda: small.reassign_all(*wanted)), PolicyViolationError, "3 records")


def test_a_replica_that_has_what_was_acked_is_not_taken_away_though_it_is_out_of_the_isr() -> None:
    """It is in the ELR (ADR 0017): with the last of the ISR it is all that is left of the copies."""
    cluster = cluster_with((1, 2, 3))
    join(cluster, 1, 2)
    assert cluster.reassign("t", (2, 3)) is None
    cluster.let_die(1)
    cluster.tick()
    waiting = cluster.partition("t")
    assert (waiting.isr, waiting.elr, waiting.replicas) == ((2,), (1,), (2, 3, 1)) and waiting.is_reassigning
    cluster.let_die(2)
    cluster.tick()
    waiting = cluster.partition("t")
    assert (waiting.leader_id, waiting.isr, waiting.elr) == (-1, (2,), (1,)) and waiting.is_reassigning
    cluster.come_back(1)
    cluster.heartbeat(1)
    assert cluster.partition("t").leader_id == 1
    cluster.come_back(2)
    cluster.heartbeat(2)
    join(cluster, 1, 2)
    cluster.tick()
    assert cluster.partition("t").is_reassigning, "2 and 3 must be in sync"
    assert shown(join(cluster, 1, 2, 3)) == ((2, 3), (), (), (2, 3))


def test_a_move_that_would_take_such_a_replica_at_once_waits_and_its_cancellation_is_refused() -> None:
    cluster = cluster_with((1, 2, 3))
    join(cluster, 1, 2)
    cluster.let_die(1)
    assert (cluster.partition("t").isr, cluster.partition("t").elr) == ((2,), (1,))
    assert cluster.reassign("t", (2, 3)) is None and cluster.partition("t").is_reassigning
    cluster = cluster_with((1, 2, 3))
    cluster.reassign("t", (4, 2, 3))
    join(cluster, 1, 4)
    cluster.let_die(4)
    assert (cluster.partition("t").isr, cluster.partition("t").elr) == ((1,), (4,))
    assert is_error(cluster.reassign("t", None), InvalidReplicaAssignmentError, "min.insync.replicas is 2")


def test_a_move_that_can_lead_nowhere_is_cancelled_without_a_leader() -> None:
    cluster = cluster_with((1,), min_isr=1)
    cluster.reassign("t", (2,))
    cluster.let_die(1)
    assert not cluster.partition("t").has_leader
    assert cluster.reassign("t", None) is None
    assert shown(cluster.partition("t")) == ((1,), (), (), (1,))


def test_a_target_is_not_smaller_than_min_insync_replicas() -> None:
    cluster = cluster_with((1, 2, 3))
    before = cluster.partition("t")
    error = cluster.reassign("t", (4,))
    assert is_error(error, InvalidReplicaAssignmentError, "fewer replicas than min.insync.replicas = 2", "lower that")
    assert cluster.partition("t") == before
    assert cluster.configure("t", {"min.insync.replicas": "1"}) is None
    assert cluster.reassign("t", (1,)) is None
    assert cluster.configure("t", {"retention.ms": "2000"}) is None, "its configuration can still be changed"


def test_all_that_move_are_looked_at_in_turn() -> None:
    cluster = Cluster(3)
    cluster.create("t", 5, replication_factor=1)
    wanted = []
    for number in range(5):
        (replica,) = cluster.partition("t", number).replicas
        wanted.append(ReassignedPartition("t", number, (replica % 3 + 1,)))
    cluster.reassign_all(*wanted)
    state = cluster.controller._state
    first = state.reassigning_partitions(None, 2)
    others = state.reassigning_partitions(first[-1].key, 10)
    assert [p.partition for p in (*first, *others)] == list(range(5)) and len(first) == 2
    assert state.reassigning_partitions(others[-1].key, 2) == []


@pytest.mark.parametrize("target", [(1, 2, 4), (4, 2, 3), (4, 5, 1)])
def test_a_move_to_a_broker_that_is_dead_waits_loses_nothing_and_can_be_taken_back(target: tuple[int, ...]) -> None:
    cluster = cluster_with((1, 2, 3))
    cluster.let_die(4)
    before = cluster.partition("t")
    assert cluster.reassign("t", target) is None
    cluster.tick()
    moving = cluster.partition("t")
    assert moving.is_reassigning and (moving.isr, moving.leader_id) == (before.isr, before.leader_id)
    (refused,) = cluster.alter(moving.leader_id, cluster.proposal("t", (*moving.isr, 4)))
    assert is_error(refused.error, IneligibleReplicaError, "4"), "a dead broker is not in sync"
    assert cluster.reassign("t", None) is None
    after = cluster.partition("t")
    assert sorted(after.replicas) == [1, 2, 3], "in the order that the move gave them, as in Kafka"
    assert not after.is_reassigning and (after.isr, after.leader_id) == (before.isr, before.leader_id)
