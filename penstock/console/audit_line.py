"""Reads a record as a line of a node's audit log: who did what, from where, on which resources, and how it ended. Pure.

    {"time":"2026-11-26T22:05:58.001Z","node":1,"outcome":"done","principal":"User:admin","host":"10.0.0.7",
     "api":"CreateTopics","request":{"topics":[{"name":"orders","partitions":3}]},"answer":{…}}

The record comes from a topic, so anybody with the right to write there may have made it: every field may be missing or
be of another kind, and texts are made plain and cut. A line has an outcome, a principal and an API, which are texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.lazy_dataclass import dataclass
from penstock.plain_text import one_line
from penstock.written.times import time_ms

NAME_LETTERS_MAX: Final = 300
"""The nodes cut names at 256 letters."""
REQUEST_LETTERS_MAX: Final = 600
"""The record itself has the whole request."""
LINE_BYTES_MAX: Final = 1024 * 1024
"""A longer record is no line: topics take none by default, and parsed JSON may take many times its size."""
NAMES_MAX: Final = 2_000
"""Names of one line; the nodes write no more values of a request."""
NAMES_SHOWN_MAX: Final = 8
DEPTH_MAX: Final = 12
"""Levels of a request in which names are looked for; the nodes write half as many."""
NAMING: Final = frozenset(
    [
        *("name", "topic", "resource_name", "group_id", "group_ids", "topic_ids", "transactional_id"),
        *("user", "client_id", "ip", "broker_id", "voter_id", "controller_id"),
    ]
)
"""The keys of requests and answers that name what is acted on."""
SHOWN_KEYS: Final = ("request", "operation", "mechanism", "why", "left_out")
"""The keys that say more about the act, the request first."""
GOOD: Final = ("done", "checked", "logged in")


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One line, fit to be shown; "" for what it does not have."""

    time_ms: int
    """The node's time; that of the record where the line has none."""
    node: str
    principal: str
    host: str
    api: str
    resources: tuple[str, ...]
    """Every name in the request, the answer or the refusal, each once."""
    outcome: str
    is_good: bool
    errors: str
    request: str
    """The request as JSON, and what a line of a refusal or a log-in has in its place; the beginning of a long one."""
    partition: int
    offset: int
    more_resources: int = 0
    """The number of further names."""

    def as_row(self) -> AuditLine:
        """The line with the first names alone."""
        first = self.resources[:NAMES_SHOWN_MAX]
        return replace(self, resources=first, more_resources=len(self.resources) - len(first))


def audit_line(record: ConsumerRecord) -> AuditLine | None:
    """The line that a record has; None for another record."""
    value = record.value or b""
    if len(value) > LINE_BYTES_MAX:
        return None
    try:
        line: Any = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict) or not all(isinstance(line.get(key), str) for key in ("outcome", "principal", "api")):
        return None
    at_ms = time_ms(line["time"]) if isinstance(line.get("time"), str) else None
    errors = line.get("errors", line.get("error", ""))
    names = _names([{"name": line.get("name")}, line.get("request"), line.get("answer")], DEPTH_MAX)
    return AuditLine(
        time_ms=record.timestamp_ms if at_ms is None else at_ms,
        node=_shown(line.get("node", "")),
        principal=_shown(line["principal"]),
        host=_shown(line.get("host", "")),
        api=_shown(line["api"]),
        resources=tuple(dict.fromkeys(islice(names, NAMES_MAX))),
        outcome=_shown(line["outcome"]),
        is_good=line["outcome"] in GOOD,
        errors=_shown(", ".join(errors) if isinstance(errors, dict) else errors),
        request=_request(line),
        partition=record.partition,
        offset=record.offset,
    )


def _names(part: Any, depth: int) -> Iterator[str]:
    """The names in a part of a line, in its order."""
    if depth == 0:
        return
    if isinstance(part, list):
        for one in part:
            yield from _names(one, depth - 1)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key in NAMING:
                for one in value if isinstance(value, list) else (value,):
                    if isinstance(one, str | int) and one != "":
                        yield _shown(one)
            yield from _names(value, depth - 1)


def _request(line: dict[str, Any]) -> str:
    parts = []
    for key in SHOWN_KEYS:
        if key in line:
            value = line[key]
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            parts.append(text if key == "request" else f"{key} {text}")
    return _shown("; ".join(parts), REQUEST_LETTERS_MAX)


def _shown(value: object, letters_max: int = NAME_LETTERS_MAX) -> str:
    text = str(value)
    return one_line(text) if len(text) <= letters_max else f"{one_line(text[:letters_max])}…"
