"""Elects the leader of a partition, and its ISR and ELR, when brokers leave or join. One partition, no state.

The rules, in this order:
1. A broker that leaves the cluster leaves the ISR; but the ISR never becomes empty. The last member stays in it even
   if it is gone, because it is known to hold every acked record (those were fsynced before their ack). If its log is
   gone, the first member of the ELR takes its place, alive or not. A log in a failed log dir is not gone: the disk may
   answer again.
2. A leader that still lives and is in the ISR stays the leader: a change of leader costs its clients a round trip.
3. Otherwise the first active ISR member in replica order leads, if the log dir of its replica is online.
   A last member whose log is lost (the operator gave the log dir up) may not lead.
4. Otherwise the first active member of the ELR in replica order leads, and is the ISR alone. No acked record is lost.
5. Otherwise, only if the topic allows it, the first active replica leads alone; one whose log is lost comes last. A
   replica that a reassignment adds was never a copy: it leads only by an operator's order, and then comes late.
   That is an unclean election: acked records may be lost, so it is reported as such and counted.
6. Otherwise the partition has no leader until a member of the ISR or ELR comes back (Jepsen 2013: offline is the right
   default).

`eligible_replicas` is the rule of the ELR (KIP-966, ADR 0017), and every change of an ISR takes its ELR from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from metadata.records import PartitionChangeRecord
from metadata.registrations import PartitionRegistration
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_LEADER


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The facts that an election needs besides the partition."""

    is_active: Callable[[int], bool]  # unfenced and not shutting down: may be elected
    is_unfenced: Callable[[int], bool]  # may go on leading
    is_online: Callable[[int, PartitionRegistration], bool]  # the log dir of the broker's replica has not failed
    min_isr: int  # effective: an ISR that is smaller commits nothing
    leaving: tuple[int, ...] = ()  # brokers that leave the ISR; the one that was heard from last is last
    unfit: tuple[int, ...] = ()  # replicas that may have lost records, and so leave the ELR
    without_log: tuple[int, ...] = ()  # those of them that have no log at all, and so leave the ISR to an ELR member
    unclean_allowed: bool = False
    is_ordered: bool = False  # an operator's order: even a replica that never was a copy may lead, if no other can


@dataclass(frozen=True, slots=True)
class ElectedLeader:
    """The outcome. `unclean` says that the leader was chosen from outside the ISR and the ELR."""

    isr: tuple[int, ...]
    leader_id: int
    elr: tuple[int, ...] = ()
    unclean: bool = False


def elect(partition: PartitionRegistration, circumstances: Circumstances) -> ElectedLeader:
    """The ISR, leader and ELR that the partition should have now."""
    offline = (member for member in partition.isr if not circumstances.is_online(member, partition))
    unfit = (*circumstances.unfit, *offline)

    def may_lead(broker_id: int) -> bool:
        if broker_id in circumstances.leaving or not circumstances.is_online(broker_id, partition):
            return False
        return circumstances.is_active(broker_id)

    def outcome(isr: tuple[int, ...], leader_id: int, *, unclean: bool = False) -> ElectedLeader:
        elr = eligible_replicas(partition, isr, leader_id, circumstances.min_isr, unfit)
        return ElectedLeader(isr, leader_id, elr, unclean)

    isr = _remaining_isr(partition.isr, circumstances.leaving)
    waiting = outcome(isr, NO_LEADER)
    if waiting.elr and len(isr) == 1 and (partition.log_lost or isr[0] in circumstances.without_log):
        isr = waiting.elr[:1]
        waiting = outcome(isr, NO_LEADER)
    incumbent = partition.leader_id
    if incumbent in isr and incumbent not in circumstances.leaving and circumstances.is_unfenced(incumbent):
        return outcome(isr, incumbent)
    if not partition.log_lost or isr != partition.isr:
        for replica in partition.replicas:
            if replica in isr and may_lead(replica):
                return outcome(isr, replica)
    for replica in waiting.elr:
        if may_lead(replica):
            return outcome((replica,), replica)
    if circumstances.unclean_allowed:
        for replica in sorted(partition.replicas, key=lambda r: (r in isr, r in partition.adding_replicas)):
            is_copy = circumstances.is_ordered or replica not in partition.adding_replicas
            if is_copy and may_lead(replica):
                return outcome((replica,), replica, unclean=True)
    return waiting


def eligible_replicas(
    partition: PartitionRegistration, isr: Iterable[int], leader_id: int, min_isr: int, unfit: Iterable[int] = ()
) -> tuple[int, ...]:
    """The ELR, in replica order, if the partition gets this ISR and this leader.

    A partition commits nothing while it has no leader or too small an ISR. Then the replicas that leave the ISR keep
    every committed record, and so do those in the ELR. Otherwise the ELR is empty, because records may be committed
    without its members.
    """
    members = frozenset(isr)
    if leader_id != NO_LEADER and len(members) >= min_isr:
        return ()
    eligible = {*partition.isr, *partition.elr}.difference(members, unfit, partition.isr if partition.log_lost else ())
    return tuple(replica for replica in partition.replicas if replica in eligible)


def changed(
    partition: PartitionRegistration, min_isr: int, *, isr: tuple[int, ...] | None = None, leader_id: int | None = None
) -> PartitionChangeRecord | None:
    """The record by which the partition gets this ISR or this leader, without an election; None if nothing changes.

    With neither, it settles the ELR: a leader that may commit now must not find one.
    """
    isr = partition.isr if isr is None else isr
    leader_id = partition.leader_id if leader_id is None else leader_id
    elr = eligible_replicas(partition, isr, leader_id, min_isr)
    return change_record(partition, ElectedLeader(isr, leader_id, elr))


def change_record(partition: PartitionRegistration, outcome: ElectedLeader) -> PartitionChangeRecord | None:
    """The record that brings the partition to the outcome; None when it is there already."""
    isr = None if outcome.isr == partition.isr else outcome.isr
    leader_id = None if outcome.leader_id == partition.leader_id else outcome.leader_id
    elr = None if outcome.elr == partition.elr else outcome.elr
    if isr is None and leader_id is None and elr is None:
        return None
    log_lost = False if partition.log_lost and leader_id is not None else None
    return PartitionChangeRecord(partition.topic_id, partition.partition, isr, leader_id, log_lost, elr=elr)


def _remaining_isr(isr: tuple[int, ...], leaving: tuple[int, ...]) -> tuple[int, ...]:
    remaining = tuple(member for member in isr if member not in leaving)
    if remaining:
        return remaining
    return (max(isr, key=leaving.index),)
