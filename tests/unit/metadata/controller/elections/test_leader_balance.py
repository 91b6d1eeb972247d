"""Leaderships go back to the preferred leaders by schedule: when, which, how many at once, and to whom never."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata.controller.config import ControllerConfig
from penstock.messages.nodes.brokers import HostedReplicas
from tests.unit.metadata.harness import CLUSTER_ID, SESSION_TIMEOUT_MS, Cluster

INTERVAL_MS = 300_000
CONFIG = ControllerConfig(CLUSTER_ID, SESSION_TIMEOUT_MS)


def moved_away(partitions: int, config: ControllerConfig = CONFIG) -> tuple[Cluster, int]:
    """Two brokers with all partitions, led by broker 2 since broker 1 died. That is back, and in sync again.

    The cluster, and the number of partitions that broker 1 should lead."""
    cluster = Cluster(2, config)
    cluster.create("t", partitions, 2)
    cluster.let_die(1)
    cluster.come_back(1)
    cluster.heartbeat(1)
    join(cluster, partitions)
    return cluster, sum(cluster.partition("t", number).replicas[0] == 1 for number in range(partitions))


def join(cluster: Cluster, partitions: int) -> None:
    """Broker 1 is in sync again."""
    for number in range(partitions):
        cluster.alter(2, cluster.proposal("t", (2, 1), number))


def pass_time(cluster: Cluster, passed_ms: int) -> int:
    """Brokers in service are heard of, then the controller looks once; so many leaderships went back."""
    cluster.now_ms += passed_ms
    for broker_id, broker in sorted(cluster.image.brokers.items()):
        if not broker.fenced and not broker.in_controlled_shutdown:
            cluster.heartbeat(broker_id)
    return cluster.commit(cluster.controller.tick(cluster.now_ms)).preferred_elections


def led_by(cluster: Cluster, broker_id: int) -> int:
    return sum(partition.leader_id == broker_id for partition in cluster.image.topics_by_name["t"].partitions.values())


def test_a_broker_that_came_back_leads_again_when_the_interval_is_over_and_not_before() -> None:
    cluster, share = moved_away(4)
    assert share == 2 and led_by(cluster, 2) == 4
    assert cluster.controller.statistics().led_elsewhere == share
    before = {number: cluster.partition("t", number) for number in range(4)}
    assert pass_time(cluster, INTERVAL_MS - cluster.now_ms - 1) == 0
    assert cluster.controller.next_deadline_ms() == INTERVAL_MS
    assert pass_time(cluster, 1) == share
    assert led_by(cluster, 1) == share and cluster.controller.statistics().led_elsewhere == 0
    for number, partition in before.items():
        is_moved = partition.replicas[0] == 1
        now = cluster.partition("t", number)
        assert (now.isr, now.leader_epoch) == (partition.isr, partition.leader_epoch + is_moved)
    assert cluster.controller.statistics().unclean_elections == 0
    records = cluster.next_offset
    assert pass_time(cluster, INTERVAL_MS) == 0 and cluster.next_offset == records, (
        "a cluster in balance writes nothing"
    )


@pytest.mark.parametrize(("percentage", "goes_back"), [(0, True), (9, True), (10, False), (50, False), (100, False)])
def test_a_broker_gets_nothing_back_while_it_leads_enough(percentage: int, goes_back: bool) -> None:
    """One in ten is elsewhere."""
    cluster, share = moved_away(20, replace(CONFIG, leader_imbalance_percentage=percentage))
    assert share == 10
    cluster.create("u", 180, 1)
    led_already = sum(p.replicas[0] == 1 for p in cluster.image.topics_by_name["u"].partitions.values())
    assert led_already == 90
    assert pass_time(cluster, INTERVAL_MS) == (share if goes_back else 0)


@pytest.mark.parametrize("percentage", [0, 100])
def test_all_or_none_are_the_ends_of_the_percentage(percentage: int) -> None:
    cluster, share = moved_away(4, replace(CONFIG, leader_imbalance_percentage=percentage))
    assert pass_time(cluster, INTERVAL_MS) == (0 if percentage == 100 else share)


def test_a_replica_that_is_not_in_sync_is_not_elected() -> None:
    cluster = Cluster(2)
    cluster.create("t", 1, 2)
    first, second = cluster.partition("t").replicas
    cluster.let_die(first)
    cluster.come_back(first)
    cluster.heartbeat(first)
    assert pass_time(cluster, INTERVAL_MS) == 0 and cluster.partition("t").leader_id == second
    cluster.alter(second, cluster.proposal("t", (second, first)))
    assert pass_time(cluster, INTERVAL_MS - 1) == 0
    assert pass_time(cluster, 1) == 1


@pytest.mark.parametrize("how", ["stop", "fence"])
def test_a_broker_that_shuts_down_or_is_fenced_is_not_elected(how: str) -> None:
    """It is the last in sync of one partition; of the others it has left the ISR."""
    cluster, _ = moved_away(2)
    mine = next(number for number in range(2) if cluster.partition("t", number).replicas[0] == 1)
    assert pass_time(cluster, INTERVAL_MS) == 1
    cluster.let_die(2)
    assert all(cluster.partition("t", number).isr == (1,) for number in range(2))
    if how == "stop":
        cluster.heartbeat(1, stop=True)
    else:
        cluster.let_die(1)
    assert not cluster.image.brokers[1].is_active
    cluster.start(2)
    assert cluster.partition("t", mine).leader_id != 1
    records = cluster.next_offset
    assert pass_time(cluster, INTERVAL_MS) == 0 and cluster.next_offset == records


def test_a_replica_in_a_log_dir_that_has_failed_is_not_elected() -> None:
    """The other one, in a log dir that works, is."""
    cluster = Cluster()
    cluster.start(1, log_dirs=("a", "b"))
    cluster.start(2)
    cluster.create("t", 4, 2)
    broken, works = (p for p in cluster.image.topics_by_name["t"].partitions.values() if p.replicas[0] == 1)
    for partition, log_dir in ((broken, "a"), (works, "b")):
        cluster.assign(1, HostedReplicas(partition.topic_id, (partition.partition,), log_dir))
    cluster.let_die(1)
    cluster.register(
        1,
        log_dirs=("a", "b"),
        replicas=tuple(
            HostedReplicas(p.topic_id, (p.partition,), log_dir) for p, log_dir in ((broken, "a"), (works, "b"))
        ),
    )
    cluster.heartbeat(1)
    join(cluster, 4)
    cluster.heartbeat(1, offline=("a",))
    assert pass_time(cluster, INTERVAL_MS) == 1
    assert [cluster.partition("t", p.partition).leader_id for p in (broken, works)] == [2, 1]


def test_a_broker_whose_session_is_over_is_fenced_and_gets_nothing() -> None:
    cluster, share = moved_away(4)
    cluster.now_ms += INTERVAL_MS
    cluster.heartbeat(2)
    answer = cluster.commit(cluster.controller.tick(cluster.now_ms))
    assert (answer.fenced_broker_ids, answer.preferred_elections) == ((1,), 0)
    assert cluster.commit(cluster.controller.tick(cluster.now_ms)).preferred_elections == 0
    assert share and led_by(cluster, 1) == 0


def test_a_round_is_done_in_bounded_steps_without_pauses() -> None:
    """All of a broker's partitions go back, though after the first step it leads enough of them."""
    cluster, share = moved_away(20, replace(CONFIG, leader_imbalance_percentage=90, max_elections_per_step=3))
    assert share == 10
    assert [pass_time(cluster, INTERVAL_MS), *(pass_time(cluster, 1) for _ in range(3))] == [3, 3, 3, 1]
    assert led_by(cluster, 1) == share
    assert cluster.controller._leader_balance.next_deadline_ms == cluster.now_ms + INTERVAL_MS


def test_a_step_looks_at_few_partitions_and_the_next_one_goes_on_at_once() -> None:
    cluster = Cluster(2, replace(CONFIG, max_leader_looks_per_step=4))
    cluster.create("t", 20, 2)
    cluster.let_die(1)
    cluster.come_back(1)
    cluster.heartbeat(1)
    mine = [number for number in range(20) if cluster.partition("t", number).replicas[0] == 1]
    last = mine[-1]
    cluster.alter(2, cluster.proposal("t", (2, 1), last))
    found = [pass_time(cluster, INTERVAL_MS)]
    while (
        deadline_ms := cluster.controller._leader_balance.next_deadline_ms
    ) is not None and deadline_ms < cluster.now_ms:
        found.append(pass_time(cluster, 1))
    assert (sum(found), len(found)) == (1, len(mine) // 4 + 1)
    assert cluster.partition("t", last).leader_id == 1


def test_what_changes_in_the_middle_of_a_round_is_seen() -> None:
    """A topic is deleted, a broker begins to shut down, another controller decides."""
    one = replace(CONFIG, max_elections_per_step=1)
    cluster, share = moved_away(8, one)
    assert share == 4 and pass_time(cluster, INTERVAL_MS) == 1
    cluster.delete("t")
    assert pass_time(cluster, 1) == 0
    cluster, _ = moved_away(8, one)
    assert pass_time(cluster, INTERVAL_MS) == 1
    cluster.heartbeat(1, stop=True)
    assert pass_time(cluster, 1) == 0 and led_by(cluster, 1) == 0
    cluster, _ = moved_away(8, one)
    assert pass_time(cluster, INTERVAL_MS) == 1
    cluster.fail_over()
    assert pass_time(cluster, INTERVAL_MS - 1) == 0 and led_by(cluster, 1) == 1, "a new controller waits an interval"
    assert pass_time(cluster, 1) == 1


def test_elections_that_were_not_committed_are_made_in_the_next_round() -> None:
    """A full disk of the metadata log refuses a decision before it is replayed."""
    cluster, share = moved_away(4)
    cluster.now_ms = INTERVAL_MS
    for broker_id in (1, 2):
        cluster.heartbeat(broker_id)
    refused = cluster.controller.tick(cluster.now_ms)
    assert len(refused.records) == share and led_by(cluster, 1) == 0
    assert cluster.controller.next_deadline_ms() is not None, "the controller is not stuck in the round"
    assert pass_time(cluster, INTERVAL_MS - 1) == 0
    assert pass_time(cluster, 1) == share


def test_without_the_schedule_nothing_goes_back() -> None:
    cluster, share = moved_away(4, replace(CONFIG, leader_rebalance_enable=False))
    assert share and pass_time(cluster, INTERVAL_MS) == pass_time(cluster, INTERVAL_MS) == 0
    assert led_by(cluster, 1) == 0 and cluster.controller.statistics().led_elsewhere == share
    assert cluster.controller.next_deadline_ms() == cluster.now_ms + SESSION_TIMEOUT_MS


def test_a_broker_that_flaps_leads_again_once_an_interval_at_most() -> None:
    cluster, share = moved_away(4)
    went_back = 0
    for _ in range(3 * INTERVAL_MS // 20_000):
        cluster.let_die(1)
        cluster.come_back(1)
        cluster.heartbeat(1)
        join(cluster, 4)
        went_back += pass_time(cluster, 20_000 - SESSION_TIMEOUT_MS) > 0
    assert share and went_back == 3
