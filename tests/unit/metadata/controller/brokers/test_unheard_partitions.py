"""A partition that no process before the lost disk can have heard of: nothing is lost with the disk, and it is led.

`unheard_from` is what the quorum's leader knows of what it has sent (raft/leadership.py, tests/unit/raft/test_sent.py).
"""

from __future__ import annotations

import pytest

from metadata.controller.config import ControllerConfig
from metadata.records import PartitionRecord
from penstock.messages.nodes.brokers import HostedReplicas
from penstock.messages.topics import NewPartitions
from penstock.types import NO_LEADER
from tests.unit.metadata.harness import CLUSTER_ID, SESSION_TIMEOUT_MS, Cluster

TWO_DIRS, ONE_DIR = ("dir-a", "dir-b"), ("dir-b",)
CONFIG = ControllerConfig(CLUSTER_ID, session_timeout_ms=SESSION_TIMEOUT_MS)


def last_member_that_never_heard(log_dirs: tuple[str, ...] = TWO_DIRS) -> Cluster:
    """Broker 1 is dead, and its session is not over yet: t-0 is made, and 1 leads it. Then the other member restarts
    before it has made its log, and the session of broker 1 ends."""
    cluster = Cluster(config=CONFIG)
    cluster.start(1, log_dirs=log_dirs)
    other = cluster.start(2, log_dirs=("x",))
    cluster.create("t", replication_factor=2)
    assert cluster.partition("t").leader_id == 1
    cluster.start(2, log_dirs=("x",), previous_broker_epoch=other)
    cluster.let_die(1)
    partition = cluster.partition("t")
    assert (partition.isr, partition.elr, partition.leader_id) == ((1,), (), NO_LEADER)
    return cluster


def made_at(cluster: Cluster, partition: int = 0) -> int:
    records = enumerate(cluster.log)
    (offset,) = (at for at, record in records if isinstance(record, PartitionRecord) and record.partition == partition)
    return offset


def give_up(cluster: Cluster, unheard_from: int | None, log_dirs: tuple[str, ...] = TWO_DIRS) -> tuple[bool, int]:
    """Broker 1 comes back without dir-b; whether the log of t-0 counts as lost, and who leads."""
    cluster.unheard_from = unheard_from
    kept = tuple(log_dir for log_dir in log_dirs if log_dir != "dir-b")
    cluster.start(1, log_dirs=(*kept, "new"), lost_log_dirs=("dir-b",))
    return cluster.partition("t").log_lost, cluster.partition("t").leader_id


@pytest.mark.parametrize("log_dirs", [TWO_DIRS, ONE_DIR], ids=["not assigned", "assigned by the controller"])
def test_partition_that_was_sent_to_no_earlier_process_has_lost_nothing_and_is_led(log_dirs: tuple[str, ...]) -> None:
    cluster = last_member_that_never_heard(log_dirs)
    assert cluster.partition("t").directory_of(1) == ("" if len(log_dirs) > 1 else "dir-b")
    assert give_up(cluster, made_at(cluster), log_dirs) == (False, 1)
    assert cluster.partition("t").isr == (1,)
    assert cluster.controller.statistics().unclean_elections == 0


def test_partition_that_may_have_been_sent_to_an_earlier_process_stays_lost() -> None:
    cluster = last_member_that_never_heard()
    assert give_up(cluster, made_at(cluster) + 1) == (True, NO_LEADER)


def test_nothing_is_proven_where_the_leader_does_not_know_what_was_sent() -> None:
    assert give_up(last_member_that_never_heard(), None) == (True, NO_LEADER)


def test_controller_that_did_not_make_the_partition_itself_does_not_know_when_it_was_made() -> None:
    cluster = last_member_that_never_heard()
    cluster.fail_over()
    assert give_up(cluster, 0) == (True, NO_LEADER)


def test_each_partition_is_judged_by_its_own_record() -> None:
    """The second one is added while broker 1 is dead, and comes behind what that had been sent."""
    cluster = Cluster(config=CONFIG)
    cluster.start(1, log_dirs=TWO_DIRS)
    cluster.create("t")
    cluster.add_partitions(NewPartitions("t", 2))
    cluster.let_die(1)
    give_up(cluster, made_at(cluster, 1))
    assert [cluster.partition("t", number).log_lost for number in (0, 1)] == [True, False]


def test_replica_that_the_broker_itself_tells_lost_is_lost() -> None:
    """It found an unfinished copy, whatever the leader believes."""
    cluster = last_member_that_never_heard()
    cluster.unheard_from = 0
    held = (HostedReplicas(cluster.partition("t").topic_id, (0,), "dir-b"),)
    cluster.start(1, log_dirs=("dir-a", "new"), lost_log_dirs=("dir-b",), replicas=held)
    assert cluster.partition("t").log_lost


def test_mark_that_is_there_already_stays() -> None:
    cluster = last_member_that_never_heard()
    assert give_up(cluster, None) == (True, NO_LEADER)
    cluster.let_die(1)
    cluster.unheard_from = 0
    cluster.start(1, log_dirs=("dir-a", "new-2"), lost_log_dirs=("new",))
    assert cluster.partition("t").log_lost
