"""The timeline of the last hour: what happened to brokers, leaders, ISRs, moves, topics and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.console.page import PageAsked, Slice
from penstock.console.pages.watched import WatchNote, visible_events, watch_note
from penstock.console.pictures.timeline_picture import TimelineMark, timeline_svg
from penstock.console.watching.timeline import CAUSES, TimelineEvent
from penstock.lazy_dataclass import dataclass

WINDOW_MS: Final = 3_600_000
LATELY_MAX: Final = 8
CAUSES_MAX: Final = 4
"""The events that the overview shows, and those of them that come first: consequences never push a cause out."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event. `time_ms` is by the calendar as it is now."""

    number: int
    kind: str
    text: str
    is_bad: bool
    time_ms: int
    ago_ms: int


@dataclass(frozen=True, slots=True)
class EventsView:
    """A part of the events, the newest first."""

    topic: str
    broker: str
    group: str
    slice: Slice
    events: tuple[EventRow, ...]
    recent: tuple[EventRow, ...]
    """All of the last hour, which the picture shows."""
    note: WatchNote

    def picture(self) -> str:
        """The last hour as SVG."""
        marks = [TimelineMark(row.kind, row.ago_ms, row.text, row.is_bad) for row in self.recent]
        return timeline_svg(marks, WINDOW_MS)


async def show_events(asked: PageAsked) -> EventsView:
    """All events, or those of one topic, broker or group."""
    fields = asked.fields
    topic, broker, group = (fields.text(name, "") for name in ("topic", "broker", "group"))
    rows = await event_rows(asked, topic=topic, broker=broker, group=group)
    part = Slice.of(len(rows), fields)
    recent = tuple(row for row in rows if row.ago_ms <= WINDOW_MS)
    return EventsView(topic, broker, group, part, tuple(rows[part.rows]), recent, watch_note(asked))


def lately(rows: Sequence[EventRow]) -> tuple[EventRow, ...]:
    """The newest rows, the newest first, and the newest causes among them however much followed from them."""
    causes = [row for row in rows if row.kind in CAUSES][:CAUSES_MAX]
    others = [row for row in rows if row not in causes][: LATELY_MAX - len(causes)]
    return tuple(sorted((*causes, *others), key=lambda row: -row.number))


async def event_rows(asked: PageAsked, *, topic: str = "", broker: str = "", group: str = "") -> list[EventRow]:
    """The events that the person may see, the newest first."""
    watch = asked.watch
    if watch is None:
        return []
    timeline = watch.hour.timeline
    found: Sequence[TimelineEvent]
    if topic or broker or group:
        broker_id = asked.fields.number("broker", 0) if broker else None
        found = timeline.about(topic=topic or None, broker=broker_id, group=group or None)
    else:
        found = timeline.since()
    return [
        EventRow(
            number=event.number,
            kind=event.kind,
            text=event.text,
            is_bad=event.is_bad,
            time_ms=asked.wall_ms - watch.ago_ms(event.at_ms),
            ago_ms=watch.ago_ms(event.at_ms),
        )
        for event in await visible_events(asked, found)
    ]
