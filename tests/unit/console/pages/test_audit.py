"""The page of the audit log: the lines that fit, the newest first; what is no line, and what came twice, is counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Self

import pytest

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.clock import ManualClock
from penstock.console.cluster_link import ClusterLink
from penstock.console.fields import FieldError, Fields
from penstock.console.page import PageAsked
from penstock.console.pages.audit import NO_TOPIC, AuditView, show_audit
from penstock.console.rendering import template_environment
from penstock.console.settings import ConsoleSettings
from penstock.types import TopicPartition
from tests.support.console_pages import WALL_MS, view_of

SETTINGS = ConsoleSettings(bootstrap="fake:1", origins=("http://127.0.0.1:1",), audit_topic="audit")
AT = TopicPartition("audit", 0)
SCRIPT = "<script>alert(1)</script>"
MINUTE_MS = 60_000
START_MS = WALL_MS - 3_600_000


def line(minute: int, principal: str = "User:anna", api: str = "AlterConfigs", **more: Any) -> bytes:
    time = f"2027-01-15T07:{minute:02}:00.000Z"
    request = {"resources": [{"resource_name": "orders"}]}
    outcome = {"time": time, "node": 1, "outcome": "done", "principal": principal, "host": "10.0.0.7"}
    return json.dumps({**outcome, "api": api, "request": request, **more}).encode()


class FakeConsumer:
    """Reads one partition, in which a record was written each minute."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self.values, self.at = values, 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        return None

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        assert topic == "audit"
        return [AT]

    async def assign(self, partitions: Sequence[TopicPartition]) -> None:
        assert list(partitions) == [AT]

    async def end_offsets(self, partitions: object) -> dict[TopicPartition, int]:
        return {AT: len(self.values)}

    async def beginning_offsets(self, partitions: object) -> dict[TopicPartition, int]:
        return {AT: 0}

    async def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        later = [self.record(n) for n in range(len(self.values)) if self.record(n).timestamp_ms >= times[AT]]
        return {AT: later[0] if later else None}

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        self.at = offset

    async def position(self, partition: TopicPartition) -> ConsumerRecord:
        return self.record(self.at)

    async def poll(self, *, timeout_ms: int, max_records: int) -> list[ConsumerRecord]:
        first, self.at = self.at, min(self.at + max_records, len(self.values))
        return [self.record(offset) for offset in range(first, self.at)]

    def record(self, offset: int) -> ConsumerRecord:
        value = self.values[offset] if offset < len(self.values) else None
        return ConsumerRecord("audit", 0, offset, START_MS + offset * MINUTE_MS, 0, None, value, ())


class FakeReadingLink(ClusterLink):
    """A way to that partition."""

    def __init__(self, values: Sequence[bytes]) -> None:
        super().__init__("fake:1", {}, ManualClock())
        self._values = values

    def consumer(self, **options: Any) -> Any:
        return FakeConsumer(self._values)


def ask(values: Sequence[bytes], **fields: str) -> AuditView:
    return asyncio.run(show_audit(PageAsked(FakeReadingLink(values), Fields(fields), SETTINGS, WALL_MS)))


VALUES = (
    line(2),
    line(1, "User:ben"),
    line(3, api="DeleteTopics", request={"topic_ids": ["x"]}, answer={"topics": [{"name": "views"}]}),
    line(4, outcome="failed", errors={"POLICY_VIOLATION": 1}),
    b"no line",
    line(2),
)


def test_lines_are_shown_by_their_own_times_the_newest_first_and_each_once() -> None:
    view = ask(VALUES)
    assert [(one.offset, one.principal) for one in view.lines] == [
        (3, "User:anna"),
        (2, "User:anna"),
        (0, "User:anna"),
        (1, "User:ben"),
    ]
    assert (view.read, view.other, view.repeated, view.has_older) == (6, 1, 1, False)


@pytest.mark.parametrize(
    ("fields", "offsets"),
    [
        ({"principal": "BEN"}, [1]),
        ({"api": "deletetop"}, [2]),
        ({"resource": "views"}, [2]),
        ({"resource": "order"}, [3, 0, 1]),
        ({"outcome": "failed"}, [3]),
        ({"text": "POLICY_VIOLATION"}, [3]),
        ({"principal": "anna", "api": "Alter", "resource": "orders"}, [3, 0]),
        ({"resource": "nobody's"}, []),
    ],
)
def test_a_line_has_every_text_that_was_asked_for(fields: dict[str, str], offsets: list[int]) -> None:
    assert [one.offset for one in ask(VALUES, **fields).lines] == offsets


def test_a_page_is_bounded_and_older_lines_are_before_a_time() -> None:
    many = [line(minute) for minute in range(40)]
    newest = ask(many, count="10")
    assert [one.offset for one in newest.lines] == list(range(39, 29, -1))
    assert (newest.read, newest.has_older, newest.ended) == (10, True, "10 rows were asked for")
    older = ask(many, count="10", before=str(START_MS + 30 * MINUTE_MS))
    assert [one.offset for one in older.lines] == list(range(29, 19, -1))
    assert ask(many, before="-60m").lines == ()
    for name, value in (("before", "soon"), ("count", "501")):
        with pytest.raises(FieldError, match=f"^{name}: must be"):
            ask(many, **{name: value})


def test_a_filter_reads_from_the_end_backwards_but_not_without_end() -> None:
    far = [line(0, "User:zoe"), *[b"no line"] * 21_000]
    view = ask([*far, line(59, "User:zoe"), *[line(1)] * 3_000], principal="zoe")
    assert ([one.offset for one in view.lines], view.has_older) == ([21_001], True)
    assert view.read >= 20_000 and "ask for a narrower part" in view.ended
    enough = ask([*far, line(59, "User:zoe"), *[line(1)] * 3_000], principal="zoe", count="1")
    assert (len(enough.lines), enough.ended) == (1, "1 rows were asked for") and enough.read < 8_000


def test_a_console_without_the_topic_says_how_to_have_one() -> None:
    assert view_of(show_audit, None) == AuditView("", ended=NO_TOPIC)
    assert "--audit-topic TOPIC" in shown(view_of(show_audit, None))


def test_hostile_text_is_escaped() -> None:
    text = shown(ask([line(1, SCRIPT, SCRIPT, outcome=SCRIPT, errors=SCRIPT, host=SCRIPT, request={"name": SCRIPT})]))
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 7 and "<script" not in text


def shown(view: AuditView) -> str:
    """The page, as a browser gets it."""
    return (
        template_environment()
        .get_template("audit.html")
        .render(
            menu=[], here="/audit", user="", title="Audit log", view=view, fields={}, settings=SETTINGS, wall_ms=WALL_MS
        )
    )
