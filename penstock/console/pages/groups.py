"""The groups: a page of them at a time, with their members and lag."""

from __future__ import annotations

import asyncio
from typing import Final

from penstock.client.admin.groups.group_calls import GROUP_STATES
from penstock.client.admin.groups.group_types import GroupListing
from penstock.console.page import PageAsked, PartTime, Slice
from penstock.errors import ApiError, GroupIdNotFoundError, TimedOutError
from penstock.lazy_dataclass import dataclass

LAGS_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group, in the words of `penstock groups list`."""

    group_id: str
    state: str
    type: str
    coordinator_id: int
    lag: int | None
    """The records that it has not committed; None where that is not known."""
    error: str


@dataclass(frozen=True, slots=True)
class GroupsView:
    """One page of groups."""

    groups: tuple[GroupRow, ...]
    slice: Slice
    filter: str
    state: str
    states: tuple[str, ...]


async def show_groups(asked: PageAsked) -> GroupsView:
    """Asks every coordinator for its groups, and for the lag of those that are shown."""
    wanted = asked.fields.text("filter", "")
    state = asked.fields.choice("state", ("", *GROUP_STATES), "")
    listed = await asked.admin.list_groups(states=(state,) if state else ())
    found = [group for group in listed if wanted in group.group_id]
    part = Slice.of(len(found), asked.fields)
    turns, time = asyncio.Semaphore(LAGS_AT_ONCE), PartTime()
    rows = await asyncio.gather(*(_row(asked, group, turns, time) for group in found[part.rows]))
    return GroupsView(tuple(rows), part, wanted, state, GROUP_STATES)


async def _row(asked: PageAsked, group: GroupListing, turns: asyncio.Semaphore, time: PartTime) -> GroupRow:
    """A group whose coordinator does not answer holds up no other's row."""
    lag, reason = None, ""
    async with turns:
        try:
            async with time.part():
                lags = await asked.admin.group_lag(group.group_id)
            known = [one.lag for one in lags.values()]
            lag = sum(one for one in known if one is not None)
            reason = next((str(one.error) for one in lags.values() if one.error is not None), "")
        except GroupIdNotFoundError:
            reason = "it was deleted just now"
        except (ApiError, TimedOutError) as error:
            reason = str(error)
    return GroupRow(group.group_id, group.state, str(group.group_type), group.coordinator_id, lag, reason)
