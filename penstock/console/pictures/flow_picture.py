"""Draws the way of records: producers on the left, topics in the middle with their rates, groups on the right with lag.

The busiest topics and the groups that lag most come first, TOPICS_MAX and GROUPS_MAX of them; the picture says how many
it leaves out. A band is as thick as its topic's rate, by its logarithm. Pure. Not here: how rates and lags are known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from penstock.console.pictures.svg import SvgPicture
from penstock.lazy_dataclass import dataclass

TOPICS_MAX = 20
GROUPS_MAX = 30
WIDTH = 860
ROW = 34
BOX_WIDTH = 220
TOPIC_X = 300
GROUP_X = WIDTH - BOX_WIDTH - 10


@dataclass(frozen=True, slots=True)
class FlowTopic:
    """A topic in the middle. None: not known."""

    name: str
    records_per_second: float | None
    producers: int | None = None
    address: str = ""


@dataclass(frozen=True, slots=True)
class FlowGroup:
    """A group on the right, and the topics that it reads."""

    group_id: str
    topics: tuple[str, ...]
    lag: int | None
    state: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class RecordFlow:
    """All that the picture shows."""

    topics: tuple[FlowTopic, ...]
    groups: tuple[FlowGroup, ...]
    topics_left_out: int = 0
    groups_left_out: int = 0

    @staticmethod
    def of(topics: Sequence[FlowTopic], groups: Sequence[FlowGroup]) -> RecordFlow:
        """The part that fits: the busiest topics, and of the groups that read these those that lag most."""
        busiest = sorted(topics, key=lambda topic: (-(topic.records_per_second or 0), topic.name))[:TOPICS_MAX]
        names = {topic.name for topic in busiest}
        readers = [group for group in groups if names & set(group.topics)]
        shown = sorted(readers, key=lambda group: (-(group.lag or 0), group.group_id))[:GROUPS_MAX]
        return RecordFlow(tuple(busiest), tuple(shown), len(topics) - len(busiest), len(groups) - len(shown))


def flow_svg(flow: RecordFlow, picture_id: str = "flow") -> str:
    """The picture."""
    height = ROW * max(len(flow.topics), len(flow.groups), 1) + 40
    picture = SvgPicture(
        width=WIDTH,
        height=height,
        title="From producers by topics to groups",
        description=_described(flow),
        picture_id=picture_id,
    )
    topic_y = {topic.name: _middle(number, len(flow.topics), height) for number, topic in enumerate(flow.topics)}
    rates = {topic.name: topic.records_per_second for topic in flow.topics}
    for number, group in enumerate(flow.groups):
        y = _middle(number, len(flow.groups), height)
        for name in group.topics:
            if name in topic_y:
                tip = f"{group.group_id} reads {name}"
                picture.curve(TOPIC_X + BOX_WIDTH, topic_y[name], GROUP_X, y, thickness(rates[name]), "band", tip=tip)
    for topic in flow.topics:
        y = topic_y[topic.name]
        if topic.producers != 0:
            picture.curve(150, y, TOPIC_X, y, thickness(topic.records_per_second), "band")
            count = (
                "producers" if topic.producers is None else f"{topic.producers} producer{'s' * (topic.producers != 1)}"
            )
            picture.text(140, y + 4, count, anchor="end")
        _box(picture, TOPIC_X, y, topic.name, _rate(topic.records_per_second), topic.address, "box")
    for number, group in enumerate(flow.groups):
        lag = "lag not known" if group.lag is None else f"lag {group.lag:,}"
        shape = "box lagging" if group.lag else "box"
        _box(picture, GROUP_X, _middle(number, len(flow.groups), height), group.group_id, lag, group.address, shape)
    return picture.written()


def thickness(records_per_second: float | None) -> float:
    """The width of a band: 1 for a topic at rest, at most 12."""
    return min(1 + 2 * math.log10(1 + max(records_per_second or 0, 0)), 12)


def _middle(number: int, count: int, height: int) -> float:
    return 20 + (height - 40) * (number + 0.5) / max(count, 1)


def _box(picture: SvgPicture, x: float, y: float, name: str, more: str, address: str, shape: str) -> None:
    picture.rectangle(x, y - 14, BOX_WIDTH, 28, shape, tip=f"{name}: {more}")
    if address:
        picture.link(address, x + 6, y - 2, name, width=BOX_WIDTH - 12)
    else:
        picture.text(x + 6, y - 2, name, width=BOX_WIDTH - 12)
    picture.text(x + 6, y + 10, more, "label small")


def _rate(records_per_second: float | None) -> str:
    return "rate not known" if records_per_second is None else f"{records_per_second:,.0f} records/s"


def _described(flow: RecordFlow) -> str:
    topics = "; ".join(f"{topic.name}: {_rate(topic.records_per_second)}" for topic in flow.topics[:10])
    groups = "; ".join(
        f"{group.group_id} reads {', '.join(group.topics[:3])}, lag {'not known' if group.lag is None else group.lag}"
        for group in flow.groups[:10]
    )
    return f"Topics: {topics or 'none'}. Groups: {groups or 'none'}."
