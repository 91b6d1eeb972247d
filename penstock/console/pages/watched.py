"""The part of the console's memory that a person may see, and what pages say of the memory itself.

The console watches as its own user, who may see more than the person does. Where people log in, lines and events of
topics and groups are shown to those alone whom the cluster shows these topics and groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.console.page import PageAsked
from penstock.console.watching.last_hour import WHOLE_CLUSTER, Subject
from penstock.console.watching.timeline import TimelineEvent
from penstock.lazy_dataclass import dataclass

NAMES_KEPT_MS: Final = 5_000
NO_WATCH: Final = "this console watches nothing by itself"
HIDDEN: Final = "The console's own user was refused, or not answered."


@dataclass(frozen=True, slots=True)
class WatchNote:
    """The memory of the console: since when it knows, and what it does not."""

    since_ms: int
    """The calendar time of the first look; 0 before it."""
    why_not: str
    """Why nothing is watched; "" while something is."""
    part_errors: dict[str, str]
    left_out: int


def watch_note(asked: PageAsked) -> WatchNote:
    """The memory's own state. The cluster's errors name topics and groups, which the console's user may see and the
    person may not. Where people log in, they learn only which part fails."""
    watch = asked.watch
    if watch is None:
        return WatchNote(0, NO_WATCH, {}, 0)
    errors = dict.fromkeys(watch.part_errors, HIDDEN) if asked.user else watch.part_errors
    return WatchNote(watch.since_wall_ms, watch.why_not, errors, watch.hour.statistics().left_out)


async def visible_topics(asked: PageAsked) -> frozenset[str] | None:
    """The topics that the person may see; None for every one, where nobody logs in."""
    if not asked.user:
        return None
    return frozenset(await asked.link.answer("names of topics", NAMES_KEPT_MS, asked.admin.list_topics))


async def visible_groups(asked: PageAsked) -> frozenset[str] | None:
    """The groups that the person may see; None for every one, where nobody logs in."""
    if not asked.user:
        return None
    groups = await asked.link.answer("names of groups", NAMES_KEPT_MS, asked.admin.list_groups)
    return frozenset(group.group_id for group in groups)


async def visible_events(asked: PageAsked, events: Iterable[TimelineEvent]) -> list[TimelineEvent]:
    """The events that name nothing which the person may not see."""
    topics, groups = await visible_topics(asked), await visible_groups(asked)
    return [
        event
        for event in events
        if (topics is None or topics.issuperset(event.topics)) and (groups is None or groups.issuperset(event.groups))
    ]


async def may_see(asked: PageAsked, subject: Subject, name: str) -> bool:
    """True if the person may see the line of that name."""
    kind = subject.partition("-")[0]
    if name == WHOLE_CLUSTER or kind == "broker":
        return True
    if kind == "topic":
        topics = await visible_topics(asked)
        return topics is None or name in topics
    groups = await visible_groups(asked)
    return groups is None or (name.partition(" ")[2] if kind == "partition" else name) in groups
