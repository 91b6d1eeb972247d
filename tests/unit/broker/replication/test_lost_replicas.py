"""Promises about lost replicas: a damaged log is given up only where nothing that was acked can be lost by it."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from broker.replication.lost_replicas import REBUILDS_MAX, LostReplicas, LostReplicasStatistics, Verdict
from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.types import NO_LEADER
from storage.disk.disk_errors import storage_error
from tests.support.partitions import PARTITION, state

ME, LEADER = 3, 1
ROT = CorruptFileError("/d/t-0/00000000000000000000.log", 17, "the checksum is wrong")
FOLLOWER = state(LEADER, isr=(1, 2))


def lost_in_epoch(broker_epoch: int) -> LostReplicas:
    """One damaged replica, found while this broker was registered with that epoch."""
    lost = LostReplicas(ME)
    lost.broker_epoch = lost.registered_epoch = broker_epoch
    lost.found(PARTITION, ROT)
    return lost


def registered_anew(lost: LostReplicas) -> LostReplicas:
    lost.broker_epoch = lost.registered_epoch = lost.broker_epoch + 10
    return lost


def test_a_damaged_replica_out_of_the_isr_is_made_anew_after_the_next_registration() -> None:
    lost = lost_in_epoch(5)
    assert lost.verdict(PARTITION, FOLLOWER) is Verdict.WAIT
    assert lost.obstacle(PARTITION, FOLLOWER) == "this broker has to register anew first, and does so by itself"
    assert registered_anew(lost).verdict(PARTITION, FOLLOWER) is Verdict.REBUILD


@pytest.mark.parametrize(("answered", "in_metadata"), [(15, 5), (5, 15), (5, 5), (4, 4)])
def test_the_answer_and_the_metadata_must_both_be_of_the_new_registration(answered: int, in_metadata: int) -> None:
    lost = lost_in_epoch(5)
    lost.broker_epoch, lost.registered_epoch = answered, in_metadata
    assert lost.verdict(PARTITION, FOLLOWER) is Verdict.WAIT


def test_what_was_found_before_the_first_registration_needs_only_that() -> None:
    lost = LostReplicas(ME)
    lost.found(PARTITION, ROT)
    assert lost.verdict(PARTITION, FOLLOWER) is Verdict.WAIT
    assert registered_anew(lost).verdict(PARTITION, FOLLOWER) is Verdict.REBUILD


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
    assert lost.verdict(PARTITION, state(leader_id, isr=isr)) is Verdict.WAIT
    assert why in lost.obstacle(PARTITION, state(leader_id, isr=isr))


def test_a_damaged_replica_that_may_be_elected_stays_as_it_is_and_its_broker_registers_once_more() -> None:
    """The registration named it, because the damage was found a moment later. Made anew, it would lead empty."""
    lost = registered_anew(lost_in_epoch(5))
    eligible = replace(FOLLOWER, isr=(LEADER,), elr=(2, ME))
    assert lost.verdict(PARTITION, eligible) is Verdict.WAIT
    assert lost.obstacle(PARTITION, eligible) == "this broker has to register anew first, and does so by itself"
    assert lost.is_mistaken_for_eligible(PARTITION, eligible)
    lost.broker_epoch += 1
    assert not lost.is_mistaken_for_eligible(PARTITION, eligible), "the answer to that registration is here"
    assert not lost_in_epoch(5).is_mistaken_for_eligible(PARTITION, eligible), "that registration is still to come"


def test_the_only_replica_waits_for_a_person_and_not_for_a_registration_that_never_comes() -> None:
    alone = state(ME, isr=(ME,), replicas=(ME,))
    for lost in (lost_in_epoch(5), registered_anew(lost_in_epoch(5))):
        assert lost.verdict(PARTITION, alone) is Verdict.WAIT
        assert lost.obstacle(PARTITION, alone).startswith("this is the only replica in sync")


def test_damage_behind_another_error_is_damage() -> None:
    lost = LostReplicas(ME)
    error = KafkaStorageError("the log is offline")
    error.__cause__ = ROT
    lost.found(PARTITION, error)
    assert registered_anew(lost).verdict(PARTITION, FOLLOWER) is Verdict.REBUILD


@pytest.mark.parametrize("why", [KafkaStorageError("the log dir failed"), OSError(errno.EIO, "EIO")])
def test_a_replica_whose_disk_failed_is_left_alone(why: Exception) -> None:
    lost = LostReplicas(ME)
    lost.found(PARTITION, why)
    assert registered_anew(lost).verdict(PARTITION, FOLLOWER) is Verdict.WAIT
    assert "start this node again" in lost.obstacle(PARTITION, FOLLOWER)


def test_a_log_that_found_no_room_is_tried_again_whoever_leads() -> None:
    lost = LostReplicas(ME)
    lost.not_created(PARTITION, storage_error("create", "/d/t-0", OSError(errno.ENOSPC, "full")), is_new=True)
    assert lost.verdict(PARTITION, FOLLOWER) is lost.verdict(PARTITION, state(ME, isr=(ME,))) is Verdict.HOST


def test_after_the_log_is_set_aside_only_a_new_one_is_missing() -> None:
    lost = registered_anew(lost_in_epoch(5))
    assert lost.statistics() == LostReplicasStatistics(damaged=1, out_of_use=0, without_log=0, rebuilt=0)
    lost.set_aside(PARTITION)
    assert lost.verdict(PARTITION, FOLLOWER) is Verdict.HOST
    found = lost.get(PARTITION)
    assert found is not None and found.starts_empty
    assert lost.statistics() == LostReplicasStatistics(damaged=0, out_of_use=0, without_log=1, rebuilt=1)
    lost.forget(PARTITION)
    assert PARTITION not in lost and len(lost) == 0 and lost.statistics().rebuilt == 1


def test_a_machine_that_damages_whatever_it_is_given_is_left_to_a_person() -> None:
    lost = LostReplicas(ME)
    for _ in range(REBUILDS_MAX):
        lost.found(PARTITION, ROT)
        assert registered_anew(lost).verdict(PARTITION, FOLLOWER) is Verdict.REBUILD
        lost.set_aside(PARTITION)
        lost.forget(PARTITION)
    lost.found(PARTITION, ROT)
    assert registered_anew(lost).verdict(PARTITION, FOLLOWER) is Verdict.WAIT
    assert "disks and memory" in lost.obstacle(PARTITION, FOLLOWER)
    other = PARTITION._replace(partition=1)
    lost.found(other, ROT)
    assert registered_anew(lost).verdict(other, FOLLOWER) is Verdict.REBUILD
