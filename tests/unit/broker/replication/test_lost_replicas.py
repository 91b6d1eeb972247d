"""Promises about lost replicas: a damaged log is given up only where nothing that was acked can be lost by it."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.lost_replicas import REBUILDS_MAX, LostReplicas, LostReplicasStatistics, Verdict
from metadata.registrations import PartitionRegistration
from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.types import NO_LEADER
from storage.disk.disk_errors import storage_error
from tests.support.partitions import PARTITION, make_partition, state

ME, LEADER = 3, 1
ROT = CorruptFileError("/d/t-0/00000000000000000000.log", 17, "the checksum is wrong")
FOLLOWER = state(LEADER, isr=(1, 2))


class Lost:
    """The lost replicas of one broker."""

    def __init__(self) -> None:
        self.hosted = HostedPartitions(ME)
        self.replicas = LostReplicas(self.hosted)
        self.replica = self.hosted.known(PARTITION)
        self.found, self.statistics = self.replicas.found, self.replicas.statistics

    def verdict(self, registration: PartitionRegistration) -> Verdict:
        return self.replicas.verdict(self.replica, registration)

    def obstacle(self, registration: PartitionRegistration) -> str:
        return self.replicas.obstacle(self.replica, registration)

    def is_mistaken_for_eligible(self, registration: PartitionRegistration) -> bool:
        return self.replicas.is_mistaken_for_eligible(self.replica, registration)


def lost_in_epoch(broker_epoch: int) -> Lost:
    """One damaged replica, found while this broker was registered with that epoch."""
    lost = Lost()
    lost.replicas.broker_epoch = lost.replicas.registered_epoch = broker_epoch
    lost.found(PARTITION, ROT)
    return lost


def registered_anew(lost: Lost) -> Lost:
    lost.replicas.broker_epoch = lost.replicas.registered_epoch = lost.replicas.broker_epoch + 10
    return lost


def test_a_damaged_replica_out_of_the_isr_is_made_anew_after_the_next_registration() -> None:
    lost = lost_in_epoch(5)
    assert lost.verdict(FOLLOWER) is Verdict.WAIT
    assert lost.obstacle(FOLLOWER) == "this broker has to register anew first, and does so by itself"
    assert registered_anew(lost).verdict(FOLLOWER) is Verdict.REBUILD


@pytest.mark.parametrize(("answered", "in_metadata"), [(15, 5), (5, 15), (5, 5), (4, 4)])
def test_the_answer_and_the_metadata_must_both_be_of_the_new_registration(answered: int, in_metadata: int) -> None:
    lost = lost_in_epoch(5)
    lost.replicas.broker_epoch, lost.replicas.registered_epoch = answered, in_metadata
    assert lost.verdict(FOLLOWER) is Verdict.WAIT


def test_what_was_found_before_the_first_registration_needs_only_that() -> None:
    lost = Lost()
    lost.found(PARTITION, ROT)
    assert lost.verdict(FOLLOWER) is Verdict.WAIT
    assert registered_anew(lost).verdict(FOLLOWER) is Verdict.REBUILD


@pytest.mark.parametrize(
    ("leader_id", "isr", "why"),
    [
        (ME, (ME,), "the only replica in sync"),
        (NO_LEADER, (ME,), "the only replica in sync"),
        (LEADER, (1, ME), "the only replica in sync"),  # never with such metadata: who leads would have dropped it
        (NO_LEADER, (1, 2), "no other leader"),
        (ME, (1, 2), "no other leader"),
    ],
)
def test_a_replica_that_may_be_the_last_one_stays_as_it_is(leader_id: int, isr: tuple[int, ...], why: str) -> None:
    lost = registered_anew(lost_in_epoch(5))
    assert lost.verdict(state(leader_id, isr=isr)) is Verdict.WAIT
    assert why in lost.obstacle(state(leader_id, isr=isr))


def test_a_damaged_replica_that_may_be_elected_stays_as_it_is_and_its_broker_registers_once_more() -> None:
    """The registration named it, because the damage was found a moment later. Made anew, it would lead empty."""
    lost = registered_anew(lost_in_epoch(5))
    eligible = replace(FOLLOWER, isr=(LEADER,), elr=(2, ME))
    assert lost.verdict(eligible) is Verdict.WAIT
    assert lost.obstacle(eligible) == "this broker has to register anew first, and does so by itself"
    assert lost.is_mistaken_for_eligible(eligible)
    lost.replicas.broker_epoch += 1
    assert not lost.is_mistaken_for_eligible(eligible), "the answer to that registration is here"
    assert not lost_in_epoch(5).is_mistaken_for_eligible(eligible), "that registration is still to come"


def test_the_only_replica_waits_for_a_person_and_not_for_a_registration_that_never_comes() -> None:
    alone = state(ME, isr=(ME,), replicas=(ME,))
    for lost in (lost_in_epoch(5), registered_anew(lost_in_epoch(5))):
        assert lost.verdict(alone) is Verdict.WAIT
        assert lost.obstacle(alone).startswith("this is the only replica in sync")


def test_damage_behind_another_error_is_damage() -> None:
    lost = Lost()
    error = KafkaStorageError("the log is offline")
    error.__cause__ = ROT
    lost.found(PARTITION, error)
    assert registered_anew(lost).verdict(FOLLOWER) is Verdict.REBUILD


@pytest.mark.parametrize("why", [KafkaStorageError("the log dir failed"), OSError(errno.EIO, "EIO")])
def test_a_replica_whose_disk_failed_is_left_alone(why: Exception) -> None:
    lost = Lost()
    lost.found(PARTITION, why)
    assert registered_anew(lost).verdict(FOLLOWER) is Verdict.WAIT
    assert "start this node again" in lost.obstacle(FOLLOWER)


def test_a_log_that_found_no_room_is_tried_again_whoever_leads() -> None:
    lost, full = Lost(), storage_error("create", "/d/t-0", OSError(errno.ENOSPC, "full"))
    lost.replica.queue(starts_empty=True)
    lost.replicas.not_created(lost.replica, full, starts_empty=True)
    assert lost.verdict(FOLLOWER) is lost.verdict(state(ME, isr=(ME,))) is Verdict.HOST


def test_after_the_log_is_set_aside_only_a_new_one_is_missing(tmp_path: Path) -> None:
    lost = registered_anew(lost_in_epoch(5))
    assert lost.statistics() == LostReplicasStatistics(damaged=1, out_of_use=0, without_log=0, rebuilt=0)
    lost.replica.give_up()
    assert lost.statistics().damaged == 1, "as lost as it was, until a thread has set the log aside"
    lost.replicas.set_aside(lost.replica)
    assert lost.verdict(FOLLOWER) is Verdict.HOST and lost.replica.starts_empty
    assert lost.statistics() == LostReplicasStatistics(damaged=0, out_of_use=0, without_log=1, rebuilt=1)
    lost.replica.queue(starts_empty=True)
    assert lost.statistics().without_log == 1, "it is lost until it is served again"
    lost.replica.open(make_partition(tmp_path))
    assert lost.replica.lost is None and len(lost.replicas) == 0 and lost.statistics().rebuilt == 1


def test_a_machine_that_damages_whatever_it_is_given_is_left_to_a_person(tmp_path: Path) -> None:
    lost = Lost()
    for number in range(REBUILDS_MAX):
        lost.found(PARTITION, ROT)
        assert registered_anew(lost).verdict(FOLLOWER) is Verdict.REBUILD
        lost.replica.give_up()
        lost.replicas.set_aside(lost.replica)
        lost.replica.queue(starts_empty=True)
        lost.replica.open(make_partition(tmp_path / str(number)))
    lost.found(PARTITION, ROT)
    assert registered_anew(lost).verdict(FOLLOWER) is Verdict.WAIT
    assert "disks and memory" in lost.obstacle(FOLLOWER)
    other = lost.hosted.known(PARTITION._replace(partition=1))
    lost.found(other.key, ROT)
    assert registered_anew(lost).replicas.verdict(other, FOLLOWER) is Verdict.REBUILD
