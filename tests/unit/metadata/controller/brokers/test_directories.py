"""Directories of replicas in the metadata (KIP-858): who assigns them, and what follows for elections and ISRs."""

from __future__ import annotations

from metadata.controller.config import ControllerConfig
from metadata.offline import OfflineReason, offline_reason, offline_text
from penstock.errors import (
    BrokerIdNotRegisteredError,
    EligibleLeadersNotAvailableError,
    IneligibleReplicaError,
    InvalidRequestError,
    LogDirNotFoundError,
    NotLeaderOrFollowerError,
    StaleBrokerEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.elections import ElectionType, ElectLeadersRequest, NamedPartitions
from penstock.messages.nodes.brokers import AssignReplicasToDirsRequest, HostedReplicas
from penstock.messages.topics import NewTopic, ReplicaAssignment
from penstock.types import NO_LEADER
from tests.unit.metadata.harness import CLUSTER_ID, Cluster, is_error, raised_by

TWO = ("a", "b")


def two_brokers() -> Cluster:
    """Broker 1 has two log dirs, broker 2 has one; t-0 and t-1 have a replica on each."""
    cluster = Cluster()
    cluster.start(1, log_dirs=TWO)
    cluster.start(2, log_dirs=("x",))
    cluster.create("t", partitions=2, replication_factor=2)
    return cluster


def held(cluster: Cluster, log_dir: str, *partitions: int) -> HostedReplicas:
    return HostedReplicas(cluster.partition("t").topic_id, partitions, log_dir)


def dirs(cluster: Cluster, broker_id: int = 1) -> list[str]:
    partitions = cluster.image.topics_by_name["t"].partitions
    return [partitions[number].directory_of(broker_id) for number in sorted(partitions)]


def half_dead(cluster: Cluster) -> None:
    """Broker 1 starts again, and the disk of its log dir b does not answer."""
    cluster.let_die(1)
    cluster.start(1, log_dirs=("a",), failed_log_dirs=1, replicas=(held(cluster, "a", 0),))


def test_new_replica_is_assigned_to_the_only_log_dir_of_its_broker() -> None:
    cluster = two_brokers()
    assert dirs(cluster, 2) == ["x", "x"] and dirs(cluster, 1) == ["", ""]


def test_only_log_dir_is_the_one_that_is_online() -> None:
    cluster = two_brokers()
    half_dead(cluster)
    cluster.create("u")
    partition = cluster.partition("u")
    assert [partition.directory_of(broker) for broker in partition.replicas] in (["a"], ["x"])
    assert cluster.image.brokers[1].only_log_dir == "a"


def test_reported_dir_is_recorded_and_neither_epoch_changes() -> None:
    cluster = two_brokers()
    before = cluster.partition("t", 1)
    assert cluster.assign(1, held(cluster, "a", 0), held(cluster, "b", 1)) == (None, None)
    after = cluster.partition("t", 1)
    assert dirs(cluster, 1) == ["a", "b"] and dirs(cluster, 2) == ["x", "x"]
    assert (after.leader_epoch, after.partition_epoch) == (before.leader_epoch, before.partition_epoch)


def test_proposal_that_was_under_way_when_a_dir_was_recorded_is_accepted() -> None:
    cluster = two_brokers()
    leader = cluster.partition("t").leader_id
    proposal = cluster.proposal("t", (leader,))
    cluster.assign(1, held(cluster, "a", 0))
    assert cluster.alter(leader, proposal)[0].error is None


def test_report_that_is_sent_again_makes_no_record() -> None:
    cluster = two_brokers()
    cluster.assign(1, held(cluster, "a", 0))
    before = cluster.next_offset
    assert cluster.assign(1, held(cluster, "a", 0)) == (None,) and cluster.next_offset == before


def test_each_refusal_of_a_report_is_typed_and_the_other_replicas_are_recorded() -> None:
    cluster = two_brokers()
    cluster.start(3, log_dirs=("y",))
    topic_id = cluster.partition("t").topic_id
    errors = cluster.assign(
        1,
        held(cluster, "elsewhere", 0),
        HostedReplicas("no such topic", (0,), "a"),
        held(cluster, "a", 7, 1),
        held(cluster, "b", 1),
    )
    assert is_error(errors[0], LogDirNotFoundError, "broker 1", "elsewhere")
    assert is_error(errors[1], UnknownTopicIdError, "no such topic")
    assert is_error(errors[2], UnknownTopicOrPartitionError, "t", "7")
    assert errors[3] is None and is_error(errors[4], InvalidRequestError, "named twice")
    assert dirs(cluster) == ["", "a"]
    others = cluster.assign(3, HostedReplicas(topic_id, (0,), "y"))
    assert is_error(others[0], NotLeaderOrFollowerError, "t-0", "broker 3")


def test_report_of_another_registration_is_refused_as_a_whole() -> None:
    cluster = two_brokers()
    stale = AssignReplicasToDirsRequest(1, cluster.image.brokers[1].broker_epoch - 1, (held(cluster, "a", 0),))
    unknown = AssignReplicasToDirsRequest(9, 0, (held(cluster, "a", 0),))
    decide = cluster.controller.assign_replicas_to_dirs
    assert is_error(raised_by(lambda: decide(stale, 0)), StaleBrokerEpochError)
    assert is_error(raised_by(lambda: decide(unknown, 0)), BrokerIdNotRegisteredError)


def test_number_of_replicas_of_one_report_is_bounded() -> None:
    cluster = Cluster(config=ControllerConfig(CLUSTER_ID, max_items_per_request=2))
    cluster.start(1, log_dirs=TWO)
    error = raised_by(lambda: cluster.assign(1, HostedReplicas("id", (0, 1), "a"), HostedReplicas("other", (), "a")))
    assert is_error(error, InvalidRequestError, "3 replicas", "2")


def test_registration_records_where_all_replicas_are_also_those_of_an_older_release() -> None:
    cluster = two_brokers()
    cluster.let_die(1)
    cluster.start(1, log_dirs=TWO, replicas=(held(cluster, "b", 0), held(cluster, "a", 1)))
    assert dirs(cluster) == ["b", "a"]


def test_replica_that_was_moved_is_corrected_and_no_other_one() -> None:
    cluster = two_brokers()
    cluster.assign(1, held(cluster, "a", 0, 1))
    cluster.let_die(1)
    before = cluster.next_offset
    cluster.register(1, log_dirs=TWO, replicas=(held(cluster, "a", 0), held(cluster, "b", 1)))
    assert dirs(cluster) == ["a", "b"]
    assert cluster.next_offset == before + 2, "one record for the replica that was moved, and the registration"


def test_same_process_that_registers_again_records_its_replicas_too_and_once() -> None:
    cluster = two_brokers()
    incarnation = cluster.image.brokers[1].incarnation_id
    request = {"incarnation_id": incarnation, "log_dirs": TWO, "replicas": (held(cluster, "a", 0),)}
    cluster.register(1, **request)
    assert dirs(cluster) == ["a", ""]
    before = cluster.next_offset
    cluster.register(1, **request)
    assert cluster.next_offset == before


def test_node_of_an_older_release_names_replicas_without_dirs_and_changes_none() -> None:
    cluster = two_brokers()
    cluster.assign(1, held(cluster, "a", 0))
    cluster.let_die(1)
    cluster.start(1, log_dirs=("a",), failed_log_dirs=1, replicas=(held(cluster, "", 0, 1),))
    assert dirs(cluster) == ["a", ""] and cluster.image.brokers[1].offline_log_dirs == ()


def test_registration_that_names_a_replica_in_a_dir_that_is_not_its_own_is_refused() -> None:
    cluster = two_brokers()
    cluster.let_die(1)
    error = raised_by(lambda: cluster.register(1, log_dirs=TWO, replicas=(held(cluster, "x", 0),)))
    assert is_error(error, InvalidRequestError, "'x'")


def test_topic_that_is_gone_does_not_stop_a_registration() -> None:
    cluster = two_brokers()
    named = (held(cluster, "a", 0), HostedReplicas("gone", (0,), "a"), held(cluster, "b", 99))
    cluster.let_die(1)
    cluster.start(1, log_dirs=TWO, replicas=named)
    assert dirs(cluster) == ["a", ""]


def test_first_registration_leaves_what_is_too_much_for_one_decision_to_the_broker() -> None:
    cluster = Cluster(config=ControllerConfig(CLUSTER_ID, max_records_per_decision=3))
    cluster.start(1, log_dirs=TWO)
    for name in ("t", "u", "v", "w"):
        cluster.create(name)
    named = tuple(HostedReplicas(cluster.partition(name).topic_id, (0,), "a") for name in ("t", "u", "v", "w"))
    cluster.let_die(1)
    cluster.start(1, log_dirs=TWO, replicas=named)
    assert [cluster.partition(name).directory_of(1) for name in ("t", "u", "v", "w")].count("a") == 3


def test_replica_in_a_dead_log_dir_is_not_elected_and_the_others_of_its_broker_are() -> None:
    cluster = two_brokers()
    cluster.assign(1, held(cluster, "a", 0), held(cluster, "b", 1))
    cluster.let_die(2)
    half_dead(cluster)
    assert cluster.image.brokers[1].offline_log_dirs == ("b",)
    assert [cluster.partition("t", number).leader_id for number in (0, 1)] == [1, NO_LEADER]
    assert cluster.partition("t", 1).isr == (1,)
    cluster.fail_over()
    cluster.heartbeat(1)
    assert cluster.partition("t", 1).leader_id == NO_LEADER
    cluster.let_die(1)
    cluster.start(1, log_dirs=TWO)
    assert cluster.partition("t", 1).leader_id == 1, "the disk answers again"


def test_order_to_elect_uncleanly_takes_no_replica_in_a_dead_log_dir() -> None:
    cluster = Cluster()
    cluster.start(1, log_dirs=TWO)
    cluster.create("t")
    cluster.assign(1, held(cluster, "b", 0))
    cluster.let_die(1)
    cluster.start(1, log_dirs=("a",), failed_log_dirs=1)
    request = ElectLeadersRequest(ElectionType.UNCLEAN, (NamedPartitions("t"),))
    (result,) = cluster.commit(cluster.controller.elect_leaders(request, cluster.now_ms)).partitions
    assert is_error(result.error, EligibleLeadersNotAvailableError, "t-0", "log dir that works")


def test_leader_cannot_take_a_replica_into_its_isr_whose_log_dir_is_dead() -> None:
    cluster = two_brokers()
    cluster.assign(1, held(cluster, "a", 0), held(cluster, "b", 1))
    half_dead(cluster)
    whole, dead = (cluster.alter(2, cluster.proposal("t", (1, 2), number))[0] for number in (0, 1))
    assert whole.error is None and is_error(dead.error, IneligibleReplicaError, "t-1", "broker 1", "offline: b")


def test_unassigned_replica_counts_as_offline_while_any_log_dir_is_and_a_report_ends_that() -> None:
    cluster = Cluster()
    cluster.start(1, log_dirs=("a", "b", "c"))
    cluster.create("t")
    cluster.let_die(1)
    cluster.start(1, log_dirs=("a", "c"), failed_log_dirs=1)
    assert cluster.partition("t").leader_id == NO_LEADER
    cluster.assign(1, held(cluster, "b", 0))
    assert cluster.partition("t").leader_id == NO_LEADER and dirs(cluster) == ["b"]
    cluster.assign(1, held(cluster, "c", 0))
    assert cluster.partition("t").leader_id == 1


def test_replica_that_is_found_in_a_dead_log_dir_leaves_the_isr() -> None:
    cluster = two_brokers()
    cluster.assign(1, held(cluster, "a", 0, 1))
    half_dead(cluster)
    assert cluster.alter(2, cluster.proposal("t", (2, 1), 1))[0].error is None
    cluster.assign(1, held(cluster, "b", 1))
    assert cluster.partition("t", 1).isr == (2,) and dirs(cluster) == ["a", "b"]


def test_replica_in_a_lost_log_dir_has_none_any_more() -> None:
    cluster = two_brokers()
    cluster.assign(1, held(cluster, "a", 0), held(cluster, "b", 1))
    cluster.let_die(1)
    cluster.start(1, log_dirs=("a", "new"), lost_log_dirs=("b",), replicas=(held(cluster, "a", 0),))
    assert dirs(cluster) == ["a", ""]


def last_copies(cluster: Cluster) -> None:
    """Broker 1 is the last ISR member of both partitions, and dead."""
    cluster.assign(1, held(cluster, "a", 0), held(cluster, "b", 1))
    cluster.let_die(2)
    cluster.let_die(1)


def test_last_copy_is_lost_with_its_own_log_dir_and_not_with_another() -> None:
    """The log of the replica in the dir that is still there is damaged, so the broker does not name it."""
    cluster = two_brokers()
    last_copies(cluster)
    cluster.start(1, log_dirs=("a", "new"), lost_log_dirs=("b",))
    whole, lost = cluster.partition("t", 0), cluster.partition("t", 1)
    assert (whole.log_lost, whole.leader_id, lost.log_lost, lost.leader_id) == (False, 1, True, NO_LEADER)


def test_last_copy_that_was_moved_out_of_a_lost_log_dir_is_not_lost() -> None:
    cluster = two_brokers()
    last_copies(cluster)
    cluster.start(1, log_dirs=("a", "new"), lost_log_dirs=("b",), replicas=(held(cluster, "new", 1),))
    assert not cluster.partition("t", 1).log_lost and dirs(cluster) == ["a", "new"]


def test_last_copy_that_was_about_to_leave_a_lost_log_dir_is_lost_although_the_metadata_has_its_new_dir() -> None:
    """The broker has found an unfinished copy, and names the replica in the dir that it gives up."""
    cluster = two_brokers()
    last_copies(cluster)
    named = (held(cluster, "a", 1), held(cluster, "b", 0))
    cluster.start(1, log_dirs=("a", "new"), lost_log_dirs=("b",), replicas=named)
    lost, moved = cluster.partition("t", 0), cluster.partition("t", 1)
    assert (lost.isr, lost.leader_id, lost.log_lost) == ((1,), NO_LEADER, True)
    assert (moved.leader_id, moved.log_lost) == (1, False) and dirs(cluster) == ["", "a"]
    cluster.let_die(1)
    cluster.start(1, log_dirs=("a", "new"), replicas=(held(cluster, "a", 1),))
    assert cluster.partition("t", 0).log_lost
    cluster.let_die(1)
    cluster.start(1, log_dirs=("a", "new", "b"), replicas=(held(cluster, "a", 1), held(cluster, "b", 0)))
    assert (cluster.partition("t", 0).leader_id, cluster.partition("t", 0).log_lost) == (1, False)


def test_replica_that_may_be_in_a_dead_log_dir_is_not_lost_with_another() -> None:
    cluster = Cluster()
    cluster.start(1, log_dirs=("a", "b", "c"))
    cluster.create("t")
    cluster.assign(1, held(cluster, "a", 0))
    cluster.let_die(1)
    cluster.start(1, log_dirs=("a",), lost_log_dirs=("b",), failed_log_dirs=1, replicas=(held(cluster, "b", 0),))
    assert not cluster.partition("t").log_lost


def test_replica_in_a_dir_that_is_neither_there_nor_given_up_is_refused() -> None:
    cluster = two_brokers()
    cluster.let_die(1)
    error = raised_by(lambda: cluster.register(1, log_dirs=TWO, replicas=(held(cluster, "c", 0),)))
    assert is_error(error, InvalidRequestError, "'c'")


# -- a log dir that fails while its broker runs ------------------------------------------------------------------------


def running() -> Cluster:
    """Broker 1 leads t-0 in its log dir a and t-1 in b; broker 2 is in sync with both."""
    cluster = Cluster()
    cluster.start(1, log_dirs=TWO)
    cluster.start(2, log_dirs=("x",))
    by_hand = tuple(ReplicaAssignment(number, (1, 2)) for number in (0, 1))
    cluster.create_all(NewTopic("t", assignment=by_hand))
    cluster.assign(1, held(cluster, "a", 0), held(cluster, "b", 1))
    return cluster


def test_failed_dir_takes_exactly_its_replicas_from_their_isrs_and_leaderships() -> None:
    cluster = running()
    healthy = cluster.partition("t", 0)
    answer = cluster.heartbeat(1, offline=("b",))
    assert answer.offline_log_dirs == ("b",) and not answer.is_fenced
    assert cluster.partition("t", 0) is healthy, "its leader and its leader epoch are as they were"
    gone = cluster.partition("t", 1)
    assert (gone.isr, gone.leader_id, gone.leader_epoch) == ((2,), 2, 1)
    assert cluster.image.brokers[1].offline_log_dirs == ("b",) and cluster.image.brokers[1].is_active


def test_failed_dir_is_recorded_once_and_a_new_controller_knows_it() -> None:
    cluster = running()
    cluster.heartbeat(1, offline=("b",))
    before = cluster.next_offset
    assert cluster.heartbeat(1, offline=("b",)).offline_log_dirs == ("b",)
    cluster.fail_over()
    assert cluster.heartbeat(1, offline=("b", "not its own")).offline_log_dirs == ("b",)
    assert cluster.heartbeat(1).offline_log_dirs == ("b",), "only a registration brings it back"
    assert cluster.next_offset == before
    (refused,) = cluster.alter(2, cluster.proposal("t", (1, 2), 1))
    assert is_error(refused.error, IneligibleReplicaError, "offline: b")


def test_second_dir_that_fails_takes_its_own_replicas_too() -> None:
    cluster = running()
    cluster.heartbeat(1, offline=("b",))
    assert cluster.heartbeat(1, offline=("a",)).offline_log_dirs == ("a", "b")
    assert [cluster.partition("t", number).isr for number in (0, 1)] == [(2,), (2,)]


def test_last_member_stays_in_the_isr_without_a_leader_until_its_disk_is_back() -> None:
    cluster = running()
    cluster.let_die(2)
    cluster.heartbeat(1, offline=("b",))
    alone = cluster.partition("t", 1)
    assert (alone.isr, alone.leader_id) == ((1,), NO_LEADER) and cluster.partition("t", 0).leader_id == 1
    assert offline_reason(alone, cluster.image) is OfflineReason.LOG_DIR_OFFLINE
    assert "Repair the disk, then start that broker" in offline_text(
        alone, OfflineReason.LOG_DIR_OFFLINE, cluster.image
    )
    cluster.let_die(1)
    cluster.start(1, log_dirs=TWO, replicas=(held(cluster, "a", 0), held(cluster, "b", 1)))
    assert cluster.partition("t", 1).leader_id == 1 and cluster.image.brokers[1].offline_log_dirs == ()


def test_unassigned_replica_leaves_its_isr_until_its_broker_says_where_it_is() -> None:
    cluster = two_brokers()
    cluster.heartbeat(1, offline=("b",))
    assert [cluster.partition("t", number).isr for number in (0, 1)] == [(2,), (2,)]
    cluster.assign(1, held(cluster, "a", 0), held(cluster, "b", 1))
    whole, dead = (cluster.alter(2, cluster.proposal("t", (1, 2), number))[0] for number in (0, 1))
    assert whole.error is None and isinstance(dead.error, IneligibleReplicaError)


def test_dir_that_fails_before_the_broker_is_unfenced_gives_it_no_partition_of_that_dir() -> None:
    cluster = running()
    cluster.let_die(2)
    cluster.let_die(1)
    cluster.register(1, log_dirs=TWO, replicas=(held(cluster, "a", 0), held(cluster, "b", 1)))
    assert cluster.heartbeat(1, offline=("b",)).is_fenced, "one thing at a time"
    assert not cluster.heartbeat(1, offline=("b",)).is_fenced
    assert [cluster.partition("t", number).leader_id for number in (0, 1)] == [1, NO_LEADER]


def test_same_process_that_registers_again_without_a_dir_loses_its_replicas_there() -> None:
    cluster = running()
    incarnation = cluster.image.brokers[1].incarnation_id
    fields = {"incarnation_id": incarnation, "failed_log_dirs": 1, "replicas": (held(cluster, "a", 0),)}
    cluster.register(1, log_dirs=("a",), **fields)
    broker = cluster.image.brokers[1]
    assert broker.is_active and broker.offline_log_dirs == ("b",) and set(broker.log_dirs) == {"a", "b"}
    assert [cluster.partition("t", number).isr for number in (0, 1)] == [(1, 2), (2,)]
    before = cluster.next_offset
    cluster.register(1, log_dirs=("a",), **fields)
    assert cluster.next_offset == before


def test_topic_that_allows_it_gets_an_unclean_leader_when_the_dir_of_its_last_copy_fails() -> None:
    cluster = running()
    cluster.configure("t", {"unclean.leader.election.enable": "true"})
    cluster.alter(1, cluster.proposal("t", (1,), 1))
    cluster.heartbeat(1, offline=("b",))
    assert cluster.partition("t", 1).leader_id == 2
    assert cluster.controller.statistics().unclean_elections == 1
