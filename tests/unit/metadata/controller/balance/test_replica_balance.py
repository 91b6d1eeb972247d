"""Replicas move by schedule: when, which, how many at once, and never in times of trouble."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from broker.config.dynamic_keys import BROKER_CONFIGS
from metadata.controller.balance import replica_balance
from metadata.controller.config import ControllerConfig
from tests.unit.metadata.harness import CLUSTER_ID, SESSION_TIMEOUT_MS, Cluster

INTERVAL_MS = 60_000
CONFIG = ControllerConfig(
    CLUSTER_ID, SESSION_TIMEOUT_MS, replica_balance_enable=True, replica_balance_check_interval_ms=INTERVAL_MS
)

FEW = replace(CONFIG, max_moving_partitions=2)


def grown(partitions: int = 12, factor: int = 2, config: ControllerConfig = CONFIG, topics: str = "t") -> Cluster:
    """Three brokers have everything, and a fourth has just joined."""
    cluster = Cluster(3, config)
    for name in topics:
        cluster.create(name, partitions, factor)
    cluster.tick()
    cluster.start(4)
    pass_time(cluster, 1)
    return cluster


def pass_time(cluster: Cluster, passed_ms: int) -> int:
    """Brokers in service are heard of in time, and the controller looks; so many partitions begin to move."""
    until, moves = cluster.now_ms + passed_ms, 0
    while cluster.now_ms < until:
        cluster.now_ms = min(until, cluster.now_ms + SESSION_TIMEOUT_MS - 1)
        for broker_id, broker in sorted(cluster.image.brokers.items()):
            if not broker.fenced and not broker.in_controlled_shutdown:
                cluster.heartbeat(broker_id)
        moves += cluster.commit(cluster.controller.tick(cluster.now_ms)).replica_moves
    return moves


def settle(cluster: Cluster) -> int:
    """Copies arrive and rounds go on until one interval is over; so many partitions moved."""
    moved = 0
    for _ in range(200):
        finish_copies(cluster)
        moved += pass_time(cluster, replica_balance.RETRY_MS)
    return moved


def finish_copies(cluster: Cluster) -> None:
    for name, topic in cluster.image.topics_by_name.items():
        for number, partition in topic.partitions.items():
            if partition.is_reassigning:
                cluster.alter(partition.leader_id, cluster.proposal(name, partition.replicas, number))


def counts(cluster: Cluster, topic: str | None = None) -> list[int]:
    found = Counter(dict.fromkeys(cluster.image.brokers, 0))
    for name, described in cluster.image.topics_by_name.items():
        if topic in (None, name):
            found.update(r for p in described.partitions.values() for r in p.target_replicas)
    return [found[broker_id] for broker_id in sorted(cluster.image.brokers)]


def test_a_broker_that_joined_gets_its_share_after_an_interval_and_not_before() -> None:
    cluster = grown()
    assert counts(cluster) == [8, 8, 8, 0] and cluster.controller.statistics().replica_spread == 8
    assert pass_time(cluster, INTERVAL_MS - 1) == 0
    assert pass_time(cluster, 1) == 6
    assert counts(cluster) == [6, 6, 6, 6]
    records = cluster.next_offset
    finish_copies(cluster)
    assert not any(p.is_reassigning for p in cluster.image.topics_by_name["t"].partitions.values())
    assert cluster.next_offset > records and cluster.controller.statistics().replica_spread == 0
    records = cluster.next_offset
    assert settle(cluster) == 0 and cluster.next_offset == records, "a cluster in balance writes nothing"


def test_a_schedule_that_is_switched_off_moves_nothing_and_wakes_nobody() -> None:
    cluster = grown(config=replace(CONFIG, replica_balance_enable=False, leader_rebalance_enable=False))
    assert settle(cluster) == 0 and counts(cluster) == [8, 8, 8, 0]
    assert ControllerConfig(CLUSTER_ID).replica_balance_enable is False


def test_the_deadline_is_the_next_round() -> None:
    cluster = grown(config=replace(CONFIG, leader_rebalance_enable=False, session_timeout_ms=10 * INTERVAL_MS))
    assert cluster.controller.next_deadline_ms() == 1 + INTERVAL_MS, "the fourth broker was first seen at 1"
    pass_time(cluster, INTERVAL_MS - 1)
    assert cluster.controller.next_deadline_ms() == 1 + INTERVAL_MS


def test_only_some_partitions_move_at_a_time_and_the_next_when_those_are_done() -> None:
    cluster = grown(config=FEW)
    assert pass_time(cluster, INTERVAL_MS) == 2
    assert pass_time(cluster, replica_balance.RETRY_MS) == 0
    finish_copies(cluster)
    assert pass_time(cluster, replica_balance.RETRY_MS) == 2
    assert settle(cluster) == 2 and counts(cluster) == [6, 6, 6, 6]


def test_no_round_begins_until_an_interval_after_the_last_move_that_somebody_else_began() -> None:
    cluster = grown(config=replace(CONFIG, session_timeout_ms=10 * INTERVAL_MS))
    first = cluster.partition("t")
    assert cluster.reassign("t", (*first.replicas[:1], 4)) is None
    assert pass_time(cluster, INTERVAL_MS) == 0 and pass_time(cluster, INTERVAL_MS) == 0
    deadline_ms = cluster.controller.next_deadline_ms()
    assert deadline_ms is not None and deadline_ms <= cluster.now_ms + replica_balance.RETRY_MS, "it sees when they end"
    finish_copies(cluster)
    assert pass_time(cluster, INTERVAL_MS - 1) == 0
    assert pass_time(cluster, replica_balance.RETRY_MS) == 5


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_broker_that_was_drained_gets_nothing_for_an_interval(is_seen: bool) -> None:
    """Also where the copies are so small that nobody looks before they are done."""
    cluster = grown()
    pass_time(cluster, INTERVAL_MS)
    finish_copies(cluster)
    pass_time(cluster, 3 * INTERVAL_MS // 2)
    for number, partition in cluster.image.topics_by_name["t"].partitions.items():
        if 4 in partition.replicas:
            stays = next(replica for replica in partition.replicas if replica != 4)
            assert cluster.reassign("t", (stays, stays % 3 + 1), number) is None
            pass_time(cluster, is_seen)
            finish_copies(cluster)
    assert counts(cluster)[3] == 0
    pass_time(cluster, 1)
    assert pass_time(cluster, INTERVAL_MS - 2) == 0
    assert pass_time(cluster, replica_balance.RETRY_MS) > 0, "the schedule goes by the numbers then"


@pytest.mark.parametrize("other", ["begins", "cancels"])
def test_a_round_ends_when_somebody_else_changes_a_move(other: str) -> None:
    cluster = grown(config=FEW)
    assert pass_time(cluster, INTERVAL_MS) == 2
    partitions = cluster.image.topics_by_name["t"].partitions.items()
    number, partition = next(each for each in partitions if each[1].is_reassigning is (other == "cancels"))
    fewer = None if other == "cancels" else partition.replicas[:1]
    assert cluster.reassign("t", fewer, number) is None
    finish_copies(cluster)
    pass_time(cluster, 1)
    assert pass_time(cluster, INTERVAL_MS - 1) == 0
    assert pass_time(cluster, replica_balance.RETRY_MS) == 2


def test_a_step_looks_at_so_many_partitions_only() -> None:
    cluster = grown(config=replace(CONFIG, max_replica_looks_per_step=3))
    assert 0 < pass_time(cluster, INTERVAL_MS) <= 3
    assert settle(cluster) > 0 and counts(cluster) == [6, 6, 6, 6]


def test_a_broker_that_restarted_between_two_looks_is_noticed_by_its_registration() -> None:
    cluster = grown()
    pass_time(cluster, INTERVAL_MS // 2)
    cluster.come_back(2, previous_broker_epoch=cluster.image.brokers[2].broker_epoch)
    cluster.heartbeat(2)
    for number, partition in cluster.image.topics_by_name["t"].partitions.items():
        cluster.alter(partition.leader_id, cluster.proposal("t", partition.replicas, number))
    pass_time(cluster, 1)
    assert pass_time(cluster, INTERVAL_MS - 1) == 0 and pass_time(cluster, 1) == 6


@pytest.mark.parametrize("trouble", ["fenced", "shutting down", "restarted"])
def test_nothing_moves_until_every_broker_has_been_in_service_for_an_interval(trouble: str) -> None:
    cluster = grown()
    pass_time(cluster, INTERVAL_MS // 2)
    if trouble == "shutting down":
        cluster.heartbeat(2, stop=True)
    else:
        cluster.let_die(2)
    if trouble != "restarted":
        assert pass_time(cluster, 3 * INTERVAL_MS) == 0
    cluster.come_back(2)
    cluster.heartbeat(2)
    for number, partition in cluster.image.topics_by_name["t"].partitions.items():
        cluster.alter(partition.leader_id, cluster.proposal("t", partition.replicas, number))
    assert pass_time(cluster, 1) == 0
    assert pass_time(cluster, INTERVAL_MS - 1) == 0
    assert pass_time(cluster, 1) == 6


def test_a_broker_that_goes_in_the_middle_of_a_round_ends_it() -> None:
    cluster = grown(config=FEW)
    assert pass_time(cluster, INTERVAL_MS) == 2
    finish_copies(cluster)
    cluster.heartbeat(3, stop=True)
    assert pass_time(cluster, replica_balance.RETRY_MS) == 0 and pass_time(cluster, INTERVAL_MS) == 0


def test_a_partition_that_is_not_whole_is_left_alone() -> None:
    cluster = grown(partitions=3, factor=2)
    lagging = cluster.partition("t")
    cluster.alter(lagging.leader_id, cluster.proposal("t", (lagging.leader_id,)))
    cluster.now_ms += 1
    pass_time(cluster, INTERVAL_MS)
    assert cluster.partition("t").replicas == lagging.replicas and counts(cluster)[3] == 1


def test_each_topic_is_shared_out() -> None:
    cluster = grown(partitions=8, factor=3, topics="abc")
    settle(cluster)
    assert counts(cluster) == [18, 18, 18, 18]
    for name in "abc":
        assert counts(cluster, name) == [6, 6, 6, 6]


def test_a_replica_never_goes_where_the_partition_would_be_in_fewer_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    cluster = Cluster(0, CONFIG)
    for broker_id in (1, 2, 3):
        cluster.start(broker_id, rack=racks[broker_id])
    cluster.create("t", 12, 2)
    cluster.start(4, rack="b")
    before = counts(cluster)
    settle(cluster)
    assert before[2] == 12 and counts(cluster) == [6, 6, 6, 6]
    for partition in cluster.image.topics_by_name["t"].partitions.values():
        assert len({racks[replica] for replica in partition.replicas}) == 2


def test_where_racks_forbid_evenness_the_others_are_evened_and_the_round_ends() -> None:
    """Rack a has one broker, which keeps a replica of each partition."""
    cluster = Cluster(0, CONFIG)
    for broker_id, rack in ((1, "a"), (2, "b")):
        cluster.start(broker_id, rack=rack)
    cluster.create("t", 10, 2)
    cluster.start(3, rack="b")
    settle(cluster)
    assert counts(cluster) == [10, 5, 5]
    records = cluster.next_offset
    assert settle(cluster) == 0 and cluster.next_offset == records


def test_a_new_controller_waits_an_interval() -> None:
    cluster = grown()
    pass_time(cluster, INTERVAL_MS - 2)
    cluster.fail_over()
    assert pass_time(cluster, INTERVAL_MS - 1) == 0
    assert pass_time(cluster, 1) == 6


def test_topics_that_are_deleted_in_the_middle_of_a_pass_are_passed_over() -> None:
    cluster = grown(partitions=4, topics="abc", config=replace(CONFIG, max_replica_looks_per_step=2))
    pass_time(cluster, INTERVAL_MS)
    cluster.delete("a", "b")
    settle(cluster)
    assert max(counts(cluster)) - min(counts(cluster)) <= 1


def configure(cluster: Cluster, **changes: str | None) -> None:
    """For all brokers, while they run."""
    prefix = "auto.replica.balance."
    texts = {prefix + key.replace("_", "."): value for key, value in changes.items()}
    assert cluster.configure("", texts, "broker") is None


RUNNING = replace(CONFIG, replica_balance_enable=False, broker_configs=BROKER_CONFIGS)


@pytest.mark.parametrize("off_ms", [0, 1, 10 * INTERVAL_MS])
def test_a_schedule_that_is_switched_on_begins_an_interval_later(off_ms: int) -> None:
    cluster = grown(config=RUNNING)
    assert pass_time(cluster, off_ms) == 0
    configure(cluster, enable="true")
    assert cluster.controller.next_deadline_ms() is not None
    assert pass_time(cluster, INTERVAL_MS - 1) == 0
    assert pass_time(cluster, 1) == 6 and counts(cluster) == [6, 6, 6, 6]


def test_a_schedule_that_is_switched_off_begins_no_move_and_ends_those_under_way() -> None:
    cluster = grown(config=replace(RUNNING, replica_balance_enable=True, max_moving_partitions=2))
    assert pass_time(cluster, INTERVAL_MS) == 2
    configure(cluster, enable="false")
    assert settle(cluster) == 0 and counts(cluster)[3] == 2
    assert not any(p.is_reassigning for p in cluster.image.topics_by_name["t"].partitions.values())
    configure(cluster, enable=None)
    assert pass_time(cluster, INTERVAL_MS - 1) == 0, "the file's value is in force again, and a new round begins"
    assert pass_time(cluster, 1) == 2


def test_another_interval_counts_at_once() -> None:
    cluster = grown(config=replace(RUNNING, replica_balance_enable=True))
    pass_time(cluster, 5_000)
    configure(cluster, check_interval_seconds="20")
    assert pass_time(cluster, 14_999) == 0 and pass_time(cluster, 1) == 6
    finish_copies(cluster)
    cluster = grown(config=replace(RUNNING, replica_balance_enable=True))
    configure(cluster, check_interval_seconds="600")
    assert pass_time(cluster, 599_999) == 0 and pass_time(cluster, 1) == 6


def test_a_new_controller_goes_by_what_was_switched_on() -> None:
    cluster = grown(config=RUNNING)
    configure(cluster, enable="true", check_interval_seconds="10")
    cluster.fail_over()
    assert pass_time(cluster, 9_999) == 0 and pass_time(cluster, 1) == 6


def test_a_broker_that_restarts_while_the_schedule_is_off_counts_when_it_is_switched_on() -> None:
    cluster = grown(config=RUNNING)
    pass_time(cluster, INTERVAL_MS)
    cluster.come_back(2, previous_broker_epoch=cluster.image.brokers[2].broker_epoch)
    cluster.heartbeat(2)
    for number, partition in cluster.image.topics_by_name["t"].partitions.items():
        cluster.alter(partition.leader_id, cluster.proposal("t", partition.replicas, number))
    configure(cluster, enable="true")
    pass_time(cluster, 1)
    assert pass_time(cluster, INTERVAL_MS - 1) == 0 and pass_time(cluster, 1) == 6
