"""The table of the console's pages, in the order of its menu."""

from __future__ import annotations

from typing import Final

from penstock.console.page import ConsolePage
from penstock.console.pages.broker import show_broker
from penstock.console.pages.brokers import show_brokers
from penstock.console.pages.events import show_events
from penstock.console.pages.group import show_group
from penstock.console.pages.groups import show_groups
from penstock.console.pages.overview import show_overview
from penstock.console.pages.pictures import show_flow, show_layout, show_pictures
from penstock.console.pages.series import show_series
from penstock.console.pages.tail import show_tail
from penstock.console.pages.topic import show_topic
from penstock.console.pages.topics import show_topics

PAGES: Final = (
    ConsolePage("/overview", "Overview", show_overview, "overview.html", menu="Overview"),
    ConsolePage("/brokers", "Brokers", show_brokers, "brokers.html", menu="Brokers"),
    ConsolePage("/broker", "Broker", show_broker, "broker.html", fields=("id",)),
    ConsolePage("/topics", "Topics", show_topics, "topics.html", fields=("filter", "page"), menu="Topics"),
    ConsolePage("/topic", "Topic", show_topic, "topic.html", fields=("name",)),
    ConsolePage("/groups", "Groups", show_groups, "groups.html", fields=("filter", "state", "page"), menu="Groups"),
    ConsolePage("/group", "Group", show_group, "group.html", fields=("id",)),
    ConsolePage("/pictures", "Pictures", show_pictures, "pictures.html", menu="Pictures"),
    ConsolePage("/flow", "Flow", show_flow, "flow.html", fields=("topic",)),
    ConsolePage("/layout", "Replicas", show_layout, "layout.html", fields=("topic",)),
    ConsolePage(
        "/events", "Events", show_events, "events.html", fields=("topic", "broker", "group", "page"), menu="Events"
    ),
    ConsolePage("/series", "Lines", show_series, "series.html", fields=("subject", "name")),
    ConsolePage("/tail", "Tail", show_tail, "tail.html", fields=("name",)),
)
