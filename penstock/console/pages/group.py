"""One group: its members, and the lag of each partition, as `penstock groups describe` has them."""

from __future__ import annotations

from penstock.client.admin.groups.group_types import GroupDescription, MemberDescription, PartitionLag
from penstock.console.page import PageAsked
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition


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


async def show_group(asked: PageAsked) -> GroupView:
    """Asks the group's coordinator, and the leaders of its partitions."""
    group_id = asked.fields.text("id")
    group = await asked.admin.describe_group(group_id)
    lags = await asked.admin.group_lag(group_id)
    return GroupView(
        group_id=group.group_id,
        state=group.state,
        type=str(group.group_type),
        assignor=group.assignor,
        group_epoch=group.group_epoch,
        coordinator_id=group.coordinator_id,
        lag=sum(one.lag for one in lags.values() if one.lag is not None),
        members=group.members,
        partitions=tuple(_row(group, at, one) for at, one in lags.items()),
    )


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
