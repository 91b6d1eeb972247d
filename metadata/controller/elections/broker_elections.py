"""The elections that follow when a broker leaves or joins, when its log dirs fail, or when one replica is elsewhere.

Each function answers the changes of the partitions concerned; the caller commits them, in its order. Not here: the rule
by which one partition's leader is elected (election.py), and elections that an operator or the leader balance asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from metadata.controller.context import DecisionContext
from metadata.controller.elections.election import Circumstances, change_record, elect
from metadata.records import PartitionChangeRecord
from metadata.registrations import PartitionRegistration
from penstock.types import NO_LEADER


def changes_when_leaving(
    context: DecisionContext,
    leaving: Iterable[int],
    *,
    only_if_led: bool = False,
    doubts: Callable[[PartitionRegistration], tuple[tuple[int, ...], tuple[int, ...]]] | None = None,
) -> list[PartitionChangeRecord]:
    """The changes of every partition that has one of `leaving` in its ISR.

    `only_if_led` is for a broker that asks to stop: a partition that no other member of its ISR or ELR could lead stays
    with it until it stops, and no unclean leader is elected while an ISR member lives. `doubts` names the replicas of
    a partition that are unfit, and those without a log; then partitions with one of `leaving` in the ELR are included.
    """
    gone, state = tuple(leaving), context.state
    partitions_of = state.partitions_with_isr_member if doubts is None else state.partitions_with_member
    affected = {partition.key: partition for broker in gone for partition in partitions_of(broker)}
    changes = []
    for key in sorted(affected):
        partition = affected[key]
        unfit, without_log = ((), ()) if doubts is None else doubts(partition)
        circumstances = Circumstances(
            is_active=state.is_active,
            is_unfenced=state.is_unfenced,
            is_online=state.replica_is_online,
            min_isr=context.min_isr(partition),
            leaving=gone,
            unfit=unfit,
            without_log=without_log,
            unclean_allowed=not only_if_led and context.unclean_allowed(key.topic_id),
        )
        outcome = elect(partition, circumstances)
        change = change_record(partition, outcome)
        if change is not None and not (only_if_led and outcome.leader_id == NO_LEADER):
            changes.append(change)
    return changes


def changes_when_joining(context: DecisionContext, joining: int) -> list[PartitionChangeRecord]:
    """The changes of the partitions without a leader that can have one now that broker `joining` is active."""

    def is_active(broker_id: int) -> bool:
        return broker_id == joining or context.state.is_active(broker_id)

    changes = []
    for partition in context.state.leaderless_partitions():
        if joining in partition.replicas:
            allowed = context.unclean_allowed(partition.topic_id)
            state, min_isr = context.state, context.min_isr(partition)
            circumstances = Circumstances(
                is_active, is_active, state.replica_is_online, min_isr, unclean_allowed=allowed
            )
            outcome = elect(partition, circumstances)
            change = change_record(partition, outcome)
            if change is not None:
                changes.append(change)
    return changes


def changes_when_dirs_fail(context: DecisionContext, broker_id: int, failed: Set[str]) -> list[PartitionChangeRecord]:
    """The changes of the partitions whose replica on the broker is in one of the log dirs, or in one that nobody knows;
    they come BEFORE the record of the failure."""
    changes = (
        elected(context, partition, leaving=(broker_id,))
        for partition in context.state.partitions_with_member(broker_id)
        if partition.directory_of(broker_id) in failed | {""}
    )
    return [change for change in changes if change is not None]


def elected(
    context: DecisionContext,
    partition: PartitionRegistration,
    *,
    leaving: tuple[int, ...] = (),
    unfit: tuple[int, ...] = (),
) -> PartitionChangeRecord | None:
    """The change of one partition, whose replicas may be elsewhere now; None when it stays as it is.

    Replicas that are `unfit` leave the ELR. Replicas `leaving`, because their log dir has failed, leave the ISR too.
    """
    state = context.state
    circumstances = Circumstances(
        state.is_active,
        state.is_unfenced,
        state.replica_is_online,
        context.min_isr(partition),
        leaving=leaving,
        unfit=(*unfit, *leaving),
        unclean_allowed=context.unclean_allowed(partition.topic_id),
    )
    return change_record(partition, elect(partition, circumstances))
