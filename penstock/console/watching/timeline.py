"""The timeline: the events that the console has seen, in bounded number, each as a sentence for a person.

A cluster that loses a broker has thousands of elections at once. Events of one kind and one moment are named topic by
topic up to TOPICS_NAMED_MAX, and are one event above it. Times are those of the console's monotonic clock: a page
counts back from its own calendar, so a clock that is set does not tear the timeline. Pure. Not here: how events are
found (changes.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum

from penstock.lazy_dataclass import dataclass

EVENTS_MAX = 2_000
TOPICS_NAMED_MAX = 20
"""Topics that have an event of their own, of one kind at one moment."""
EXAMPLES_MAX = 3
TEXT_LETTERS_MAX = 1_000
NAME_LETTERS_MAX = 255
"""A name of a topic or a group has no more, unless a node says what it should not."""
PARTITIONS_NAMED_MAX = 8


class EventKind(StrEnum):
    """The kinds of events; each has a mark and a lane in the picture."""

    BROKER_GONE = "broker-gone"
    BROKER_BACK = "broker-back"
    BROKER_RESTARTED = "broker-restarted"
    BROKER_SILENT = "broker-silent"
    BROKER_ANSWERS = "broker-answers"
    BROKER_REGISTERED = "broker-registered"
    BROKER_FORGOTTEN = "broker-forgotten"
    BROKER_CORDONED = "broker-cordoned"
    CONTROLLER = "controller"
    ELECTION = "election"
    OFFLINE = "offline"
    ISR_SHRINK = "isr-shrink"
    ISR_EXPAND = "isr-expand"
    MOVE_BEGAN = "move-began"
    MOVE_ENDED = "move-ended"
    TOPIC_CREATED = "topic-created"
    TOPIC_DELETED = "topic-deleted"
    TOPIC_GREW = "topic-grew"
    GROUP_STATE = "group-state"


BAD_NEWS = frozenset(
    {
        EventKind.BROKER_GONE,
        EventKind.BROKER_SILENT,
        EventKind.OFFLINE,
        EventKind.ISR_SHRINK,
        EventKind.BROKER_FORGOTTEN,
    }
)
"""The kinds that a person who looks for a fault reads first."""
CAUSES = frozenset(kind for kind in EventKind if kind.startswith("broker-")) | {EventKind.CONTROLLER}
"""The kinds that others follow from: a broker that goes brings elections and ISR changes in every topic."""


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """`number` grows by one with each event. `topics`, `brokers` and `groups` are those that it is about, for the pages
    of these; of many topics only the first are named."""

    kind: EventKind
    text: str
    topics: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()
    count: int = 1
    """The number of partitions, or of whatever the event is about."""
    at_ms: int = 0
    number: int = 0

    @property
    def is_bad(self) -> bool:
        return self.kind in BAD_NEWS


class Timeline:
    """The newest EVENTS_MAX events."""

    def __init__(self, events_max: int = EVENTS_MAX) -> None:
        self._events: deque[TimelineEvent] = deque(maxlen=events_max)
        self._count = 0

    def note(self, events: Iterable[TimelineEvent], now_ms: int) -> None:
        """Takes the events of one moment, those of many topics as one."""
        by_kind: dict[EventKind, list[TimelineEvent]] = {}
        for event in events:
            by_kind.setdefault(event.kind, []).append(event)
        for alike in by_kind.values():
            for event in merged(alike):
                self._count += 1
                self._events.append(
                    replace(
                        event,
                        text=event.text[:TEXT_LETTERS_MAX],
                        topics=tuple(name[:NAME_LETTERS_MAX] for name in event.topics),
                        groups=tuple(name[:NAME_LETTERS_MAX] for name in event.groups),
                        at_ms=now_ms,
                        number=self._count,
                    )
                )

    def since(self, number: int = 0, limit: int = EVENTS_MAX) -> list[TimelineEvent]:
        """The events after that number, the newest first."""
        found: list[TimelineEvent] = []
        for event in reversed(self._events):
            if event.number <= number or len(found) >= limit:
                break
            found.append(event)
        return found

    def about(
        self, *, topic: str | None = None, broker: int | None = None, group: str | None = None, limit: int = EVENTS_MAX
    ) -> list[TimelineEvent]:
        """The events of one topic, broker or group, the newest first."""
        found = [
            event
            for event in reversed(self._events)
            if topic in event.topics or broker in event.brokers or group in event.groups
        ]
        return found[:limit]

    @property
    def newest_number(self) -> int:
        return self._count

    def __len__(self) -> int:
        return len(self._events)

    def __repr__(self) -> str:
        return f"Timeline({len(self._events)} of {self._events.maxlen} events)"


def merged(alike: Sequence[TimelineEvent]) -> Sequence[TimelineEvent]:
    """Events of one kind and moment: as they are, or one of all."""
    if len(alike) <= TOPICS_NAMED_MAX:
        return alike
    first, count = alike[0], sum(event.count for event in alike)
    named = "; ".join(event.text for event in alike[:EXAMPLES_MAX])
    what, more = first.kind.replace("-", " "), len(alike) - EXAMPLES_MAX
    return [
        TimelineEvent(
            kind=first.kind,
            text=f"{what}, {count} times at once: {named}; and {more} more",
            topics=tuple(dict.fromkeys(topic for event in alike for topic in event.topics))[:TOPICS_NAMED_MAX],
            brokers=tuple(sorted({broker for event in alike for broker in event.brokers})),
            groups=tuple(dict.fromkeys(group for event in alike for group in event.groups))[:TOPICS_NAMED_MAX],
            count=count,
        )
    ]


def named_partitions(partitions: Sequence[int]) -> str:
    """`partition 3`, or `partitions 0, 1, 2 and 9 more`."""
    named = ", ".join(map(str, partitions[:PARTITIONS_NAMED_MAX]))
    more = len(partitions) - PARTITIONS_NAMED_MAX
    return f"partition{'s' * (len(partitions) > 1)} {named}" + (f" and {more} more" if more > 0 else "")
