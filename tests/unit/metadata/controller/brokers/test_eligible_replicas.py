"""Eligible leader replicas: who enters the ELR, who leaves it, and who is elected from it (KIP-966, ADR 0017)."""

from __future__ import annotations

import dataclasses

import pytest

from metadata.controller.config import ControllerConfig
from metadata.controller.elections.election import Circumstances, ElectedLeader, elect, eligible_replicas
from metadata.records import ConfigRecord, PartitionChangeRecord
from metadata.registrations import PartitionRegistration
from penstock.errors import InvariantViolation
from penstock.messages.nodes.brokers import HostedReplicas
from penstock.types import NO_LEADER
from tests.unit.metadata.harness import CLUSTER_ID, SESSION_TIMEOUT_MS, Cluster

Ids = tuple[int, ...]
MIN_2 = {"min.insync.replicas": "2"}


def cluster_of_three(config: dict[str, str] | None = None) -> Cluster:
    """Topic t has a replica on each of three brokers."""
    cluster = Cluster(brokers=3)
    cluster.create("t", replication_factor=3, config=MIN_2 if config is None else config)
    return cluster


def leader_isr_elr(cluster: Cluster) -> tuple[int, set[int], set[int]]:
    """Leader, ISR and ELR of the partition."""
    partition = cluster.partition("t")
    return partition.leader_id, set(partition.isr), set(partition.elr)


def left_to(cluster: Cluster, last: int) -> tuple[int, ...]:
    """All but `last` die, in turn; returns them."""
    others = tuple(sorted({1, 2, 3} - {last}))
    for other in others:
        cluster.let_die(*others[: others.index(other) + 1])
    return others


# -- who enters --------------------------------------------------------------------------------------------------------


def test_replicas_that_leave_an_isr_below_the_minimum_are_eligible() -> None:
    cluster = cluster_of_three()
    cluster.let_die(3)
    assert leader_isr_elr(cluster)[1:] == ({1, 2}, set()), "this ISR commits records, which broker 3 does not have"
    cluster.let_die(2, 3)
    assert leader_isr_elr(cluster) == (1, {1}, {2})
    cluster.let_die(1, 2, 3)
    assert leader_isr_elr(cluster) == (NO_LEADER, {1}, {2})


def test_a_power_cut_of_all_leaves_all_eligible() -> None:
    cluster = cluster_of_three()
    cluster.let_die(1, 2, 3)
    leader_id, isr, elr = leader_isr_elr(cluster)
    assert leader_id == NO_LEADER and len(isr) == 1 and isr | elr == {1, 2, 3}


def test_a_partition_that_loses_all_at_once_keeps_them_eligible_whatever_the_minimum_is() -> None:
    cluster = cluster_of_three({})
    cluster.let_die(1, 2, 3)
    _, isr, elr = leader_isr_elr(cluster)
    assert isr | elr == {1, 2, 3}, "without a leader nothing was committed that one of them lacks"
    (last,) = isr
    other = min(elr)
    cluster.start(other, replicas=cluster.held_by(other))
    assert leader_isr_elr(cluster) == (other, {other}, set()), (
        f"one is enough here, so {last} may miss records from now on"
    )


def test_a_shrink_that_the_leader_asks_for_is_no_other_case() -> None:
    cluster = cluster_of_three()
    (answer,) = cluster.alter(1, cluster.proposal("t", (1,)))
    assert leader_isr_elr(cluster) == (1, {1}, {2, 3})
    assert answer.elr == (2, 3), "the leader must know it BEFORE it counts with the smaller ISR"


def test_an_isr_that_is_large_enough_ends_the_elr() -> None:
    cluster = cluster_of_three()
    cluster.alter(1, cluster.proposal("t", (1,)))
    (answer,) = cluster.alter(1, cluster.proposal("t", (1, 3)))
    assert (leader_isr_elr(cluster), answer.elr) == ((1, {1, 3}, set()), ())


def test_a_controlled_shutdown_leaves_an_eligible_replica() -> None:
    cluster = cluster_of_three()
    cluster.let_die(3)
    cluster.heartbeat(1, stop=True)
    cluster.heartbeat(2)
    cluster.heartbeat(1, stop=True)
    assert leader_isr_elr(cluster) == (2, {2}, {1})


def test_a_leader_that_stops_hands_over_to_an_eligible_replica() -> None:
    cluster = cluster_of_three()
    cluster.alter(1, cluster.proposal("t", (1,)))
    cluster.heartbeat(1, stop=True)
    assert leader_isr_elr(cluster) == (2, {2}, {1, 3})


def test_the_minimum_is_never_above_the_number_of_replicas() -> None:
    cluster = Cluster(2, ControllerConfig(CLUSTER_ID, SESSION_TIMEOUT_MS, topic_defaults={"min.insync.replicas": 3}))
    cluster.create("t", replication_factor=2)
    assert leader_isr_elr(cluster) == (1, {1, 2}, set())
    cluster.let_die(2)
    assert leader_isr_elr(cluster) == (1, {1}, {2})


# -- elections ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("isr", "elr", "active", "unclean", "expected"),
    [
        ((1,), (2, 3), (2, 3), False, ElectedLeader((2,), 2, (1, 3))),  # in replica order
        ((2,), (1, 3), (1, 2, 3), False, ElectedLeader((2,), 2, (1, 3))),  # the ISR before the ELR
        ((1,), (3,), (2, 3), True, ElectedLeader((3,), 3, (1,))),  # the ELR before an unclean election
        ((1,), (3,), (2,), False, ElectedLeader((1,), NO_LEADER, (3,))),
        ((1,), (3,), (2,), True, ElectedLeader((2,), 2, (1, 3), unclean=True)),
    ],
)
def test_rules(isr: Ids, elr: Ids, active: Ids, unclean: bool, expected: ElectedLeader) -> None:
    partition = PartitionRegistration("id", 0, (1, 2, 3), isr, NO_LEADER, 5, 9, elr=elr)
    circumstances = Circumstances(
        active.__contains__, active.__contains__, lambda *_: True, min_isr=2, unclean_allowed=unclean
    )
    assert elect(partition, circumstances) == expected


def test_an_eligible_replica_is_elected_when_it_comes_back_and_that_is_not_unclean() -> None:
    cluster = cluster_of_three()
    cluster.let_die(1, 2, 3)
    last = cluster.partition("t").isr[0]
    first = min({1, 2, 3} - {last})
    cluster.start(first, replicas=cluster.held_by(first))
    assert leader_isr_elr(cluster) == (first, {first}, {1, 2, 3} - {first})
    (change,) = (change for change in cluster.controller.take_leader_changes() if change.after.has_leader)
    assert not change.is_unclean
    assert cluster.controller.statistics().unclean_elections == 0


def test_a_controller_that_takes_over_knows_the_eligible_replicas() -> None:
    cluster = cluster_of_three()
    cluster.let_die(1, 2, 3)
    (other, *_) = sorted(cluster.partition("t").elr)
    cluster.fail_over()
    cluster.start(other, replicas=cluster.held_by(other))
    assert cluster.partition("t").leader_id == other


# -- who leaves --------------------------------------------------------------------------------------------------------


def test_any_one_disk_may_be_lost_after_a_power_cut_of_all() -> None:
    for lost in (1, 2, 3):
        for order in ((1, 2, 3), (3, 2, 1), (2, 3, 1)):
            cluster = Cluster()
            for broker_id in (1, 2, 3):
                cluster.start(broker_id, log_dirs=(f"dir-{broker_id}",))
            cluster.create("t", replication_factor=3, config=MIN_2)
            cluster.let_die(1, 2, 3)
            for broker_id in order:
                if broker_id == lost:
                    cluster.start(broker_id, log_dirs=("new",), lost_log_dirs=(f"dir-{broker_id}",))
                else:
                    log_dirs = (f"dir-{broker_id}",)
                    cluster.start(broker_id, log_dirs=log_dirs, replicas=cluster.held_by(broker_id))
            leader_id, isr, elr = leader_isr_elr(cluster)
            assert leader_id != NO_LEADER and lost not in isr | elr, (lost, order, cluster.partition("t"))
            assert cluster.controller.statistics().unclean_elections == 0


def test_a_replica_that_comes_back_without_its_log_is_eligible_no_more() -> None:
    cluster = cluster_of_three()
    cluster.let_die(1, 2, 3)
    (last,) = cluster.partition("t").isr
    one, other = sorted({1, 2, 3} - {last})
    cluster.start(one)  # it names no replica: the log has rotted, or its dir has failed
    assert leader_isr_elr(cluster) == (NO_LEADER, {last}, {other})


def test_the_last_isr_member_without_its_log_makes_room_for_an_eligible_replica() -> None:
    cluster = cluster_of_three()
    cluster.let_die(3)
    cluster.let_die(2, 3)
    cluster.let_die(1, 2, 3)
    cluster.start(1)
    assert leader_isr_elr(cluster) == (NO_LEADER, {2}, set()), (
        "an empty replica must not lead while broker 2 has everything"
    )
    cluster.start(2, replicas=cluster.held_by(2))
    assert leader_isr_elr(cluster) == (2, {2}, set())


def test_a_lost_log_dir_leaves_the_partition_to_the_eligible_replicas() -> None:
    cluster = Cluster()
    for broker_id in (1, 2, 3):
        cluster.start(broker_id, log_dirs=(f"dir-{broker_id}",))
    cluster.create("t", replication_factor=3, config=MIN_2)
    left_to(cluster, 1)
    cluster.let_die(1, 2, 3)
    before = cluster.partition("t")
    assert (before.isr, before.elr) == ((1,), (3,))
    cluster.start(1, log_dirs=("new",), lost_log_dirs=("dir-1",))
    after = cluster.partition("t")
    assert (after.isr, after.elr, after.leader_id, after.log_lost) == ((3,), (), NO_LEADER, False)
    cluster.start(3, log_dirs=("new-3",), lost_log_dirs=("dir-3",))
    assert cluster.partition("t").log_lost, "now nobody has everything"


@pytest.mark.parametrize(
    ("config", "before", "after", "is_clean", "stays"),
    [
        ({}, "fsync", "fsync", False, True),
        ({}, "os", "os", False, False),
        ({}, "os", "fsync", False, False),  # the process that wrote did not flush
        ({}, "", "fsync", False, False),  # a node of an older release does not say
        ({}, "os", "os", True, True),
        ({"flush.policy": "os"}, "fsync", "fsync", False, False),
        ({"flush.policy": "fsync"}, "os", "os", False, True),
    ],
)
def test_an_unclean_restart_counts_only_where_acks_come_before_the_flush(
    config: dict[str, str], before: str, after: str, is_clean: bool, stays: bool
) -> None:
    cluster = Cluster()
    for broker_id in (1, 2):
        epoch = cluster.start(broker_id, flush_policy=before)
    cluster.create("t", replication_factor=2, config={**MIN_2, **config})
    cluster.let_die(2)
    assert leader_isr_elr(cluster) == (1, {1}, {2})
    cluster.come_back(2, flush_policy=after, previous_broker_epoch=epoch if is_clean else -1)
    assert leader_isr_elr(cluster) == (1, {1}, {2} if stays else set())


def test_an_eligible_replica_with_the_marker_of_an_earlier_clean_stop_is_eligible_no_more() -> None:
    """A backup of the stopped node was put back: what the node acked since is not in it."""
    for crashes_again in (False, True):
        cluster = Cluster()
        cluster.start(1)
        before = cluster.start(2)
        cluster.create("t", replication_factor=2, config=MIN_2)
        now = cluster.come_back(2, previous_broker_epoch=before)
        cluster.heartbeat(2)
        cluster.alter(1, cluster.proposal("t", (1, 2)))
        cluster.let_die(2)
        assert leader_isr_elr(cluster) == (1, {1}, {2}) and now != before
        cluster.come_back(2, previous_broker_epoch=-1 if crashes_again else before)
        assert leader_isr_elr(cluster) == (1, {1}, {2} if crashes_again else set())


def test_an_eligible_replica_that_comes_back_in_another_dir_is_eligible_no_more() -> None:
    """It may be an older copy: the metadata knows in which dir the records were acknowledged."""
    for log_dir, stays in (("dir-a", True), ("dir-b", False)):
        cluster = Cluster()
        for broker_id in (1, 2):
            cluster.start(broker_id, log_dirs=("dir-a", "dir-b") if broker_id == 2 else ("dir-c",))
        topic_id = cluster.create("t", replication_factor=2, config=MIN_2).topic_id
        cluster.assign(2, HostedReplicas(topic_id, (0,), "dir-a"))
        cluster.let_die(2)
        cluster.register(2, log_dirs=("dir-a", "dir-b"), replicas=(HostedReplicas(topic_id, (0,), log_dir),))
        assert leader_isr_elr(cluster) == (1, {1}, {2} if stays else set())


def test_an_eligible_replica_whose_log_dir_fails_while_it_runs_is_eligible_no_more() -> None:
    cluster = Cluster()
    for broker_id in (1, 2):
        cluster.start(broker_id, log_dirs=(f"dir-{broker_id}", f"more-{broker_id}"))
    topic_id = cluster.create("t", replication_factor=2, config=MIN_2).topic_id
    cluster.assign(2, HostedReplicas(topic_id, (0,), "dir-2"))
    cluster.alter(1, cluster.proposal("t", (1,)))
    cluster.heartbeat(2, offline=("more-2",))
    assert leader_isr_elr(cluster) == (1, {1}, {2})
    cluster.heartbeat(2, offline=("dir-2",))
    assert leader_isr_elr(cluster) == (1, {1}, set())


def test_the_last_isr_member_whose_log_dir_fails_makes_room_for_an_eligible_replica() -> None:
    cluster = Cluster()
    for broker_id in (1, 2):
        cluster.start(broker_id, log_dirs=(f"dir-{broker_id}", f"more-{broker_id}"))
    topic_id = cluster.create("t", replication_factor=2, config=MIN_2).topic_id
    for broker_id in (1, 2):
        cluster.assign(broker_id, HostedReplicas(topic_id, (0,), f"dir-{broker_id}"))
    cluster.alter(1, cluster.proposal("t", (1,)))
    cluster.heartbeat(1, offline=("dir-1",))
    assert leader_isr_elr(cluster) == (2, {2}, set())
    assert cluster.controller.statistics().unclean_elections == 0


@pytest.mark.parametrize("at_start", [False, True], ids=["while it runs", "before it starts"])
@pytest.mark.parametrize("first", [1, 2])
def test_a_partition_whose_last_member_has_a_failed_log_dir_waits_for_that_disk_and_for_the_eligible_replica(
    first: int, at_start: bool
) -> None:
    """The eligible one may never come back, and the log in the failed dir has every committed record as well."""
    cluster = Cluster()
    for broker_id in (1, 2):
        cluster.start(broker_id, log_dirs=(f"dir-{broker_id}", f"more-{broker_id}"))
    topic_id = cluster.create("t", replication_factor=2, config=MIN_2).topic_id
    for broker_id in (1, 2):
        cluster.assign(broker_id, HostedReplicas(topic_id, (0,), f"dir-{broker_id}"))
    cluster.let_die(2)
    if at_start:
        cluster.let_die(1)
        cluster.start(1, log_dirs=("more-1",), failed_log_dirs=1)
    else:
        cluster.heartbeat(1, offline=("dir-1",))
    assert leader_isr_elr(cluster) == (NO_LEADER, {1}, {2}) and not cluster.partition("t").log_lost
    cluster.let_die(1)
    held = (HostedReplicas(topic_id, (0,), f"dir-{first}"),)
    cluster.start(first, log_dirs=(f"dir-{first}", f"more-{first}"), replicas=held)
    assert leader_isr_elr(cluster) == (first, {first}, {2} if first == 1 else set())
    assert cluster.controller.statistics().unclean_elections == 0


def test_a_failed_log_dir_that_is_given_up_or_comes_back_without_the_log_makes_room_for_the_eligible_replica() -> None:
    for fields in ({"log_dirs": ("new",), "lost_log_dirs": ("dir-1",)}, {"log_dirs": ("dir-1",)}):
        cluster = Cluster()
        for broker_id in (1, 2):
            cluster.start(broker_id, log_dirs=(f"dir-{broker_id}",))
        cluster.create("t", replication_factor=2, config=MIN_2)
        cluster.let_die(2)
        cluster.heartbeat(1, offline=("dir-1",))
        assert leader_isr_elr(cluster) == (NO_LEADER, {1}, {2})
        cluster.let_die(1)
        cluster.start(1, **fields)
        assert leader_isr_elr(cluster) == (NO_LEADER, {2}, set())


def test_an_eligible_replica_in_a_log_dir_that_fails_is_eligible_no_more() -> None:
    cluster = Cluster()
    for broker_id in (1, 2):
        cluster.start(broker_id, log_dirs=(f"dir-{broker_id}", f"more-{broker_id}"))
    cluster.create("t", replication_factor=2, config=MIN_2)
    cluster.let_die(2)
    cluster.register(2, log_dirs=("dir-2",), failed_log_dirs=1, replicas=())
    assert leader_isr_elr(cluster) == (1, {1}, set()), "it names nothing: its log is in the other dir"


def test_a_new_process_of_an_eligible_replica_stays_eligible_again_and_again() -> None:
    cluster = cluster_of_three()
    cluster.let_die(3)
    cluster.let_die(2, 3)
    for _ in range(3):
        cluster.come_back(2)
        cluster.now_ms += SESSION_TIMEOUT_MS
        cluster.heartbeat(1)
    assert leader_isr_elr(cluster) == (1, {1}, {2})


# -- configuration -----------------------------------------------------------------------------------------------------


def test_lowering_the_minimum_ends_the_elr_before_the_lower_value_counts() -> None:
    cluster = cluster_of_three()
    cluster.alter(1, cluster.proposal("t", (1,)))
    before, log_end = cluster.partition("t"), cluster.next_offset
    cluster.configure("t", {"min.insync.replicas": "1"})
    assert cluster.log[log_end:] == [
        PartitionChangeRecord(*before.key, elr=()),
        ConfigRecord("topic", "t", "min.insync.replicas", "1"),
    ]
    assert leader_isr_elr(cluster) == (1, {1}, set())
    assert cluster.partition("t").partition_epoch == before.partition_epoch + 1, "the leader must hear of it"


def test_returning_the_minimum_to_a_lower_default_is_no_other_case() -> None:
    cluster = cluster_of_three()
    cluster.alter(1, cluster.proposal("t", (1,)))
    cluster.configure("t", {"min.insync.replicas": None})
    assert leader_isr_elr(cluster) == (1, {1}, set())


def test_a_lower_minimum_that_the_isr_does_not_reach_changes_nothing() -> None:
    cluster = cluster_of_three({"min.insync.replicas": "3"})
    cluster.alter(1, cluster.proposal("t", (1,)))
    cluster.configure("t", {"min.insync.replicas": "2"})
    assert leader_isr_elr(cluster) == (1, {1}, {2, 3})


def test_lowering_the_minimum_of_a_partition_without_a_leader_costs_it_no_eligible_replica() -> None:
    """In a disaster a person may lower it to get on; the replicas that can save the partition must not be forgotten."""
    cluster = cluster_of_three()
    left_to(cluster, 1)
    cluster.let_die(1, 2, 3)
    cluster.configure("t", {"min.insync.replicas": "1"})
    assert leader_isr_elr(cluster) == (NO_LEADER, {1}, {3})
    cluster.come_back(3)
    cluster.heartbeat(3)
    assert leader_isr_elr(cluster) == (3, {3}, set())


def test_raising_the_minimum_makes_nobody_eligible_who_may_lack_a_record() -> None:
    cluster = cluster_of_three({})
    cluster.alter(1, cluster.proposal("t", (1,)))
    cluster.configure("t", MIN_2)
    assert leader_isr_elr(cluster) == (1, {1}, set())
    cluster.alter(1, cluster.proposal("t", (1, 2)))
    cluster.let_die(2)
    assert leader_isr_elr(cluster) == (1, {1}, {2})


def test_a_controller_with_a_lower_default_ends_the_elrs_of_the_one_before() -> None:
    config = ControllerConfig(CLUSTER_ID, SESSION_TIMEOUT_MS, topic_defaults={"min.insync.replicas": 2})
    cluster = Cluster(3, config)
    cluster.create("t", replication_factor=3)
    cluster.create("u", replication_factor=3, config=MIN_2)
    for name in ("t", "u"):
        cluster.alter(cluster.partition(name).leader_id, cluster.proposal(name, (cluster.partition(name).leader_id,)))
    cluster.config = dataclasses.replace(config, topic_defaults={})
    cluster.fail_over()
    assert cluster.tick() == ()
    assert not cluster.partition("t").elr and cluster.partition("u").elr


# -- one partition -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elr", [(1,), (4,), (2, 2)])
def test_an_elr_with_an_isr_member_or_a_stranger_is_refused(elr: Ids) -> None:
    partition = PartitionRegistration("id", 0, (1, 2, 3), (1,), 1, 5, 9)
    with pytest.raises(InvariantViolation, match="ELR"):
        partition.merge(PartitionChangeRecord("id", 0, elr=elr))


def test_a_member_whose_log_is_lost_is_never_eligible() -> None:
    partition = PartitionRegistration("id", 0, (1, 2, 3), (1,), NO_LEADER, 5, 9, log_lost=True)
    assert eligible_replicas(partition, (2,), 2, min_isr=2) == ()
