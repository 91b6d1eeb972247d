"""The events that the overview shows: what happened lately, and the cause of it."""

from __future__ import annotations

from penstock.console.pages.events import CAUSES_MAX, LATELY_MAX, EventRow, lately
from penstock.console.watching.timeline import EventKind


def rows(*kinds: EventKind) -> list[EventRow]:
    """Rows of these kinds, the newest first."""
    return [EventRow(len(kinds) - at, kind, str(kind), False, 0, 0) for at, kind in enumerate(kinds)]


def test_a_broker_that_went_is_shown_however_many_elections_followed() -> None:
    shown = lately(rows(*[EventKind.ELECTION] * 20, EventKind.BROKER_GONE, EventKind.TOPIC_CREATED))
    assert [row.kind for row in shown] == [EventKind.ELECTION] * (LATELY_MAX - 1) + [EventKind.BROKER_GONE]


def test_causes_leave_room_for_what_followed_and_all_stand_in_their_order() -> None:
    many = [EventKind.BROKER_SILENT, EventKind.ISR_SHRINK] * 10
    shown = lately(rows(*many))
    assert [row.kind for row in shown] == many[:LATELY_MAX]
    assert sum(row.kind == EventKind.BROKER_SILENT for row in shown) == CAUSES_MAX
    assert [row.number for row in shown] == sorted((row.number for row in shown), reverse=True)
    assert lately(rows(EventKind.CONTROLLER)) == tuple(rows(EventKind.CONTROLLER))
