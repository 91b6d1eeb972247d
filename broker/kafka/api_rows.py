"""The table of the APIs that this node serves in Kafka's protocol: one row each.

A row is advertised as it stands here (ApiVersions, and the page for users), so it stands here when it works. A range
may be advertised from a lower version than is served: some clients turn features on only by an old version in the
range (KAFKA-18659). Not here: what a row has (api_row.py), the plans (apis/), the messages (schemas/).
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.kafka.api_row import ApiRow
from broker.kafka.apis.admin.rows import admin_rows
from broker.kafka.apis.api_versions import api_versions_row
from broker.kafka.apis.authentication.rows import authentication_rows
from broker.kafka.apis.groups.rows import group_rows
from broker.kafka.apis.producer_rows import producer_rows
from broker.kafka.apis.reading.rows import reading_rows
from broker.kafka.apis.transactions.rows import transaction_rows
from broker.kafka.parts import DoorParts


def api_rows(parts: DoorParts) -> Mapping[int, ApiRow]:
    """The rows by key. A new API gets its row here."""
    rows: list[ApiRow] = [*producer_rows(parts), *reading_rows(parts), *group_rows(parts), *transaction_rows(parts)]
    rows += [*admin_rows(parts), *authentication_rows()]
    rows.append(api_versions_row(rows, parts.software, lambda: parts.image().offset))
    return {row.key: row for row in rows}
