"""Registration: who may join under which id, and what a new process of a known broker costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata.controller.brokers.registration import register_broker
from metadata.controller.config import ControllerConfig
from metadata.records import RegisterBrokerRecord
from penstock.errors import (
    DuplicateBrokerRegistrationError,
    InconsistentClusterIdError,
    InvalidRequestError,
    InvariantViolation,
    ResourceExhaustedError,
)
from penstock.messages.nodes.brokers import RegisterBrokerRequest
from tests.unit.metadata.harness import CLUSTER_ID, SESSION_TIMEOUT_MS, Cluster, is_error, raised_by

GOOD = RegisterBrokerRequest(CLUSTER_ID, 1, "process", "host", 9192, log_dirs=("dir-1",))


def test_new_broker_starts_fenced_and_its_epoch_is_the_offset_of_its_record() -> None:
    cluster = Cluster(brokers=1)
    epoch = cluster.register(2, rack="r", log_dirs=("d",))
    assert cluster.log[epoch] == RegisterBrokerRecord(
        2, "process-2", epoch, "host-2", 9192, "r", True, False, ("d",), flush_policy="fsync"
    )
    assert cluster.image.brokers[2].fenced
    assert [broker.broker_id for broker in cluster.image.active_brokers()] == [1]


def test_driver_that_replays_a_registration_at_another_offset_is_stopped() -> None:
    cluster = Cluster()
    result = cluster.controller.register_broker(GOOD, 0, 7)
    with pytest.raises(InvariantViolation, match="broker epoch"):
        cluster.controller.replay(result.records[0], 8)


def test_wrong_cluster_id_is_refused() -> None:
    cluster = Cluster()
    error = raised_by(lambda: cluster.controller.register_broker(replace(GOOD, cluster_id="other"), 0, 0))
    assert is_error(error, InconsistentClusterIdError, "'other'", f"--cluster-id {CLUSTER_ID}")


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"broker_id": -1}, "broker id"),
        ({"broker_id": 1 << 31}, "broker id"),
        ({"incarnation_id": ""}, "incarnation id"),
        ({"host": ""}, "host"),
        ({"host": "h" * 256}, "host"),
        ({"host": "a\x00b"}, "host"),
        ({"host": "0.0.0.0"}, "advertised.listeners"),
        ({"host": "::"}, "advertised.listeners"),
        ({"host": "0"}, "advertised.listeners"),
        ({"host": "0:0::0"}, "advertised.listeners"),
        ({"host": "a b"}, "advertised.listeners"),
        ({"port": 0}, "port 0"),
        ({"port": 65_536}, "port 65536"),
        ({"inter_broker_host": "0.0.0.0", "inter_broker_port": 9194}, "advertised.listeners"),
        ({"inter_broker_host": "host"}, "port 0"),
        ({"inter_broker_port": 9194}, "host"),
        ({"rack": "r" * 256}, "rack"),
        ({"log_dirs": ("a", "a")}, "log dirs"),
        ({"log_dirs": ("",)}, "log dir 0"),
        ({"log_dirs": tuple(map(str, range(129)))}, "log dirs"),
    ],
    ids=repr,
)
def test_nonsense_registration_is_refused_by_name(fields: dict[str, object], word: str) -> None:
    cluster = Cluster()
    request = replace(GOOD, **fields)  # type: ignore[arg-type]
    error = raised_by(lambda: cluster.controller.register_broker(request, 0, 0))
    assert is_error(error, InvalidRequestError, word)
    assert len(str(error)) < 300


def test_same_process_that_asks_again_gets_the_same_epoch_and_makes_no_record() -> None:
    cluster = Cluster(brokers=1)
    end = cluster.next_offset
    assert cluster.register(1, incarnation_id="process-1") == cluster.image.brokers[1].broker_epoch
    assert cluster.next_offset == end
    assert not cluster.image.brokers[1].fenced


def test_same_process_with_another_endpoint_keeps_its_state_under_a_new_epoch() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t")
    epoch = cluster.register(1, incarnation_id="process-1", host="elsewhere")
    broker = cluster.image.brokers[1]
    assert (broker.host, broker.fenced, broker.broker_epoch) == ("elsewhere", False, epoch)
    assert cluster.partition("t").leader_id == 1


def test_second_process_with_a_live_id_is_refused_until_the_session_is_over() -> None:
    cluster = Cluster(brokers=1)
    cluster.now_ms = SESSION_TIMEOUT_MS - 1
    error = raised_by(lambda: cluster.register(1))
    assert is_error(error, DuplicateBrokerRegistrationError, "host-1:9192", "9000 ms")
    cluster.now_ms = SESSION_TIMEOUT_MS
    assert cluster.register(1) == cluster.image.brokers[1].broker_epoch


def test_second_process_is_refused_also_while_the_first_is_still_fenced() -> None:
    cluster = Cluster()
    cluster.register(1)
    assert is_error(raised_by(lambda: cluster.register(1)), DuplicateBrokerRegistrationError, "host-1:9192")


def test_refused_second_process_does_not_keep_the_first_alive() -> None:
    cluster = Cluster(brokers=1)
    cluster.now_ms = SESSION_TIMEOUT_MS - 1
    raised_by(lambda: cluster.register(1))
    cluster.now_ms = SESSION_TIMEOUT_MS
    assert cluster.tick() == (1,)


def test_clean_marker_of_the_stored_epoch_proves_that_the_predecessor_ended() -> None:
    cluster = Cluster(brokers=1)
    cluster.register(1, previous_broker_epoch=cluster.image.brokers[1].broker_epoch)
    assert cluster.image.brokers[1].incarnation_id == "process-2"
    assert cluster.controller.statistics().unclean_registrations == 0


@pytest.mark.parametrize("step", [1, 1_000])
def test_clean_marker_of_another_epoch_does_not_evict_a_live_broker(step: int) -> None:
    cluster = Cluster(brokers=1)
    stored = cluster.image.brokers[1].broker_epoch
    error = raised_by(lambda: cluster.register(1, previous_broker_epoch=stored + step))
    assert is_error(error, DuplicateBrokerRegistrationError, "host-1:9192")
    assert cluster.image.brokers[1].broker_epoch == stored


def test_broker_that_was_let_go_may_come_back_at_once() -> None:
    cluster = Cluster(brokers=1)
    assert cluster.heartbeat(1, stop=True).should_shut_down
    cluster.register(1)
    assert not cluster.heartbeat(1).is_fenced


@pytest.mark.parametrize("previous_epoch", [-1, 0, 10_000])
def test_unclean_process_leaves_every_isr_that_has_another_member(previous_epoch: int) -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", partitions=3, replication_factor=3)
    cluster.fail_over()
    cluster.now_ms = SESSION_TIMEOUT_MS  # broker 2 is quick: its session is over, but no tick has fenced it yet
    epoch = cluster.register(2, previous_broker_epoch=previous_epoch)
    assert epoch == cluster.next_offset - 1
    for number in range(3):
        partition = cluster.partition("t", number)
        assert set(partition.isr) == {1, 3}
        assert partition.leader_id in {1, 3}
    assert cluster.controller.statistics().unclean_registrations == 1


def test_last_isr_member_stays_and_leads_again_when_it_is_back() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", replication_factor=2)
    other, last = cluster.partition("t").replicas
    cluster.let_die(other)
    assert cluster.partition("t").isr == (last,)
    cluster.let_die(last)
    assert (cluster.partition("t").isr, cluster.partition("t").leader_id) == ((last,), -1)
    cluster.start(other)
    assert cluster.partition("t").leader_id == -1, "it missed what was acked after it left"
    epoch = cluster.partition("t").leader_epoch
    cluster.start(last)
    partition = cluster.partition("t")
    assert (partition.leader_id, partition.leader_epoch) == (last, epoch + 1)


def test_copied_log_dir_is_refused() -> None:
    cluster = Cluster()
    cluster.start(1, log_dirs=("a", "b"))
    error = raised_by(lambda: cluster.register(2, log_dirs=("b",)))
    assert is_error(error, DuplicateBrokerRegistrationError, "log dir b", "broker 1")


def test_number_of_brokers_is_bounded() -> None:
    cluster = Cluster(brokers=2, config=ControllerConfig(CLUSTER_ID, max_brokers=2))
    assert is_error(raised_by(lambda: cluster.register(3)), ResourceExhaustedError, "2 brokers")


def test_registration_is_decided_without_changing_the_state() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t")
    cluster.now_ms = SESSION_TIMEOUT_MS
    before = cluster.controller.to_image(1)
    register_broker(cluster.controller._context, replace(GOOD, log_dirs=()), cluster.now_ms, cluster.next_offset, None)
    assert cluster.controller.to_image(1) == before
