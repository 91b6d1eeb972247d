"""The live tail of a topic: the page into which the records come (live.py)."""

from __future__ import annotations

from typing import Final

from penstock.console.page import PageAsked, address_of
from penstock.lazy_dataclass import dataclass

TAIL_ROWS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class TailView:
    """The topic, and the address of its stream."""

    name: str
    stream: str
    rows_max: int = TAIL_ROWS_MAX


async def show_tail(asked: PageAsked) -> TailView:
    """Asks whether there is such a topic for this user."""
    topic = await asked.admin.describe_topic(asked.fields.text("name"))
    return TailView(topic.name, address_of("/tail/stream", name=topic.name))
