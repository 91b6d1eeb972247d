"""Decides how the replicas of a partition move to other brokers while its clients go on (KIP-455).

    replicas   target, then those that are removed:   1,2,3 -> 4,5,1 is first   4,5,1,2,3   adding 4,5   removing 2,3
    complete   once every replica that is added is in sync, and without the removed ones enough are: 4,5,1
    cancelled  those that were added go:              1,2,3, in the order of before: the first is preferred again

The replicas that are removed are full members until then: they are counted, elected and waited for like any other. What
goes, in each of these cases, goes from the ISR and the ELR too; but never so that fewer than `min.insync.replicas` are
in sync, and never without a leader that lives. Until that is so, a reassignment is not complete, and a request is
refused. So no record that was acked has fewer copies because of a move than its topic asks for.

A broker deletes the data of its replica because of the committed record, and for no other reason. Such a record begins
a new leader epoch: a fetch of the replica that was deleted must not count if the broker gets one anew. Not here: how it
is copied (broker/replication/), and which replicas should go where: the operator says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from metadata.controller.context import DecisionContext, named_partition
from metadata.controller.elections.election import changed, eligible_replicas
from metadata.controller.result import ControllerResult
from metadata.controller.topics.assignments import check_not_cordoned, check_one_per_rack
from metadata.internal_topics import INTERNAL_TOPICS
from metadata.records import PartitionChangeRecord, Record
from metadata.registrations import PartitionKey, PartitionRegistration
from penstock.errors import (
    ApiError,
    InvalidReplicaAssignmentError,
    NoReassignmentInProgressError,
    PolicyViolationError,
)
from penstock.lazy_dataclass import dataclass
from penstock.messages.elections import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignmentResult,
)

LOOKS_MAX = 1_000
"""The most partitions that one decision looks at."""
_SHOWN_REPLICAS = 10


@dataclass(frozen=True, slots=True)
class _Replicas:
    """The replicas that a partition gets, and which of them are being added and removed."""

    all: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    """The replicas before the reassignment, while it goes on; empty if they are in `all` in their order."""


def alter_partition_reassignments(
    context: DecisionContext, request: AlterPartitionReassignmentsRequest
) -> ControllerResult[AlterPartitionReassignmentsResponse]:
    """Each partition on its own: its reassignment begins, is replaced by another, or is cancelled."""
    context.check_item_count(len(request.partitions), "partitions")
    records: list[Record] = []
    results: list[ReassignmentResult] = []
    seen: set[PartitionKey] = set()
    for asked in request.partitions:
        try:
            partition = named_partition(context.named_topic(asked.topic), asked.partition, seen)
            if asked.replicas is None:
                changes = [_cancelled(context, asked.name, partition)]
            else:
                changes = begun(context, asked.name, partition, asked.replicas)
        except ApiError as error:
            results.append(ReassignmentResult(asked.topic, asked.partition, error))
            continue
        records += changes
        results.append(ReassignmentResult(asked.topic, asked.partition))
    if len(records) > context.config.max_records_per_decision:
        raise PolicyViolationError(
            f"the request needs {len(records)} records, at most {context.config.max_records_per_decision} may be"
            " committed at once; name fewer partitions"
        )
    return ControllerResult(tuple(records), AlterPartitionReassignmentsResponse(tuple(results)))


def completion(context: DecisionContext, partition: PartitionRegistration) -> PartitionChangeRecord | None:
    """The record that completes the partition's reassignment, or the one before it; None while it goes on, or without
    one.

    Without a leader it goes on: those that go may be all that an operator can still elect.
    """
    if not partition.is_reassigning or not partition.has_leader:
        return None
    staying = sum(member not in partition.removing_replicas for member in partition.isr)
    if not set(partition.adding_replicas) <= set(partition.isr) or staying < context.min_isr(partition):
        return None
    target = _Replicas(partition.target_replicas)
    try:
        if context.state.topics[partition.topic_id].name in INTERNAL_TOPICS:
            return _coordinators_end(context, partition, target)
        return _change(context, partition, target)
    except InvalidReplicaAssignmentError:
        return None


def _coordinators_end(
    context: DecisionContext, partition: PartitionRegistration, target: _Replicas
) -> PartitionChangeRecord | None:
    """The end of a move of a coordinator's partition. A coordinator answers from its memory. A replica that goes hands
    over first, and stays in the ISR until it knows that: nothing is committed without it until then, so it answers
    nothing that a newer coordinator has changed."""
    if partition.leader_id in partition.removing_replicas:
        isr = tuple(member for member in partition.isr if member in target.all)
        return changed(partition, context.min_isr(partition), leader_id=_leader(context, partition, target, isr))
    knows = all(_knows_that_others_lead(context, replica) for replica in partition.removing_replicas)
    return _change(context, partition, target) if knows else None


def _knows_that_others_lead(context: DecisionContext, broker_id: int) -> bool:
    """True if the broker leads only what the metadata says: it has read when it lost a leadership last, or it is
    fenced, and its lease is over (broker/quorum/lead_lease.py)."""
    lost_at = context.state.lost_leadership_at(broker_id)
    return not context.state.is_unfenced(broker_id) or context.sessions.have_all_read((broker_id,), lost_at)


@dataclass(slots=True)
class Completions:
    """Reassignments that can be completed without a change of an ISR, for instance because a broker is in service
    again. Some partitions are looked at each time, in turn."""

    context: DecisionContext
    last: PartitionKey | None = None

    def next(self) -> tuple[PartitionChangeRecord, ...]:
        looked = self.context.state.reassigning_partitions(self.last, LOOKS_MAX)
        self.last = looked[-1].key if len(looked) == LOOKS_MAX else None
        found = (completion(self.context, partition) for partition in looked)
        return tuple(record for record in found if record is not None)


def begun(
    context: DecisionContext, name: str, partition: PartitionRegistration, target: tuple[int, ...]
) -> list[PartitionChangeRecord]:
    """The records by which a reassignment begins, and ends if nothing has to be copied. InvalidReplicaAssignmentError
    where the target is not allowed."""
    original = partition.original_replicas
    _check_target(context, name, target, partition.replicas, original)
    least = context.min_isr(
        replace(partition, replicas=original, adding_replicas=(), removing_replicas=(), replicas_before=())
    )
    if len(target) < least:
        raise InvalidReplicaAssignmentError(
            f"{name}: {list(target)} are fewer replicas than min.insync.replicas = {least}; lower that first"
        )
    adding = tuple(replica for replica in target if replica not in original)
    removing = tuple(replica for replica in original if replica not in target)
    wanted = _Replicas((*target, *removing), adding, removing)
    if (adding or removing) and tuple(one for one in wanted.all if one not in adding) != original:
        wanted = replace(wanted, before=original)
    now = partition.replicas, partition.adding_replicas, partition.removing_replicas, partition.replicas_before
    if wanted == _Replicas(*now):
        return []
    change = _change(context, partition, wanted)
    end = completion(context, partition.merge(change))
    return [change] if end is None else [change, end]


def _check_target(
    context: DecisionContext, name: str, target: Sequence[int], present: Sequence[int], original: Sequence[int]
) -> None:
    """A replica that is there, or is on its way, may stay on a cordoned broker."""
    shown = list(target[:_SHOWN_REPLICAS])
    if not target or len(set(target)) < len(target):
        raise InvalidReplicaAssignmentError(f"{name}: the replicas {shown} must be at least one, each another broker")
    unknown = next((replica for replica in target if replica not in context.state.brokers), None)
    if unknown is not None:
        raise InvalidReplicaAssignmentError(
            f"{name}: broker {unknown} is not registered; `penstock cluster describe` names those that are"
        )
    check_not_cordoned(context, name, [replica for replica in target if replica not in present])
    check_one_per_rack(context, name, target, original)


def _cancelled(context: DecisionContext, name: str, partition: PartitionRegistration) -> PartitionChangeRecord:
    if not partition.is_reassigning:
        raise NoReassignmentInProgressError(f"{name} is not being reassigned; its replicas are {_shown(partition)}")
    return _change(context, partition, _Replicas(partition.original_replicas))


def _shown(partition: PartitionRegistration) -> list[int]:
    return list(partition.replicas[:_SHOWN_REPLICAS])


def _change(context: DecisionContext, partition: PartitionRegistration, wanted: _Replicas) -> PartitionChangeRecord:
    """The record by which the partition gets these replicas; those that go leave the ISR.
    InvalidReplicaAssignmentError where this is not safe."""
    isr = tuple(member for member in partition.isr if member in wanted.all)
    changed = replace(
        partition,
        replicas=wanted.all,
        directories=(),
        isr=isr,
        elr=(),
        adding_replicas=wanted.adding,
        removing_replicas=wanted.removing,
        replicas_before=wanted.before,
    )
    min_isr = context.min_isr(changed)
    gone = {*partition.isr, *partition.elr}.difference(wanted.all)  # each has every record that was acked
    if gone and len(isr) < max(min_isr, 1):
        raise InvalidReplicaAssignmentError(
            f"without the replicas that go, {list(isr)} would be in sync, and min.insync.replicas is {min_isr}; wait"
            f" until more of {list(wanted.all[:_SHOWN_REPLICAS])} are in sync"
        )
    leader_id = _leader(context, partition, wanted, isr)
    has_dropped = not set(partition.replicas) <= set(wanted.all)
    elr = eligible_replicas(replace(changed, isr=partition.isr, elr=partition.elr), isr, leader_id, min_isr)
    return PartitionChangeRecord(
        partition.topic_id,
        partition.partition,
        isr=None if isr == partition.isr else isr,
        leader_id=leader_id if has_dropped or leader_id != partition.leader_id else None,
        elr=None if elr == partition.elr else elr,
        directories=_directories(context, partition, wanted.all),
        replicas=wanted.all,
        adding_replicas=wanted.adding,
        removing_replicas=wanted.removing,
        replicas_before=wanted.before or None,
    )


def _leader(context: DecisionContext, partition: PartitionRegistration, wanted: _Replicas, isr: Sequence[int]) -> int:
    """The leader stays if it may; another one is in sync, and lives."""
    if not partition.has_leader or partition.leader_id in isr:
        return partition.leader_id
    state = context.state
    for replica in wanted.all:
        if replica in isr and state.is_active(replica) and state.replica_is_online(replica, partition):
            return replica
    raise InvalidReplicaAssignmentError(
        f"broker {partition.leader_id} leads, and none of the others that are in sync, {list(isr)}, is in service;"
        " start one of them"
    )


def _directories(
    context: DecisionContext, partition: PartitionRegistration, replicas: Sequence[int]
) -> tuple[str, ...]:
    """The directory of each replica, as it is or will be."""
    named = tuple(
        partition.directory_of(replica) if replica in partition.replicas else context.state.only_log_dir(replica)
        for replica in replicas
    )
    return named if any(named) else ()
