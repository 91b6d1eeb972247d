"""Heartbeats, sessions and controlled shutdown."""

from __future__ import annotations

from collections.abc import Mapping

from metadata.controller.brokers.broker_state import TRANSITIONS, BrokerState, HeartbeatEvent, bits_of
from metadata.controller.sessions import STANDSTILL_SESSIONS
from metadata.records import BrokerRegistrationChangeRecord
from penstock.errors import BrokerIdNotRegisteredError, InconsistentClusterIdError, StaleBrokerEpochError
from penstock.messages.nodes.brokers import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.messages.topics import NewTopic, ReplicaAssignment
from tests.unit.metadata.harness import CLUSTER_ID, SESSION_TIMEOUT_MS, Cluster, is_error, raised_by


def flags(answer: BrokerHeartbeatResponse) -> tuple[bool, bool, bool]:
    """Caught up, fenced, let go."""
    return answer.is_caught_up, answer.is_fenced, answer.should_shut_down


def test_table_has_a_row_for_every_state_and_event() -> None:
    for state in BrokerState:
        assert TRANSITIONS[state].keys() == set(HeartbeatEvent)
    assert len({bits_of(state) for state in BrokerState}) == len(BrokerState)


def test_no_state_of_shutting_down_leads_back() -> None:
    stopping = {BrokerState.CONTROLLED_SHUTDOWN, BrokerState.SHUTDOWN_NOW}
    for state in stopping:
        assert set(TRANSITIONS[state].values()) <= stopping


# -- heartbeat ---------------------------------------------------------------------------------------------------------


def test_broker_is_unfenced_once_it_has_read_its_own_registration() -> None:
    cluster = Cluster()
    epoch = cluster.register(1)
    assert flags(cluster.heartbeat(1, offset=epoch - 1)) == (False, True, False)
    assert flags(cluster.heartbeat(1, offset=epoch)) == (True, False, False)
    assert cluster.log[-1] == BrokerRegistrationChangeRecord(1, epoch, fenced=False)


def test_heartbeat_that_changes_nothing_makes_no_record() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", partitions=4, replication_factor=2)
    end = cluster.next_offset
    for _ in range(10):
        cluster.now_ms += 100
        assert flags(cluster.heartbeat(1)) == (True, False, False)
    cluster.register(3)
    cluster.heartbeat(3, offset=0)
    assert cluster.next_offset == end + 1


def test_heartbeat_of_a_stale_epoch_is_refused_and_keeps_nothing_alive() -> None:
    cluster = Cluster(brokers=1)
    cluster.now_ms = SESSION_TIMEOUT_MS - 1
    stale = BrokerHeartbeatRequest(CLUSTER_ID, 1, broker_epoch=77, current_metadata_offset=99)
    error = raised_by(lambda: cluster.controller.heartbeat(stale, cluster.now_ms))
    assert is_error(error, StaleBrokerEpochError, "epoch 0", "epoch 77")
    cluster.now_ms = SESSION_TIMEOUT_MS
    assert cluster.tick() == (1,)


# -- the lease that an answer is ---------------------------------------------------------------------------------------


def test_an_answer_names_the_offset_at_which_the_broker_lost_a_leadership_last() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", partitions=2, replication_factor=2)
    before = cluster.heartbeat(1).must_have_read
    cluster.heartbeat(1, fence=True)
    cluster.heartbeat(1)
    lost = cluster.heartbeat(1)
    assert before < lost.must_have_read <= cluster.image.offset and not lost.is_fenced
    assert lost.session_timeout_ms == SESSION_TIMEOUT_MS
    assert cluster.heartbeat(2).must_have_read == before, "that one lost nothing"


def test_a_broker_whose_metadata_stands_still_has_no_lease_one_session_before_it_is_fenced() -> None:
    cluster = Cluster(brokers=2)
    old = cluster.image.offset
    cluster.create("t", partitions=1, replication_factor=2)
    _sessions_later(cluster, {1: None, 2: old}, STANDSTILL_SESSIONS - 1.2)
    assert cluster.heartbeat(2, offset=old).silent_ms == 0
    _sessions_later(cluster, {1: None, 2: old}, 0.4)
    assert cluster.heartbeat(2, offset=old).silent_ms == SESSION_TIMEOUT_MS, "however far it reads before it is fenced"
    assert cluster.heartbeat(2, offset=cluster.image.offset).silent_ms == 0, "it has read on"


def test_an_answer_to_failed_log_dirs_is_no_lease() -> None:
    cluster = Cluster()
    cluster.start(1, log_dirs=("a", "b"))
    cluster.start(2, log_dirs=("c",))
    assert cluster.heartbeat(1).silent_ms == 0
    assert cluster.heartbeat(1, offline=("a",)).silent_ms == SESSION_TIMEOUT_MS
    assert cluster.heartbeat(1, offline=("a",)).silent_ms == 0, "the leaderships are taken: nothing changes any more"


# -- metadata that stands still ----------------------------------------------------------------------------------------


def _sessions_later(cluster: Cluster, offsets: Mapping[int, int | None], sessions: float) -> tuple[int, ...]:
    """Heartbeats with these offsets (None: the newest) go on for so long; the brokers that were fenced meanwhile."""
    fenced: list[int] = []
    end_ms = cluster.now_ms + int(sessions * SESSION_TIMEOUT_MS)
    while cluster.now_ms < end_ms:
        cluster.now_ms = min(cluster.now_ms + SESSION_TIMEOUT_MS // 10, end_ms)
        for broker_id, offset in offsets.items():
            cluster.heartbeat(broker_id, offset=offset)
        fenced += cluster.tick()
    return tuple(fenced)


def test_broker_whose_metadata_stands_still_is_fenced_until_it_has_read_on() -> None:
    cluster = Cluster(brokers=3)
    old = cluster.image.offset
    cluster.create("t", partitions=3, replication_factor=3)
    assert _sessions_later(cluster, {1: None, 2: None, 3: old}, STANDSTILL_SESSIONS) == ()
    assert _sessions_later(cluster, {1: None, 2: None, 3: old}, 0.3) == (3,)
    for partition in cluster.image.topics_by_name["t"].partitions.values():
        assert partition.leader_id in (1, 2) and 3 not in partition.isr
    assert _sessions_later(cluster, {1: None, 2: None, 3: old}, 5) == ()
    assert cluster.heartbeat(3, offset=old).is_fenced, "it has its own registration, and hears of nothing else"
    assert not cluster.heartbeat(3).is_fenced


def test_broker_that_reads_slowly_or_has_nothing_to_read_is_not_fenced() -> None:
    cluster = Cluster(brokers=2)
    first = cluster.image.offset
    cluster.create("t", partitions=40, replication_factor=2)
    for step in range(12):  # it reads one record in two sessions
        assert _sessions_later(cluster, {1: None, 2: first + step}, 2) == ()
    assert _sessions_later(cluster, {1: None, 2: None}, 50) == ()


def test_a_controller_that_stood_still_itself_does_not_count_that_time() -> None:
    cluster = Cluster(brokers=2)
    old = cluster.image.offset
    cluster.create("t", partitions=1, replication_factor=2)
    assert _sessions_later(cluster, {1: None, 2: old}, STANDSTILL_SESSIONS - 0.2) == ()
    cluster.now_ms += SESSION_TIMEOUT_MS // 2
    cluster.controller.forgive_silence(SESSION_TIMEOUT_MS // 2, cluster.now_ms)
    assert cluster.tick() == ()


def test_time_in_which_the_controller_stood_still_is_no_silence_of_a_broker() -> None:
    cluster = Cluster(brokers=2)
    cluster.now_ms = SESSION_TIMEOUT_MS + 500  # 500 ms of which were its own
    cluster.controller.forgive_silence(501, cluster.now_ms)
    assert cluster.tick() == ()
    cluster.controller.forgive_silence(10 * SESSION_TIMEOUT_MS, cluster.now_ms)  # no session ends later than a new one
    cluster.now_ms += SESSION_TIMEOUT_MS - 1
    assert cluster.tick() == ()
    cluster.now_ms += 1
    assert cluster.tick() == (1, 2)


def test_heartbeat_of_an_unknown_broker_or_cluster_is_refused() -> None:
    cluster = Cluster(brokers=1)
    unknown = BrokerHeartbeatRequest(CLUSTER_ID, 9, 0)
    assert is_error(raised_by(lambda: cluster.controller.heartbeat(unknown, 0)), BrokerIdNotRegisteredError, "9")
    foreign = BrokerHeartbeatRequest("other", 1, 0)
    assert is_error(raised_by(lambda: cluster.controller.heartbeat(foreign, 0)), InconsistentClusterIdError, "other")


def test_broker_may_ask_to_be_fenced_and_comes_back_when_it_no_longer_does() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", partitions=2, replication_factor=2)
    assert cluster.heartbeat(1, fence=True).is_fenced
    assert {cluster.partition("t", number).isr for number in (0, 1)} == {(2,)}
    assert cluster.heartbeat(1, fence=True).is_fenced
    assert not cluster.heartbeat(1).is_fenced
    assert cluster.partition("t").isr == (2,), "only its leader can take it back into the ISR"


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_broker_that_is_silent_for_its_session_is_fenced_and_loses_its_partitions() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", partitions=3, replication_factor=3)
    led = [number for number in range(3) if cluster.partition("t", number).leader_id == 2]
    assert cluster.let_die(2) == (2,)
    assert cluster.image.brokers[2].fenced
    for number in range(3):
        partition = cluster.partition("t", number)
        assert set(partition.isr) == {1, 3}
        assert (partition.leader_epoch, partition.partition_epoch) == (1 if number in led else 0, 1)


def test_new_leader_is_the_first_live_isr_member_in_replica_order() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", replication_factor=3)
    first, second, third = cluster.partition("t").replicas
    cluster.let_die(first)
    assert cluster.partition("t").leader_id == second
    cluster.let_die(second)
    assert cluster.partition("t").leader_id == third


def test_session_ends_on_its_deadline_and_not_before() -> None:
    cluster = Cluster(brokers=1)
    cluster.now_ms = 500
    cluster.heartbeat(1)
    assert cluster.controller.next_deadline_ms() == 500 + SESSION_TIMEOUT_MS
    cluster.now_ms = 500 + SESSION_TIMEOUT_MS - 1
    assert cluster.tick() == ()
    cluster.now_ms += 1
    assert cluster.tick() == (1,)
    assert cluster.tick() == ()
    assert cluster.controller.next_deadline_ms() == cluster.config.leader_imbalance_check_interval_ms
    assert cluster.controller.statistics().session_expirations == 1


def test_when_all_die_the_last_to_be_heard_of_is_kept_in_the_isr() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", replication_factor=3)
    for at_ms, broker_id in ((10, 3), (20, 1), (30, 2)):
        cluster.now_ms = at_ms
        cluster.heartbeat(broker_id)
    cluster.now_ms = 30 + SESSION_TIMEOUT_MS
    assert cluster.tick() == (3, 1, 2)
    partition = cluster.partition("t")
    assert (partition.isr, partition.leader_id, partition.partition_epoch) == ((2,), -1, 1)
    assert cluster.controller.statistics().leaderless_partitions == 1


def test_new_controller_gives_unfenced_brokers_a_fresh_session() -> None:
    cluster = Cluster(brokers=2)
    cluster.heartbeat(2, fence=True)
    cluster.now_ms = 100_000
    cluster.fail_over()
    assert cluster.tick() == ()
    assert cluster.controller.next_deadline_ms() == 100_000 + SESSION_TIMEOUT_MS
    cluster.now_ms += SESSION_TIMEOUT_MS
    assert cluster.tick() == (1,)


# -- controlled shutdown -----------------------------------------------------------------------------------------------


def test_controlled_shutdown_moves_leaders_and_waits_until_their_successors_know() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", partitions=6, replication_factor=2)
    seen = cluster.image.offset
    for broker_id in (2, 3):
        cluster.heartbeat(broker_id, offset=seen)
    assert flags(cluster.heartbeat(1, stop=True)) == (True, False, False)
    assert cluster.image.brokers[1].in_controlled_shutdown
    assert all(1 not in cluster.partition("t", number).isr for number in range(6))
    cluster.heartbeat(2)
    assert not cluster.heartbeat(1, stop=True).should_shut_down, "broker 3 does not know yet that it leads"
    cluster.heartbeat(3)
    assert flags(cluster.heartbeat(1, stop=True)) == (True, True, True)
    end = cluster.next_offset
    assert cluster.heartbeat(1, stop=True).should_shut_down
    assert cluster.next_offset == end


def test_broker_that_is_the_only_replica_is_let_go_because_there_is_no_other_choice() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t", partitions=2)
    assert flags(cluster.heartbeat(1, stop=True)) == (True, True, True)
    assert [cluster.partition("t", number).leader_id for number in (0, 1)] == [-1, -1]
    assert cluster.partition("t").isr == (1,)


def test_leader_that_shuts_down_hands_over_to_a_replica_that_catches_up_in_time() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("alone", replication_factor=1)
    cluster.create("t", replication_factor=2)
    leader, follower = cluster.partition("t").replicas
    cluster.alter(leader, cluster.proposal("t", (leader,)))
    cluster.heartbeat(follower, offset=0)  # has not read anything lately, so the leader must wait for it
    cluster.create("u", replication_factor=2)
    assert not cluster.heartbeat(leader, stop=True).should_shut_down
    assert cluster.partition("t").leader_id == leader, "nobody else in the ISR could lead"
    assert cluster.alter(leader, cluster.proposal("t", (leader, follower)))[0].error is None
    cluster.heartbeat(leader, stop=True)
    assert (cluster.partition("t").leader_id, cluster.partition("t").isr) == (follower, (follower,))


def test_no_unclean_leader_is_elected_while_the_last_isr_member_shuts_down() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", replication_factor=2, config={"unclean.leader.election.enable": "true"})
    cluster.create("u", partitions=2, replication_factor=2)
    leader, follower = cluster.partition("t").replicas
    cluster.alter(leader, cluster.proposal("t", (leader,)))
    cluster.heartbeat(follower, offset=0)
    cluster.heartbeat(leader, stop=True)
    assert cluster.partition("t").leader_id == leader
    assert cluster.controller.statistics().unclean_elections == 0


def test_broker_that_asks_for_both_is_let_go_at_once() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", partitions=2, replication_factor=2)
    assert cluster.heartbeat(1, fence=True, stop=True).should_shut_down
    assert cluster.image.brokers[1].fenced and cluster.image.brokers[1].in_controlled_shutdown


def test_broker_in_controlled_shutdown_is_not_unfenced_again_without_a_registration() -> None:
    cluster = Cluster(brokers=1)
    cluster.heartbeat(1, stop=True)
    assert flags(cluster.heartbeat(1)) == (True, True, True)
    cluster.start(1)
    assert cluster.image.brokers[1].is_active


def test_controlled_shutdown_goes_on_under_a_new_controller() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", partitions=2, replication_factor=2)
    cluster.heartbeat(2, offset=0)
    assert not cluster.heartbeat(1, stop=True).should_shut_down
    cluster.fail_over()
    assert not cluster.heartbeat(1, stop=True).should_shut_down
    cluster.heartbeat(2)
    assert cluster.heartbeat(1, stop=True).should_shut_down


# -- elections ---------------------------------------------------------------------------------------------------------


def test_unclean_election_happens_only_where_the_topic_allows_it_and_is_counted() -> None:
    cluster = Cluster(brokers=2)
    assignment = (ReplicaAssignment(0, (1, 2)),)
    cluster.create_all(
        NewTopic("safe", assignment=assignment),
        NewTopic("risky", assignment=assignment, config={"unclean.leader.election.enable": "true"}),
    )
    cluster.alter(1, cluster.proposal("safe", (1,)), cluster.proposal("risky", (1,)))
    cluster.let_die(1)
    safe, risky = cluster.partition("safe"), cluster.partition("risky")
    assert (safe.leader_id, safe.isr) == (-1, (1,))
    assert (risky.leader_id, risky.isr) == (2, (2,))
    assert cluster.controller.statistics().unclean_elections == 1


def test_replica_outside_the_isr_does_not_get_a_leaderless_partition_by_coming_back() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", replication_factor=2)
    first, second = cluster.partition("t").replicas
    cluster.let_die(second)
    cluster.let_die(first)
    cluster.start(second)
    assert cluster.partition("t").leader_id == -1


def test_partition_whose_topic_allows_it_gets_an_unclean_leader_when_a_replica_comes_back() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", replication_factor=2, config={"unclean.leader.election.enable": "true"})
    first, second = cluster.partition("t").replicas
    cluster.let_die(second)
    cluster.let_die(first)
    cluster.start(second)
    partition = cluster.partition("t")
    assert (partition.leader_id, partition.isr) == (second, (second,))
    assert cluster.controller.statistics().unclean_elections == 1


def test_statistics_and_repr_say_what_is() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", partitions=2, replication_factor=2)
    cluster.heartbeat(3, fence=True)
    statistics = cluster.controller.statistics()
    assert (statistics.brokers, statistics.active_brokers, statistics.fenced_brokers) == (3, 2, 1)
    assert (statistics.topics, statistics.partitions, statistics.leaderless_partitions) == (1, 2, 0)
    assert "partitions=2" in repr(cluster.controller) and "timeout_ms=9000" in repr(cluster.controller)
