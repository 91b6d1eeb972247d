"""The timeline: a lane for each kind, marks that do not stand on each other, bad news in another form."""

from __future__ import annotations

import pytest

from penstock.console.pictures.timeline_picture import COLUMNS, LANES, TimelineMark, timeline_svg
from penstock.console.watching.timeline import EventKind

HOUR_MS = 3_600_000


def test_marks_stand_in_their_lanes_and_old_ones_are_left_out() -> None:
    marks = [
        TimelineMark("broker-gone", 60_000, "broker 2 went out of service", True),
        TimelineMark("election", 59_000, "orders elected broker 1", False),
        TimelineMark("election", 2 * HOUR_MS, "long ago", False),
    ]
    text = timeline_svg(marks, HOUR_MS)
    assert "2 events, 1 of them bad news." in text
    assert text.count('class="mark"') == 1 and text.count('class="mark bad"') == 1
    assert "broker 2 went out of service" in text and "long ago" not in text
    assert "Events of the last 60 minutes" in text and "30 min ago" in text


@pytest.mark.parametrize("kind", list(EventKind))
def test_every_kind_of_event_has_a_lane(kind: EventKind) -> None:
    assert sum(kind.startswith(begins) for _, begins in LANES) == 1


def test_many_events_are_few_marks() -> None:
    marks = [TimelineMark("isr-shrink", n * 1_000, f"event {n}", False) for n in range(3_600)]
    text = timeline_svg(marks, HOUR_MS)
    assert text.count('class="mark"') == COLUMNS
    assert len(text) < 120_000
