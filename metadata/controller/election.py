"""Elects the leader of a partition, and its ISR, when brokers leave or join. One partition, no state, no records.

The rules, in this order:
1. A broker that leaves the cluster leaves the ISR; but the ISR never becomes empty. The last member stays in it even
   if it is gone, because only it is known to hold every acked record (KIP-966: those were fsynced before their ack).
2. A leader that still lives and is in the ISR stays the leader: a change of leader costs its clients a round trip.
3. Otherwise the first active ISR member in replica order leads, if the log dir of its replica is online.
   A last member whose log is lost (the operator gave the log dir up) may not lead.
4. Otherwise, only if the topic allows it, the first active replica leads alone; one whose log is lost comes last.
   That is an unclean election: acked records may be lost, so it is reported as such and counted.
5. Otherwise the partition has no leader until an ISR member comes back (Jepsen 2013: offline is the right default).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from metadata.records import PartitionChangeRecord
from metadata.registrations import PartitionRegistration
from penstock.types import NO_LEADER


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What an election must know besides the partition."""

    is_active: Callable[[int], bool]  # unfenced and not shutting down: may be elected
    is_unfenced: Callable[[int], bool]  # may go on leading
    is_online: Callable[[int, PartitionRegistration], bool]  # the log dir of the broker's replica has not failed
    leaving: tuple[int, ...] = ()  # brokers that leave the ISR; the one that was heard from last is last
    unclean_allowed: bool = False


@dataclass(frozen=True, slots=True)
class ElectedLeader:
    """The outcome. `unclean` says that the leader was chosen from outside the ISR."""

    isr: tuple[int, ...]
    leader_id: int
    unclean: bool = False


def elect(partition: PartitionRegistration, circumstances: Circumstances) -> ElectedLeader:
    """The ISR and leader that the partition should have now."""
    isr = _remaining_isr(partition.isr, circumstances.leaving)

    def may_lead(broker_id: int) -> bool:
        if broker_id in circumstances.leaving or not circumstances.is_online(broker_id, partition):
            return False
        return circumstances.is_active(broker_id)

    incumbent = partition.leader_id
    if incumbent in isr and incumbent not in circumstances.leaving and circumstances.is_unfenced(incumbent):
        return ElectedLeader(isr, incumbent)
    if not partition.log_lost:
        for replica in partition.replicas:
            if replica in isr and may_lead(replica):
                return ElectedLeader(isr, replica)
    if circumstances.unclean_allowed:
        for replica in sorted(partition.replicas, key=lambda replica: replica in isr):
            if may_lead(replica):
                return ElectedLeader((replica,), replica, unclean=True)
    return ElectedLeader(isr, NO_LEADER)


def change_record(partition: PartitionRegistration, outcome: ElectedLeader) -> PartitionChangeRecord | None:
    """The record that brings the partition to the outcome; None when it is there already."""
    isr = None if outcome.isr == partition.isr else outcome.isr
    leader_id = None if outcome.leader_id == partition.leader_id else outcome.leader_id
    if isr is None and leader_id is None:
        return None
    log_lost = False if partition.log_lost and leader_id is not None else None
    return PartitionChangeRecord(partition.topic_id, partition.partition, isr, leader_id, log_lost)


def _remaining_isr(isr: tuple[int, ...], leaving: tuple[int, ...]) -> tuple[int, ...]:
    remaining = tuple(member for member in isr if member not in leaving)
    if remaining:
        return remaining
    return (max(isr, key=leaving.index),)
