"""The audit log, where the nodes' lines are shipped to a topic: who did what, the newest first.

The lines are JSON objects, one a record, as a node writes them to `audit.log.location`. They are read as the user who
looks, so the topic's ACLs say who may. What ships them is the operator's (docs/console.md). A record that is no such
line is counted and passed over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.console.page import PageAsked
from penstock.console.pages.records import RECORDS_READ_MAX, RecordFilter, read_newest

AUDIT_FIELDS: Final = ("principal", "api", "outcome", "text", "count")
ROWS_USUAL: Final = 100
ROWS_ASKED_MAX: Final = 500
TEXT_MAX: Final = 4_000
NO_TOPIC: Final = (
    "this console knows no topic with the nodes' audit logs; ship the lines of audit.log.location to one, and name it"
    " by `penstock console --audit-topic TOPIC`"
)


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One line of an audit log; "" for what it does not have."""

    time: str
    node: str
    outcome: str
    principal: str
    host: str
    api: str
    request: str
    """The request as JSON."""
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class AuditView:
    """The newest lines that fit."""

    topic: str
    lines: tuple[AuditLine, ...]
    read: int
    other: int
    """Records that were read and are no lines of an audit log."""
    ended: str
    principal: str
    api: str
    outcome: str
    text: str


async def show_audit(asked: PageAsked) -> AuditView:
    """Reads the newest records of the topic, and keeps the lines that fit."""
    fields, topic = asked.fields, asked.settings.audit_topic
    principal, api = fields.text("principal", ""), fields.text("api", "")
    outcome, text = fields.text("outcome", ""), fields.text("text", "")
    count = fields.number("count", ROWS_USUAL, 1, ROWS_ASKED_MAX)
    if not topic:
        return AuditView("", (), 0, 0, NO_TOPIC, principal, api, outcome, text)
    wanted = RecordFilter(b"", text.encode(), "", b"")
    is_narrow = bool(principal or api or outcome or text)
    found, read, ended = await read_newest(asked, topic, RECORDS_READ_MAX if is_narrow else count, wanted)
    lines, other = [], 0
    for record in found:
        line = parsed_line(record.value, record.partition, record.offset)
        if line is None:
            other += 1
        elif principal in line.principal and api in line.api and outcome in line.outcome:
            lines.append(line)
    lines.sort(key=lambda line: line.time, reverse=True)
    return AuditView(topic, tuple(lines[:count]), read, other, ended, principal, api, outcome, text)


def parsed_line(value: bytes | None, partition: int, offset: int) -> AuditLine | None:
    """The line that a record has; None for another record. Any field may be missing, or be of another kind."""
    try:
        found: Any = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, Mapping) or not isinstance(found.get("outcome"), str):
        return None

    def text(name: str) -> str:
        return str(found.get(name, ""))[:TEXT_MAX]

    request = {name: found[name] for name in ("request", "answer", "errors", "operation", "name") if name in found}
    return AuditLine(
        time=text("time"),
        node=text("node"),
        outcome=text("outcome"),
        principal=text("principal"),
        host=text("host"),
        api=text("api"),
        request=json.dumps(request)[:TEXT_MAX] if request else "",
        partition=partition,
        offset=offset,
    )
