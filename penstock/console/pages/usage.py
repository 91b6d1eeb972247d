"""The readers and writers of one topic: the groups that read it, and the producers that its leaders know."""

from __future__ import annotations

import asyncio
from typing import Final

from penstock.console.page import PageAsked, PartTime
from penstock.errors import ApiError, AuthorizationFailedError, GroupIdNotFoundError, TimedOutError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition

GROUPS_ASKED_MAX: Final = 300
"""Groups that are looked at; of more, the first by their ids."""
ASKED_AT_ONCE: Final = 16
PRODUCERS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class ReadingGroup:
    """A group that has committed offsets of the topic, or has members that have partitions of it."""

    group_id: str
    state: str
    members: int
    partitions: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class KnownWriter:
    """A producer that a partition knows, in the words of `penstock topics producers`."""

    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_append_ms: int
    open_from: int | None
    """The first offset of its open transaction."""


@dataclass(frozen=True, slots=True)
class UsageView:
    """The readers and writers of a topic."""

    topic: str
    groups: tuple[ReadingGroup, ...]
    groups_asked: int
    groups_total: int
    groups_error: str
    writers: tuple[KnownWriter, ...]
    writers_total: int
    writers_error: str


async def show_usage(asked: PageAsked) -> UsageView:
    """Asks every group for what it has committed, and the leaders for the producers that they know."""
    name = asked.fields.text("topic")
    topic = await asked.admin.describe_topic(name)
    led = [TopicPartition(name, p.partition) for p in topic.partitions if p.leader_id >= 0 and p.error is None]
    (groups, asked_of, total, groups_error), (writers, writers_error) = await asyncio.gather(
        _groups(asked, name), _writers(asked, led)
    )
    return UsageView(
        topic=name,
        groups=groups,
        groups_asked=asked_of,
        groups_total=total,
        groups_error=groups_error,
        writers=writers[:PRODUCERS_MAX],
        writers_total=len(writers),
        writers_error=writers_error,
    )


async def _groups(asked: PageAsked, topic: str) -> tuple[tuple[ReadingGroup, ...], int, int, str]:
    try:
        listed = await asked.admin.list_groups()
    except AuthorizationFailedError as error:
        return (), 0, 0, str(error)
    turns, time, errors = asyncio.Semaphore(ASKED_AT_ONCE), PartTime(), list[str]()

    async def reading(group_id: str) -> ReadingGroup | None:
        async with turns:
            try:
                async with time.part():
                    every = await asked.admin.group_lag(group_id)
                    lags = {at: one for at, one in every.items() if at.topic == topic}
                    if not lags:
                        return None
                    group = await asked.admin.describe_group(group_id)
            except GroupIdNotFoundError:
                return None
            except (ApiError, TimedOutError) as error:
                errors.append(f"{group_id}: {error}")
                return None
        has = [one for one in group.members if any(at.topic == topic for at in one.assignment)]
        known = [one.lag for one in lags.values() if one.lag is not None]
        return ReadingGroup(group_id, group.state, len(has), len(lags), sum(known) if known else None)

    shown = [group.group_id for group in listed[:GROUPS_ASKED_MAX]]
    found = await asyncio.gather(*map(reading, shown))
    why = f"{len(errors)} groups gave no answer; {errors[0]}" if errors else ""
    return tuple(one for one in found if one is not None), len(shown), len(listed), why


async def _writers(asked: PageAsked, led: list[TopicPartition]) -> tuple[tuple[KnownWriter, ...], str]:
    if not led:
        return (), ""
    try:
        async with PartTime().part():
            found = await asked.admin.describe_producers(led)
    except (ApiError, TimedOutError) as error:
        return (), str(error)
    rows = [
        KnownWriter(
            at.partition,
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_append_ms,
            one.transaction_start_offset,
        )
        for at, known in sorted(found.items())
        for one in known
    ]
    return tuple(sorted(rows, key=lambda row: -row.last_append_ms)), ""
