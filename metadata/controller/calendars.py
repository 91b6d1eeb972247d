"""Compares the calendars that brokers tell with their heartbeats, and says which of them are not to be trusted.

Retention deletes what is old by a calendar, and one node's calendar may be years wrong at its start, where nothing of
its own machine shows it. The calendars of the others do. Each is kept as its difference from the controller's monotonic
clock, so the controller's own calendar has no say beyond that of its broker.

    AGREES      more than half of the brokers tell nearly the same
    APART       they tell it not
    ALONE       no other broker is registered that tells its calendar: there is nothing to compare with
    UNSETTLED   too few of them have told theirs yet, as after an election; the broker keeps the verdict that it has

A broker that was ALONE leads by its own calendar, whatever that is. So the next ones stay UNSETTLED, and lead nothing,
until that one has a verdict by theirs: else it would lead what is made for all of them.

Soft state of the active controller. Not here: what a broker does with a verdict (broker/jobs/wall_clock.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median_high, median_low
from typing import Final

from penstock.messages.nodes.brokers import CalendarVerdict

CALENDARS_APART_MS: Final = 60 * 60 * 1000
"""The difference at which calendars are apart: more than a time service ever corrects at once, less than any retention
that a person sets. Brokers count as much as a jump of their own clock (JUMP_MS_MAX)."""
CALENDAR_MS_MAX: Final = 1 << 61
"""A calendar that is further off counts as this, so that the difference of any two has 64 bits."""


class BrokerCalendars:
    """The calendars of all brokers, by their ids."""

    def __init__(self) -> None:
        self._offsets_ms: dict[int, int | None] = {}
        """The difference of each broker's calendar; None for a broker of an older release, which tells no calendar."""
        self._alone: int | None = None
        """The broker that was found alone, and has had no verdict by others since."""

    def note(self, broker_id: int, calendar_ms: int, now_ms: int) -> None:
        """Keeps the calendar of a heartbeat; 0: the broker tells none."""
        bounded_ms = min(max(calendar_ms, -CALENDAR_MS_MAX), CALENDAR_MS_MAX)
        self._offsets_ms[broker_id] = bounded_ms - now_ms if calendar_ms else None

    def judge(self, broker_id: int, live: Iterable[int], registered: Iterable[int]) -> tuple[CalendarVerdict, int]:
        """The verdict over one of the live brokers, and by how much its calendar is ahead of the middle one."""
        counted = {one for one in live if self._offsets_ms.get(one, 0) is not None}
        heard = {one: offset for one in counted if (offset := self._offsets_ms.get(one)) is not None}
        own = heard.get(broker_id)
        if own is None:
            return CalendarVerdict.UNSPECIFIED, 0
        off_ms = max((own - middle(heard.values()) for middle in (median_low, median_high)), key=abs)
        near = sum(abs(offset - own) <= CALENDARS_APART_MS for offset in heard.values())
        if all(one == broker_id or self._offsets_ms.get(one, 0) is None for one in registered):
            self._alone = broker_id
            return CalendarVerdict.ALONE, 0
        verdict = verdict_of(near, len(heard), len(counted))
        if verdict is not CalendarVerdict.UNSETTLED and self._alone is not None:
            if broker_id == self._alone:
                self._alone = None
            elif self._alone in counted:
                verdict = CalendarVerdict.UNSETTLED
        return verdict, off_ms

    def __repr__(self) -> str:
        return f"BrokerCalendars({len(self._offsets_ms)})"


def verdict_of(near: int, heard: int, counted: int) -> CalendarVerdict:
    """The verdict on a broker's calendar, by the number of brokers that are counted, heard, and near that calendar."""
    if near > 1 and 2 * near > counted:
        return CalendarVerdict.AGREES
    is_settled = heard == counted > 1 or 2 * (heard - near) >= counted
    return CalendarVerdict.APART if is_settled else CalendarVerdict.UNSETTLED
