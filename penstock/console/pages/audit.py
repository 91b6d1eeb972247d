"""The audit log, where the nodes' lines are shipped to a topic: who did what, on which resource, the newest first.

The records are read as the user who looks, so the topic's ACLs say who may, and bounded as a page of records is. What
ships them is the operator's (docs/console.md). A record that is no line of an audit log is counted and passed over. A
line that was shipped twice, because its shipper began again, is shown once. Not here: the content of a line
(audit_line.py).
"""

from __future__ import annotations

from typing import Final

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.console.audit_line import AuditLine, audit_line
from penstock.console.fields import FieldError, Fields
from penstock.console.page import PageAsked
from penstock.console.pages.records import ROWS_ASKED_MAX, read_newest
from penstock.lazy_dataclass import dataclass
from penstock.written.times import MOMENT_FORMS, moment_ms

AUDIT_FIELDS: Final = ("principal", "api", "outcome", "resource", "text", "before", "count")
ROWS_USUAL: Final = 100
NO_TOPIC: Final = (
    "this console knows no topic with the nodes' audit logs; ship the lines of audit.log.location to one, and name it"
    " by `penstock console --audit-topic TOPIC`"
)


@dataclass(frozen=True, slots=True)
class AuditView:
    """The newest lines that fit."""

    topic: str
    """"" for a console that knows none."""
    lines: tuple[AuditLine, ...] = ()
    read: int = 0
    """Records that were read for it."""
    other: int = 0
    """Records that were read and are no lines of an audit log."""
    repeated: int = 0
    """Lines that fit, and were shipped before."""
    ended: str = NO_TOPIC
    has_older: bool = False
    """The topic has records older than those that were read."""


class AuditFilter:
    """The texts that a line must have, in letters of either case. It counts the records that are no rows."""

    def __init__(self, fields: Fields) -> None:
        self._principal, self._api, self._outcome, self._resource = (
            fields.text(name, "").casefold() for name in ("principal", "api", "outcome", "resource")
        )
        self._text = fields.text("text", "").encode()
        self._seen: set[bytes] = set()
        self.other = self.repeated = 0

    @property
    def is_empty(self) -> bool:
        return not (self._principal or self._api or self._outcome or self._resource or self._text)

    def takes(self, record: ConsumerRecord) -> bool:
        """True for a line with all of it, the first time that it comes."""
        line, value = audit_line(record), record.value or b""
        if line is None:
            self.other += 1
            return False
        if not (self._text in value and self._has_all(line)):
            return False
        if value in self._seen:
            self.repeated += 1
            return False
        self._seen.add(value)
        return True

    def _has_all(self, line: AuditLine) -> bool:
        return (
            self._principal in line.principal.casefold()
            and self._api in line.api.casefold()
            and self._outcome in line.outcome.casefold()
            and (not self._resource or any(self._resource in one.casefold() for one in line.resources))
        )

    def __repr__(self) -> str:
        return f"AuditFilter({len(self._seen)} lines, {self.other} others)"


async def show_audit(asked: PageAsked) -> AuditView:
    """Reads the newest records of the topic, or the newest before a time, and keeps the lines that fit."""
    fields, topic = asked.fields, asked.settings.audit_topic
    count = fields.number("count", ROWS_USUAL, 1, ROWS_ASKED_MAX)
    before_ms = moment_ms(fields.text("before"), asked.wall_ms) if fields.has("before") else None
    if fields.has("before") and before_ms is None:
        raise FieldError("before", f"must be {MOMENT_FORMS}")
    if not topic:
        return AuditView("")
    wanted = AuditFilter(fields)
    found = await read_newest(asked, topic, count, wanted, before_ms)
    lines = [line.as_row() for line in map(audit_line, found.records) if line is not None]
    return AuditView(
        topic=topic,
        lines=tuple(sorted(lines, key=lambda line: line.time_ms, reverse=True)),
        read=found.read,
        other=wanted.other,
        repeated=wanted.repeated,
        ended=found.ended,
        has_older=found.has_older,
    )
