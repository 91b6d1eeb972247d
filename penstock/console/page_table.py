"""The table of the console's pages, in the order of its menu."""

from __future__ import annotations

from typing import Final

from penstock.console.page import ConsolePage
from penstock.console.pages.audit import AUDIT_FIELDS, show_audit
from penstock.console.pages.broker import show_broker
from penstock.console.pages.brokers import show_brokers
from penstock.console.pages.events import show_events
from penstock.console.pages.features import show_features
from penstock.console.pages.group import show_group
from penstock.console.pages.groups import show_groups
from penstock.console.pages.moves import show_moves, show_plan
from penstock.console.pages.overview import show_overview
from penstock.console.pages.pictures import show_flow, show_layout, show_pictures
from penstock.console.pages.quorum import show_quorum
from penstock.console.pages.record import show_record
from penstock.console.pages.records import RECORD_FIELDS, show_records
from penstock.console.pages.security import show_acls, show_quotas, show_users
from penstock.console.pages.series import show_series
from penstock.console.pages.tail import show_tail
from penstock.console.pages.topic import show_topic
from penstock.console.pages.topics import show_topics
from penstock.console.pages.transactions import show_transaction, show_transactions
from penstock.console.pages.usage import show_usage

_ID: Final = ("id",)
_ONE_RECORD: Final = ("topic", "partition", "offset", "show")
_LISTED: Final = ("filter", "page")

PAGES: Final = (
    ConsolePage("/overview", "Overview", show_overview, "overview.html", menu="Overview"),
    ConsolePage("/brokers", "Brokers", show_brokers, "brokers.html", menu="Brokers"),
    ConsolePage("/broker", "Broker", show_broker, "broker.html", _ID),
    ConsolePage("/topics", "Topics", show_topics, "topics.html", _LISTED, "Topics"),
    ConsolePage("/topic", "Topic", show_topic, "topic.html", ("name",)),
    ConsolePage("/records", "Records", show_records, "records.html", RECORD_FIELDS),
    ConsolePage("/record", "Record", show_record, "record.html", _ONE_RECORD),
    ConsolePage("/usage", "Who reads and writes", show_usage, "usage.html", ("topic",), kept_ms=5_000),
    ConsolePage("/groups", "Groups", show_groups, "groups.html", (*_LISTED, "state"), "Groups"),
    ConsolePage("/group", "Group", show_group, "group.html", _ID),
    ConsolePage(
        "/transactions",
        "Transactions",
        show_transactions,
        "transactions.html",
        (*_LISTED, "state", "open_for"),
        "Transactions",
    ),
    ConsolePage("/transaction", "Transactional id", show_transaction, "transaction.html", _ID),
    ConsolePage("/quorum", "Quorum", show_quorum, "quorum.html", menu="Quorum"),
    ConsolePage("/moves", "Moves", show_moves, "moves.html", menu="Moves"),
    ConsolePage("/plan", "A plan that evens the cluster", show_plan, "plan.html", ("by",), kept_ms=5_000),
    ConsolePage("/acls", "ACLs", show_acls, "acls.html", ("principal", "resource", "page"), "ACLs"),
    ConsolePage("/users", "Users", show_users, "users.html", _LISTED, "Users"),
    ConsolePage("/quotas", "Quotas", show_quotas, "quotas.html", ("page",), "Quotas"),
    ConsolePage("/audit", "Audit log", show_audit, "audit.html", AUDIT_FIELDS, "Audit"),
    ConsolePage("/features", "Feature levels", show_features, "features.html", menu="Features"),
    ConsolePage("/pictures", "Pictures", show_pictures, "pictures.html", menu="Pictures"),
    ConsolePage("/flow", "Flow", show_flow, "flow.html", fields=("topic",)),
    ConsolePage("/layout", "Replicas", show_layout, "layout.html", fields=("topic",)),
    ConsolePage(
        "/events", "Events", show_events, "events.html", fields=("topic", "broker", "group", "page"), menu="Events"
    ),
    ConsolePage("/series", "Lines", show_series, "series.html", fields=("subject", "name")),
    ConsolePage("/tail", "Tail", show_tail, "tail.html", fields=("name",)),
)
