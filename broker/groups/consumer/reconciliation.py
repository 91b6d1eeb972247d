"""The way of one member to its target, step by step: it gives partitions up first, and gets what others gave up.

                        it still holds what it must give up
    STABLE ───────────► UNREVOKED_PARTITIONS (the old epoch)
      │ ▲                        │ it says that it gave them up
      │ │ all released           ▼
      │ └───────────── UNRELEASED_PARTITIONS (the new epoch), if others hold some of its target
      └──────────────►

The rule that keeps a partition from two members: it is given only when no member owns it. A member owns a partition
that it has assigned, or that it has not acknowledged to have given up. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.groups.consumer.member import NOTHING_OWNED, Assignment, Member, MemberState, owns_any


class Heard(NamedTuple):
    """The member's own word: its epoch, and the partitions that it holds (None: it did not say)."""

    epoch: int
    held: Assignment | None


def reconciled(
    member: Member,
    target: Assignment,
    target_epoch: int,
    heard: Heard,
    owners: Mapping[str, Mapping[int, str]],
) -> Member:
    """The member after a heartbeat. `owners` are the owners of the group's partitions by topic and partition."""
    held = heard.held
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return member
    if member.state is MemberState.UNREVOKED_PARTITIONS and (held is None or owns_any(held, member.revoking)):
        return member
    assigned: dict[str, Mapping[int, int]] = {}
    revoking: dict[str, Mapping[int, int]] = {}
    for topic_id, epochs in member.assigned.items():
        wanted = target.get(topic_id, frozenset())
        kept = {partition: epoch for partition, epoch in epochs.items() if partition in wanted}
        if kept:
            assigned[topic_id] = kept
        if len(kept) < len(epochs):
            revoking[topic_id] = {partition: epoch for partition, epoch in epochs.items() if partition not in wanted}
    if revoking and (held is None or owns_any(held, revoking)):
        return member.in_epoch(member.epoch, heard.epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
    missing = _give_what_is_free(assigned, target, target_epoch, owners, member.member_id)
    state = MemberState.UNRELEASED_PARTITIONS if missing else MemberState.STABLE
    return member.in_epoch(target_epoch, heard.epoch, state, assigned)


def _give_what_is_free(
    assigned: dict[str, Mapping[int, int]],
    target: Assignment,
    epoch: int,
    owners: Mapping[str, Mapping[int, str]],
    member_id: str,
) -> bool:
    """Add to `assigned` what nobody else owns of the target; True if some of it has an owner still."""
    missing = False
    for topic_id, wanted in target.items():
        has: Mapping[int, int] = assigned.get(topic_id, NOTHING_OWNED)
        if len(has) == len(wanted):
            continue
        taken = owners.get(topic_id, NOTHING_OWNED)
        free = [partition for partition in wanted if taken.get(partition, member_id) == member_id]
        missing = missing or len(free) < len(wanted)
        if len(free) > len(has):
            assigned[topic_id] = {**dict.fromkeys(sorted(free), epoch), **has}
    return missing


def is_waiting(member: Member, target: Assignment, owners: Mapping[str, Mapping[int, str]]) -> bool:
    """True while others own something of its target."""
    return any(
        owners.get(topic_id, NOTHING_OWNED).get(partition, member.member_id) != member.member_id
        for topic_id, partitions in target.items()
        for partition in partitions
    )
