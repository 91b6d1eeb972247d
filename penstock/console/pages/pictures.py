"""Pictures of the whole cluster: lines, the flow of records, and where replicas are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from penstock.admin import PartitionInfo, ProducerState, TopicDescription
from penstock.console.page import PageAsked, PartTime, address_of
from penstock.console.pages.series import WORDS
from penstock.console.pages.watched import WatchNote, visible_groups, visible_topics, watch_note
from penstock.console.pictures.flow_picture import TOPICS_MAX, FlowGroup, FlowTopic, RecordFlow, flow_svg
from penstock.console.pictures.layout_picture import LayoutBroker, LayoutRow, LayoutView, layout_svg
from penstock.console.watching.cluster_watch import ClusterWatch
from penstock.console.watching.last_hour import Subject
from penstock.errors import ApiError, TimedOutError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition

CHARTS: Final = (
    Subject.CLUSTER_RECORDS,
    Subject.CLUSTER_BYTES,
    Subject.TOPIC_RECORDS,
    Subject.GROUP_LAG,
    Subject.BROKER_PROBE_MS,
    Subject.BROKER_LEADERS,
    Subject.CLUSTER_UNDER_REPLICATED,
)
PRODUCING_MS: Final = 5 * 60_000
"""A producer that wrote within this time counts."""


@dataclass(frozen=True, slots=True)
class PicturesView:
    """The charts by their subjects, each with its title, and the memory that they are drawn from."""

    charts: dict[str, str]
    note: WatchNote


@dataclass(frozen=True, slots=True)
class FlowPage:
    """The way of records from producers by topics to groups."""

    topic: str
    flow: RecordFlow
    note: WatchNote

    def picture(self) -> str:
        """The flow as SVG."""
        return flow_svg(self.flow)


@dataclass(frozen=True, slots=True)
class LayoutPage:
    """The replicas over brokers and racks."""

    topic: str
    layout: LayoutView

    def picture(self) -> str:
        """The layout as SVG."""
        return layout_svg(self.layout)


async def show_pictures(asked: PageAsked) -> PicturesView:
    """Asks nobody: the charts ask for their lines."""
    return PicturesView({subject: WORDS[subject][0] for subject in CHARTS}, watch_note(asked))


async def show_layout(asked: PageAsked) -> LayoutPage:
    """One topic's replicas, or those of all."""
    name = asked.fields.text("topic", "")
    cluster = await asked.admin.describe_cluster()
    topics = [await asked.admin.describe_topic(name)] if name else await asked.admin.describe_topics(ask_leaders=False)
    brokers = [LayoutBroker(one.node_id, one.rack, one.fenced) for one in cluster.brokers]
    rows = [_layout_row(topic, p) for topic in topics for p in topic.partitions]
    return LayoutPage(name, LayoutView.of(brokers, rows))


def _layout_row(topic: TopicDescription, p: PartitionInfo) -> LayoutRow:
    return LayoutRow(f"{topic.name}-{p.partition}", p.leader_id, p.replicas, p.isr, p.adding_replicas)


async def show_flow(asked: PageAsked) -> FlowPage:
    """The busiest topics and their groups by the console's memory, and the producers by the leaders' own words."""
    name, watch = asked.fields.text("topic", ""), asked.watch
    if watch is None:
        return FlowPage(name, RecordFlow((), ()), watch_note(asked))
    topics, groups = await asyncio.gather(visible_topics(asked), visible_groups(asked))
    found = [
        FlowTopic(one, rate, address=address_of("/topic", name=one))
        for one, rate in watch.hour.largest(Subject.TOPIC_RECORDS, watch.hour.limits.topics_max)
        if (topics is None or one in topics) and name in ("", one)
    ]
    flow = RecordFlow.of(found, _flow_groups(watch, groups, topics))
    counted = await _with_producers(asked, flow.topics)
    return FlowPage(
        name, RecordFlow(counted, flow.groups, flow.topics_left_out, flow.groups_left_out), watch_note(asked)
    )


def _flow_groups(watch: ClusterWatch, visible: frozenset[str] | None, topics: frozenset[str] | None) -> list[FlowGroup]:
    """The groups that the person may see, with those of their topics that the person may see, too."""
    lags = watch.hour.largest(Subject.GROUP_LAG, watch.hour.limits.groups_max)

    def read_by(group: str) -> tuple[str, ...]:
        return tuple(topic for topic in watch.hour.read_by(group) if topics is None or topic in topics)

    return [
        FlowGroup(one, read_by(one), int(lag), address=address_of("/group", id=one))
        for one, lag in lags
        if visible is None or one in visible
    ]


def _writing(known: Sequence[ProducerState], rate: float | None, wall_ms: int) -> int:
    """The producers of a topic that wrote lately. The times are the brokers': of a topic that gets records the newest
    is now, whatever the calendar of this machine says."""
    newest_ms = max((one.last_append_ms for one in known), default=0)
    now_ms = newest_ms if rate else max(newest_ms, wall_ms)
    return len({one.producer_id for one in known if one.last_append_ms >= now_ms - PRODUCING_MS})


async def _with_producers(asked: PageAsked, topics: Sequence[FlowTopic]) -> tuple[FlowTopic, ...]:
    """The topics with the numbers of idempotent producers that wrote lately; None where the leaders do not say."""
    names = [topic.name for topic in topics[:TOPICS_MAX]]
    try:
        described = await asked.admin.describe_topics(names, ask_leaders=False)
        led = [TopicPartition(one.name, p.partition) for one in described for p in one.partitions if p.leader_id >= 0]
        async with PartTime().part():
            known = await asked.admin.describe_producers(led) if led else {}
    except (ApiError, TimedOutError):
        return tuple(topics)
    found: dict[str, list[ProducerState]] = {one.name: [] for one in described}
    for tp, producers in known.items():
        found[tp.topic] += producers
    rates = {topic.name: topic.records_per_second for topic in topics}
    writing = {name: _writing(states, rates.get(name), asked.wall_ms) for name, states in found.items()}
    return tuple(
        FlowTopic(
            topic.name,
            topic.records_per_second,
            writing.get(topic.name),
            topic.address,
        )
        for topic in topics
    )
