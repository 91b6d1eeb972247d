"""Moves the committed offsets of a group: to the ends of the logs, to offsets, by a number of records, or to a time.

Every new offset is known before any is committed, and lies within its log: what is asked for beyond an end becomes that
end. A group with members is refused, because they would go on from where they are and commit that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

from penstock.client.admin.groups.committed import commit_offsets, must_be_empty, offsets_of
from penstock.client.admin.groups.describing import describe_groups
from penstock.client.admin.groups.group_types import OffsetReset, named_members
from penstock.client.admin.groups.lag import log_ends, offsets_at
from penstock.client.cluster import arguments
from penstock.client.cluster.arguments import MAX_INT64
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.coordinators import Coordinators
from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.types import EARLIEST_TIMESTAMP, NO_OFFSET, CommittedOffset, TopicPartition

EARLIEST, LATEST, CURRENT = "earliest", "latest", "current"
ResetPlace = int | Literal["earliest", "latest", "current"] | Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ResetTarget:
    """The target of committed offsets; one of these fields names it."""

    place: str | int | None = None
    """EARLIEST, LATEST, CURRENT (what is committed, else the end), or an offset."""
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    shift_by: int | None = None
    time_ms: int | None = None


def checked_target(to: Any, shift_by: Any, to_time_ms: Any) -> ResetTarget:
    """The target that a user names. TypeError or ValueError if the arguments name no valid target, or more than one."""
    if sum(given is not None for given in (to, shift_by, to_time_ms)) != 1:
        raise ValueError(
            "give one of to ('earliest', 'latest', 'current', an offset, or an offset for each partition), shift_by and"
            " to_time_ms"
        )
    if shift_by is not None:
        return ResetTarget(shift_by=arguments.checked_number("shift_by", shift_by, -MAX_INT64))
    if to_time_ms is not None:
        return ResetTarget(time_ms=arguments.checked_number("to_time_ms", to_time_ms, 0))
    if isinstance(to, Mapping):
        if not to:
            raise ValueError("to={} names no partition")
        each = {
            arguments.checked_partition(tp): arguments.checked_number("an offset", offset, 0)
            for tp, offset in to.items()
        }
        return ResetTarget(offsets=each)
    if isinstance(to, str):
        if to not in (EARLIEST, LATEST, CURRENT):
            raise ValueError(
                f"to={to!r} must be 'earliest', 'latest', 'current', an offset, or an offset for each partition"
            )
        return ResetTarget(to)
    return ResetTarget(arguments.checked_number("to", to, 0))


async def reset_offsets(
    cluster: ClusterClient,
    coordinators: Coordinators,
    group_id: str,
    partitions: Sequence[TopicPartition] | None,
    target: ResetTarget,
    deadline_ms: int,
    *,
    dry_run: bool,
) -> dict[TopicPartition, OffsetReset]:
    """The committed offset of each partition before and afterwards. `partitions` of None are those that the target
    names, or those that the group has committed."""
    group = (await describe_groups(coordinators, (group_id,), deadline_ms))[group_id]
    must_be_empty(group_id, group.error, group.members, named_members(group.members))
    committed = await offsets_of(coordinators, group_id, deadline_ms)
    named = partitions if partitions is not None else sorted(target.offsets or committed)
    firsts = _known(await offsets_at(cluster, dict.fromkeys(named, EARLIEST_TIMESTAMP), deadline_ms))
    ends = _known(await log_ends(cluster, named, deadline_ms))
    if target.place == EARLIEST:
        wanted = firsts
    elif target.place == LATEST:
        wanted = ends
    elif target.place == CURRENT:
        wanted = {tp: committed[tp].offset if tp in committed else ends[tp] for tp in named}
    elif target.time_ms is not None:
        found = _known(await offsets_at(cluster, dict.fromkeys(named, target.time_ms), deadline_ms))
        wanted = {tp: ends[tp] if found[tp] == NO_OFFSET else found[tp] for tp in named}  # none is that late
    else:
        wanted = _by_number(group_id, named, committed, target)
    resets = {
        tp: OffsetReset(committed.get(tp), min(max(wanted[tp], firsts[tp]), ends[tp]), wanted[tp]) for tp in named
    }
    if dry_run or not resets:
        return resets
    new = {tp: CommittedOffset(reset.offset) for tp, reset in resets.items()}
    errors = await commit_offsets(coordinators, group_id, new, deadline_ms)
    return {tp: replace(reset, error=errors[tp]) for tp, reset in resets.items()}


def _by_number(
    group_id: str,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, CommittedOffset],
    target: ResetTarget,
) -> dict[TopicPartition, int]:
    """The offsets that a number, or a number for each partition, means; be they in the logs or not."""
    if isinstance(target.place, int):
        return dict.fromkeys(partitions, target.place)
    for tp in partitions:
        if target.offsets and tp not in target.offsets:
            raise ValueError(f"to={{…}} has no offset for {tp}")
        if not target.offsets and tp not in committed:
            raise ValueError(f"{tp}: group {group_id!r} has committed no offset that could be shifted")
    if target.offsets:
        return {tp: target.offsets[tp] for tp in partitions}
    return {tp: committed[tp].offset + (target.shift_by or 0) for tp in partitions}


def _known(offsets: Mapping[TopicPartition, int | ApiError]) -> dict[TopicPartition, int]:
    """The offsets; the first error of a partition whose offset is not known. Nothing is changed then."""
    for found in offsets.values():
        if isinstance(found, ApiError):
            raise found
    return {tp: found for tp, found in offsets.items() if not isinstance(found, ApiError)}
