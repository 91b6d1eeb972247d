"""Lines of the audit log as the page takes them: also what is no line, and what somebody has put there to mislead."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.console.page import PageAsked
from penstock.console.pages import audit
from penstock.console.pages.audit import NO_TOPIC, TEXT_MAX, parsed_line, show_audit
from penstock.console.pages.records import RecordFilter
from penstock.console.settings import ConsoleSettings
from tests.support.console_pages import view_of

LINE = {
    "time": "2026-11-26T22:05:58.001Z",
    "node": 1,
    "outcome": "done",
    "principal": "User:anna",
    "host": "10.0.0.7",
    "api": "AlterConfigs",
    "request": {"resources": [{"name": "orders"}]},
}
SETTINGS = ConsoleSettings(bootstrap="fake:1", origins=("http://127.0.0.1:1",), audit_topic="audit")


def record(offset: int, value: bytes) -> ConsumerRecord:
    return ConsumerRecord("audit", 0, offset, 0, 0, None, value, ())


def line(**more: Any) -> bytes:
    return json.dumps({**LINE, **more}).encode()


def test_the_lines_that_fit_are_shown_the_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_newest(
        asked: PageAsked, topic: str, count: int, wanted: RecordFilter
    ) -> tuple[list[ConsumerRecord], int, str]:
        values = [line(time="1"), line(time="3"), line(time="2", principal="User:ben"), b"no line", b"[]"]
        return [record(offset, value) for offset, value in enumerate(values)], 5, "there were no more records"

    monkeypatch.setattr(audit, "read_newest", read_newest)
    view = view_of(show_audit, None, settings=SETTINGS, principal="anna")
    assert [(one.time, one.offset) for one in view.lines] == [("3", 1), ("1", 0)]
    assert (view.other, view.read) == (2, 5) and '"orders"' in view.lines[0].request


def test_a_console_without_the_topic_says_how_to_have_one() -> None:
    view = view_of(show_audit, None)
    assert (view.ended, view.lines) == (NO_TOPIC, ())


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"[" * 100_000, b"{}", b'{"outcome": 1}', b'"done"'])
def test_a_record_that_is_no_line_is_none(value: bytes | None) -> None:
    assert parsed_line(value, 0, 0) is None


def test_a_line_of_odd_fields_is_cut_and_is_text() -> None:
    odd = parsed_line(line(principal=["x"] * 10_000, node={"a": None}, api=None, request="y" * 10_000), 3, 4)
    assert odd is not None
    assert len(odd.principal) == len(odd.request) == TEXT_MAX
    assert (odd.node, odd.api, odd.partition, odd.offset) == ("{'a': None}", "None", 3, 4)
