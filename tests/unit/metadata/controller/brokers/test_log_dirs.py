"""Log dirs: what a broker may come back without, and that a replica whose log went with one never leads empty."""

from __future__ import annotations

import pytest

from metadata.controller.config import ControllerConfig
from penstock.errors import InvalidRegistrationError, InvalidRequestError
from penstock.messages.nodes.brokers import HostedReplicas, RegisterBrokerRequest
from penstock.types import NO_LEADER
from tests.unit.metadata.harness import CLUSTER_ID, SESSION_TIMEOUT_MS, Cluster, is_error, raised_by

OLD = ("dir-a", "dir-b")


def last_copy(config: dict[str, str] | None = None) -> Cluster:
    """Broker 1 with two log dirs is the last ISR member of t-0 and t-1, and dead; broker 2 lives."""
    cluster = Cluster()
    cluster.start(1, log_dirs=OLD)
    cluster.start(2, log_dirs=("x",))
    cluster.create("t", partitions=2, replication_factor=2, config=config)
    cluster.let_die(2)
    cluster.let_die(1)
    cluster.start(2, log_dirs=("x",))
    return cluster


def held(cluster: Cluster, *partitions: int) -> tuple[HostedReplicas, ...]:
    return (HostedReplicas(cluster.partition("t").topic_id, partitions),)


def give_up_dir_b(cluster: Cluster, *still_held: int) -> None:
    cluster.start(1, log_dirs=("dir-a", "new"), lost_log_dirs=("dir-b",), replicas=held(cluster, *still_held))


@pytest.mark.parametrize(
    "log_dirs",
    [("dir-a",), ("dir-a", "new"), ("new",), ("n1", "n2", "n3"), ()],
    ids=lambda dirs: ",".join(dirs) or "none",
)
def test_broker_without_a_log_dir_of_its_registration_is_refused_with_the_ids_and_the_remedy(
    log_dirs: tuple[str, ...],
) -> None:
    cluster = last_copy()
    error = raised_by(lambda: cluster.register(1, log_dirs=log_dirs))
    missing = [directory for directory in OLD if directory not in log_dirs]
    assert is_error(
        error, InvalidRegistrationError, *missing, f"--lost-log-dirs {','.join(missing)} (", "Put the disk back"
    )
    assert cluster.image.brokers[1].log_dirs == OLD and cluster.partition("t").leader_id == NO_LEADER


def test_it_is_refused_also_where_other_replicas_hold_everything() -> None:
    cluster = Cluster()
    cluster.start(1, log_dirs=OLD)
    cluster.let_die(1)
    assert is_error(raised_by(lambda: cluster.register(1, log_dirs=("dir-a",))), InvalidRegistrationError, "dir-b")


def test_same_process_cannot_drop_a_log_dir_either() -> None:
    cluster = Cluster()
    cluster.start(1, incarnation_id="p", log_dirs=OLD)
    assert is_error(
        raised_by(lambda: cluster.register(1, incarnation_id="p")), InvalidRegistrationError, "dir-a, dir-b"
    )


def test_same_process_cannot_gain_a_log_dir_that_its_broker_would_miss_at_its_next_start() -> None:
    cluster = Cluster()
    cluster.start(1, incarnation_id="p", log_dirs=OLD)
    error = raised_by(lambda: cluster.register(1, incarnation_id="p", log_dirs=(*OLD, "invented")))
    assert is_error(error, InvalidRegistrationError, "dir-a, dir-b", "new process")


def test_another_log_dir_beside_the_old_ones_is_welcome() -> None:
    cluster = last_copy()
    cluster.start(1, log_dirs=(*OLD, "dir-c"))
    assert cluster.image.brokers[1].log_dirs == (*OLD, "dir-c")
    assert cluster.partition("t", 0).leader_id == cluster.partition("t", 1).leader_id == 1


def test_dir_whose_disk_is_dead_stays_registered_and_must_come_back() -> None:
    cluster = last_copy()
    cluster.start(1, log_dirs=("dir-a",), failed_log_dirs=1)
    assert cluster.image.brokers[1].log_dirs == OLD
    cluster.let_die(1)
    assert is_error(
        raised_by(lambda: cluster.register(1, log_dirs=("dir-a", "new"))), InvalidRegistrationError, "dir-b"
    )


def test_one_dead_disk_excuses_one_missing_dir_and_no_more() -> None:
    cluster = Cluster()
    cluster.start(1, log_dirs=("a", "b", "c"))
    cluster.let_die(1)
    error = raised_by(lambda: cluster.register(1, log_dirs=("a", "new"), failed_log_dirs=1))
    assert is_error(error, InvalidRegistrationError, "b, c")


def test_last_copy_on_a_lost_dir_never_leads_and_its_isr_is_not_emptied() -> None:
    cluster = last_copy()
    give_up_dir_b(cluster, 0)
    whole, lost = cluster.partition("t", 0), cluster.partition("t", 1)
    assert (whole.isr, whole.leader_id, whole.log_lost) == ((1,), 1, False)
    assert (lost.isr, lost.leader_id, lost.log_lost) == ((1,), NO_LEADER, True)
    cluster.fail_over()
    cluster.heartbeat(1)
    cluster.let_die(1)
    cluster.start(1, log_dirs=("dir-a", "new"), replicas=held(cluster, 0))
    assert cluster.partition("t", 1).leader_id == NO_LEADER and cluster.partition("t", 1).log_lost


def test_leader_that_comes_back_before_it_was_fenced_loses_the_leadership_with_its_log() -> None:
    cluster = Cluster()
    cluster.start(1, log_dirs=OLD)
    cluster.create("t", partitions=2)
    cluster.now_ms = SESSION_TIMEOUT_MS
    give_up_dir_b(cluster, 0)
    assert [(cluster.partition("t", n).leader_id, cluster.partition("t", n).log_lost) for n in (0, 1)] == [
        (1, False),
        (NO_LEADER, True),
    ]


def test_replicas_that_others_hold_come_back_as_new_ones() -> None:
    cluster = Cluster()
    cluster.start(1, log_dirs=OLD)
    cluster.start(2, log_dirs=("x",))
    cluster.create("t", replication_factor=2)
    cluster.let_die(1)
    give_up_dir_b(cluster)
    partition = cluster.partition("t")
    assert (partition.isr, partition.leader_id, partition.log_lost) == ((2,), 2, False)


def test_option_that_is_left_in_place_gives_up_nothing_more() -> None:
    cluster = last_copy()
    give_up_dir_b(cluster, 0)
    cluster.let_die(1)
    give_up_dir_b(cluster)
    assert not cluster.partition("t", 0).log_lost, "it was not told lost: perhaps it was never made"
    cluster.let_die(1)
    error = raised_by(lambda: cluster.register(1, log_dirs=("new",), lost_log_dirs=("dir-b",)))
    assert is_error(error, InvalidRegistrationError, "dir-a")


def test_broker_is_told_which_ids_of_the_dirs_that_it_gives_up_it_was_not_registered_with() -> None:
    cluster = last_copy()
    request = RegisterBrokerRequest(
        CLUSTER_ID, 1, "next", "h", 9, "", -1, ("dir-a", "new"), lost_log_dirs=("typo", "dir-b")
    )
    answer = cluster.commit(cluster.controller.register_broker(request, cluster.now_ms, cluster.next_offset))
    assert answer.unknown_lost_log_dirs == ("typo",)
    assert cluster.image.brokers[1].log_dirs == ("dir-a", "new")


def test_broker_that_was_never_registered_has_no_log_dir_to_give_up() -> None:
    cluster = Cluster()
    error = raised_by(lambda: cluster.register(1, log_dirs=OLD, lost_log_dirs=("dir-c",)))
    assert is_error(error, InvalidRegistrationError, "dir-c", "it is new", "without --lost-log-dirs")
    cluster.start(1, log_dirs=OLD)


def test_dir_that_is_named_as_lost_and_is_there_is_not_lost() -> None:
    cluster = last_copy()
    cluster.start(1, log_dirs=OLD, lost_log_dirs=("dir-b",))
    assert cluster.partition("t", 0).leader_id == cluster.partition("t", 1).leader_id == 1


def test_partition_leads_again_when_its_log_is_back() -> None:
    cluster = last_copy()
    give_up_dir_b(cluster, 0)
    cluster.let_die(1)
    cluster.start(1, log_dirs=("dir-a", "new", "dir-b"), replicas=held(cluster, 0, 1))
    back = cluster.partition("t", 1)
    assert (back.isr, back.leader_id, back.log_lost) == ((1,), 1, False)


def test_unclean_election_takes_a_replica_with_a_log_before_the_lost_one_and_is_counted() -> None:
    cluster = last_copy()
    give_up_dir_b(cluster, 0)
    assert cluster.configure("t", {"unclean.leader.election.enable": "true"}) is None
    chosen = cluster.partition("t", 1)
    assert (chosen.isr, chosen.leader_id, chosen.log_lost) == ((2,), 2, False)
    assert cluster.controller.statistics().unclean_elections == 1


def test_unclean_election_takes_the_lost_replica_where_there_is_no_other() -> None:
    cluster = Cluster()
    cluster.start(1, log_dirs=OLD)
    cluster.create("t", partitions=2)
    cluster.let_die(1)
    give_up_dir_b(cluster, 0)
    assert cluster.configure("t", {"unclean.leader.election.enable": "true"}) is None
    chosen = cluster.partition("t", 1)
    assert (chosen.isr, chosen.leader_id, chosen.log_lost) == ((1,), 1, False)
    assert cluster.controller.statistics().unclean_elections == 1


def test_number_of_replicas_that_a_broker_names_is_bounded() -> None:
    cluster = Cluster(config=ControllerConfig(CLUSTER_ID, max_partitions=2))
    named = tuple(HostedReplicas(f"t{n}", ()) for n in range(5))
    assert is_error(raised_by(lambda: cluster.register(1, replicas=named)), InvalidRequestError, "5 replicas", "4")
