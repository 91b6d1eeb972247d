"""Says why a group lags, as far as its members, its partitions and its rates tell. Pure.

Each sentence is one fact that was seen, and what to do about it where that is known. Several may hold. Not here: what
the cluster says of the group (group.py), and the rates (watching/last_hour.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.client.admin.groups.group_types import MemberDescription
from penstock.client.admin.health.health_check import seconds
from penstock.lazy_dataclass import dataclass

SILENT_MS: Final = 15_000
"""A member that was not heard of for so long may hang; usual members are heard every few seconds."""
MOST: Final = 0.8
"""A part of the lag that is most of it."""
EVEN: Final = 0.05
"""Rates that differ by less are the same, as far as the console can tell."""
NAMED_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class GroupPartitionRow:
    """One partition that the group reads."""

    topic: str
    partition: int
    committed: int | None
    log_end: int | None
    lag: int | None
    member_id: str
    client_id: str
    host: str
    committed_ms: int | None
    """The time of the commit."""
    error: str


@dataclass(frozen=True, slots=True)
class GroupRates:
    """Records a second over the last minute; None where the console does not know."""

    written: float | None
    """Records that were written to the topics that the group reads."""
    committed: float | None


def lag_reasons(
    state: str, members: Sequence[MemberDescription], rows: Sequence[GroupPartitionRow], rates: GroupRates
) -> tuple[str, ...]:
    """The reasons; none for a group without lag."""
    lag = sum(row.lag or 0 for row in rows)
    found = []
    if unknown := [row for row in rows if row.error]:
        found.append(f"The lag of {_named(unknown)} is not known: {unknown[0].error}.")
    if not lag:
        return tuple(found)
    if not members:
        found.append("Nobody reads: the group has no members. Start its consumers.")
        return tuple(found)
    if state not in ("Stable", "Empty"):
        found.append(f"It shares its partitions out ({state}), and may read less meanwhile. Its events say how often.")
    found += _of_members(members)
    found += _of_partitions(lag, rows)
    found += _of_rates(lag, len(members), len(rows), rates)
    return tuple(found)


def _of_members(members: Sequence[MemberDescription]) -> list[str]:
    silent = [one for one in members if (one.silent_ms or 0) >= SILENT_MS]
    return [
        f"Member {one.member_id} ({one.client_id} at {one.client_host}) was last heard of {seconds(one.silent_ms or 0)}"
        " ago: look at that process. Its partitions wait for it until its session ends."
        for one in silent[:NAMED_MAX]
    ]


def _of_partitions(lag: int, rows: Sequence[GroupPartitionRow]) -> list[str]:
    found = []
    if left := [row for row in rows if row.lag and not row.member_id and not row.error]:
        found.append(f"No member has {_named(left)}: nobody reads there.")
    worst = max(rows, key=lambda row: row.lag or 0)
    if len(rows) > 1 and (worst.lag or 0) >= MOST * lag:
        who = f", which {worst.client_id} at {worst.host} reads" if worst.member_id else ""
        found.append(
            f"{(worst.lag or 0) / lag:.0%} of the lag is in {worst.topic}:{worst.partition}{who}. Look at that member;"
            " or few keys have most of the records."
        )
    return found


def _of_rates(lag: int, members: int, partitions: int, rates: GroupRates) -> list[str]:
    written, committed = rates.written, rates.committed
    if written is None or committed is None:
        return []
    told = f"In the last minute {written:,.0f} records a second were written, and it committed {committed:,.0f}"
    if not committed:
        return [f"{told}: its members process nothing, or do not commit. Look at their logs."]
    if committed > written * (1 + EVEN):
        return [f"{told}: it catches up, in about {seconds(round(lag / (committed - written) * 1000))} at this rate."]
    if committed >= written * (1 - EVEN):
        return [f"{told}: the lag stays as it is."]
    more = (
        f"It has {members} member{'s' * (members > 1)} for {partitions} partitions: more of them share the work."
        if members < partitions
        else "It has a member for each partition: make them faster, or give the topics more partitions."
    )
    return [f"{told}: it falls behind. {more}"]


def _named(rows: Sequence[GroupPartitionRow]) -> str:
    named = ", ".join(f"{row.topic}:{row.partition}" for row in rows[:NAMED_MAX])
    more = len(rows) - NAMED_MAX
    return f"{named} and {more} more" if more > 0 else named
