"""Draws the timeline: a lane for each kind of event, and a mark where something happened; bad news are marked as such.

Marks that would stand on each other are one, which says how many it is, so the picture has at most COLUMNS marks a
lane. The events are in the page's table, too: a picture is not all that says them. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.console.pictures.svg import SvgPicture
from penstock.lazy_dataclass import dataclass

WIDTH = 900
LANE = 28
LABEL_WIDTH = 110
COLUMNS = 160
TIP_LETTERS_MAX = 400

LANES = (
    ("brokers", ("broker-",)),
    ("controller", ("controller",)),
    ("leaders", ("election", "offline")),
    ("ISR", ("isr-",)),
    ("moves", ("move-",)),
    ("topics", ("topic-",)),
    ("groups", ("group-",)),
)
"""The names of the lanes, and how the kinds that stand in them begin."""


@dataclass(frozen=True, slots=True)
class TimelineMark:
    """An event in the picture."""

    kind: str
    ago_ms: int
    text: str
    is_bad: bool


def timeline_svg(marks: Sequence[TimelineMark], window_ms: int, picture_id: str = "timeline") -> str:
    """The picture of the last `window_ms`, now on the right."""
    height = LANE * len(LANES) + 30
    recent = [mark for mark in marks if 0 <= mark.ago_ms <= window_ms]
    minutes = window_ms // 60_000
    picture = SvgPicture(
        width=WIDTH,
        height=height,
        title=f"Events of the last {minutes} minutes",
        description=f"{len(recent)} events, {sum(mark.is_bad for mark in recent)} of them bad news."
        " The table below has them all.",
        picture_id=picture_id,
    )
    for number, (name, begins) in enumerate(LANES):
        y = 14 + number * LANE
        picture.text(LABEL_WIDTH - 10, y + 4, name, anchor="end")
        picture.line(LABEL_WIDTH, y, WIDTH - 10, y, "rule")
        _lane(picture, [mark for mark in recent if mark.kind.startswith(begins)], y, window_ms)
    for part in range(5):
        x = LABEL_WIDTH + (WIDTH - 20 - LABEL_WIDTH) * part / 4
        ago = minutes * (4 - part) / 4
        words = f"{ago:g} min ago" if ago else "now"
        picture.text(
            x, height - 8, words, "label small", anchor="start" if part == 0 else "middle" if part < 4 else "end"
        )
    return picture.written()


def _lane(picture: SvgPicture, marks: Sequence[TimelineMark], y: float, window_ms: int) -> None:
    columns: dict[int, list[TimelineMark]] = {}
    for mark in marks:
        columns.setdefault(COLUMNS - 1 - min(mark.ago_ms * COLUMNS // max(window_ms, 1), COLUMNS - 1), []).append(mark)
    for column, together in sorted(columns.items()):
        x = LABEL_WIDTH + (WIDTH - 20 - LABEL_WIDTH) * (column + 0.5) / COLUMNS
        is_bad = any(mark.is_bad for mark in together)
        tip = "; ".join(mark.text for mark in together)
        tip = tip if len(tip) <= TIP_LETTERS_MAX else f"{tip[:TIP_LETTERS_MAX]}…"
        shape, radius = ("mark bad" if is_bad else "mark"), min(4 + len(together), 9)
        if is_bad:  # another form, too: not by colour alone
            picture.rectangle(x - radius, y - radius, 2 * radius, 2 * radius, shape, tip=tip)
        else:
            picture.circle(x, y, radius, shape, tip=tip)
