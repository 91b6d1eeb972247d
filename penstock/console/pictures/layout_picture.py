"""Draws where the replicas of partitions are: a row for each partition, a column for each broker, brokers by racks.

A filled box leads, a framed one is in sync, a dashed one is not; a box with a dot comes by a reassignment. The picture
has at most ROWS_MAX × BROKERS_MAX boxes, and says what it leaves out. Pure. Not here: which partitions are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.console.pictures.svg import SvgPicture
from penstock.lazy_dataclass import dataclass

ROWS_MAX = 64
BROKERS_MAX = 40
CELL = 22
WIDE_COLUMN = 64
"""The width of a column where there are so few that the names of racks find place above each."""
WIDE_BROKERS_MAX = 10
LABEL_WIDTH = 150
HEAD_HEIGHT = 48


@dataclass(frozen=True, slots=True)
class LayoutBroker:
    """A column."""

    broker_id: int
    rack: str = ""
    is_fenced: bool = False


@dataclass(frozen=True, slots=True)
class LayoutRow:
    """A partition."""

    label: str
    leader_id: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LayoutView:
    """All that the picture shows; `rows_left_out` are partitions beyond ROWS_MAX, the same for brokers."""

    brokers: tuple[LayoutBroker, ...]
    rows: tuple[LayoutRow, ...]
    rows_left_out: int = 0
    brokers_left_out: int = 0

    @staticmethod
    def of(brokers: Sequence[LayoutBroker], rows: Sequence[LayoutRow]) -> LayoutView:
        """The part that fits: of many partitions those in trouble first, of many brokers those that have replicas."""
        by_trouble = sorted(rows, key=lambda row: len(row.isr) >= len(row.replicas)) if len(rows) > ROWS_MAX else rows
        shown = tuple(by_trouble[:ROWS_MAX])
        used = {broker for row in shown for broker in row.replicas}
        wanted = sorted(brokers, key=lambda one: (one.broker_id not in used, one.rack, one.broker_id))[:BROKERS_MAX]
        columns = tuple(sorted(wanted, key=lambda one: (one.rack, one.broker_id)))
        return LayoutView(columns, shown, len(rows) - len(shown), len(brokers) - len(columns))


def layout_svg(layout: LayoutView, picture_id: str = "layout") -> str:
    """The picture."""
    column = WIDE_COLUMN if len(layout.brokers) <= WIDE_BROKERS_MAX else CELL
    width = LABEL_WIDTH + column * max(len(layout.brokers), 1) + 20
    height = HEAD_HEIGHT + CELL * len(layout.rows) + 10
    short = [row.label for row in layout.rows if len(row.isr) < len(row.replicas)]
    words = f"{len(layout.rows)} partitions over {len(layout.brokers)} brokers."
    words += f" Not all replicas are in sync: {', '.join(short[:10])}." if short else " All replicas are in sync."
    picture = SvgPicture(
        width=width, height=height, title="Replicas by broker and rack", description=words, picture_id=picture_id
    )
    _heads(picture, layout.brokers, column, height)
    for number, row in enumerate(layout.rows):
        y = HEAD_HEIGHT + number * CELL
        picture.text(LABEL_WIDTH - 8, y + 15, row.label, anchor="end", width=LABEL_WIDTH - 12)
        for place, broker in enumerate(layout.brokers):
            if broker.broker_id in row.replicas:
                _cell(picture, LABEL_WIDTH + place * column + (column - CELL) / 2, y, row, broker.broker_id)
    return picture.written()


def _heads(picture: SvgPicture, brokers: Sequence[LayoutBroker], column: int, height: int) -> None:
    """The racks, and the brokers below."""
    rack = None
    for place, broker in enumerate(brokers):
        x = LABEL_WIDTH + place * column
        if broker.rack != rack:
            rack = broker.rack
            same = sum(one.rack == rack for one in brokers)
            picture.text(x + 2, 16, rack or "no rack", width=same * column)
            picture.line(x - 1, 4, x - 1, height - 6, "rule")
        picture.text(
            x + column / 2, 40, str(broker.broker_id), "label bad" if broker.is_fenced else "label", anchor="middle"
        )


def _cell(picture: SvgPicture, x: float, y: float, row: LayoutRow, broker: int) -> None:
    is_in_sync, leads = broker in row.isr, broker == row.leader_id
    shape = "replica leads" if leads else "replica in-sync" if is_in_sync else "replica out-of-sync"
    what = "leads" if leads else "is in sync" if is_in_sync else "is not in sync"
    comes = broker in row.adding
    picture.rectangle(
        x + 3,
        y + 3,
        CELL - 6,
        CELL - 6,
        shape,
        tip=f"{row.label}: broker {broker} {what}{', and comes' if comes else ''}",
    )
    if comes:
        picture.circle(x + CELL / 2, y + CELL / 2, 2.5, "mark")
