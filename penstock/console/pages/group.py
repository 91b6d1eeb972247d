"""One group: its members, and the lag of each partition, as `penstock groups describe` has them; and why it lags."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from penstock.client.admin.groups.group_types import GroupDescription, MemberDescription, PartitionLag
from penstock.console.page import PageAsked
from penstock.console.pages.lag_reasons import GroupPartitionRow, GroupRates, lag_reasons
from penstock.console.watching.last_hour import LastHour, Subject
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition

LATELY_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group."""

    group_id: str
    state: str
    type: str
    assignor: str
    group_epoch: int
    coordinator_id: int
    lag: int
    members: tuple[MemberDescription, ...]
    partitions: tuple[GroupPartitionRow, ...]
    reasons: tuple[str, ...]
    """Why it lags."""


async def show_group(asked: PageAsked) -> GroupView:
    """Asks the group's coordinator, and the leaders of its partitions."""
    group_id = asked.fields.text("id")
    group = await asked.admin.describe_group(group_id)
    lags = await asked.admin.group_lag(group_id)
    rows = tuple(_row(group, at, one) for at, one in lags.items())
    return GroupView(
        group_id=group.group_id,
        state=group.state,
        type=str(group.group_type),
        assignor=group.assignor,
        group_epoch=group.group_epoch,
        coordinator_id=group.coordinator_id,
        lag=sum(one.lag for one in lags.values() if one.lag is not None),
        members=group.members,
        partitions=rows,
        reasons=lag_reasons(group.state, group.members, rows, _rates(asked, group_id, {row.topic for row in rows})),
    )


def _rates(asked: PageAsked, group_id: str, topics: Collection[str]) -> GroupRates:
    """The rates in the console's own memory. The person may see the group, and so these topics of it."""
    if asked.watch is None:
        return GroupRates(None, None)
    hour = asked.watch.hour
    written = [_lately(hour, Subject.TOPIC_RECORDS, name) for name in topics]
    known = [rate for rate in written if rate is not None]
    total = sum(known) if known and len(known) == len(written) else None
    return GroupRates(total, _lately(hour, Subject.GROUP_RECORDS, group_id))


def _lately(hour: LastHour, subject: Subject, name: str) -> float | None:
    """The mean of the last minute's numbers."""
    steps = max(1, LATELY_MS // hour.limits.step_ms)
    known = [number for number in hour.series(subject, name)[-steps:] if number is not None]
    return sum(known) / len(known) if known else None


def _row(group: GroupDescription, at: TopicPartition, one: PartitionLag) -> GroupPartitionRow:
    owner = group.owner_of(at)
    return GroupPartitionRow(
        topic=at.topic,
        partition=at.partition,
        committed=None if one.committed is None else one.committed.offset,
        log_end=one.log_end_offset,
        lag=one.lag,
        member_id=owner.member_id if owner is not None else "",
        client_id=owner.client_id if owner is not None else "",
        host=owner.client_host if owner is not None else "",
        committed_ms=None if one.committed is None else one.committed.commit_timestamp_ms,
        error="" if one.error is None else str(one.error),
    )
