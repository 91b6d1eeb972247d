"""Lines of the audit log: who, what and on which resources; and records that are no line, or were made to mislead."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.console.audit_line import (
    LINE_BYTES_MAX,
    NAME_LETTERS_MAX,
    NAMES_SHOWN_MAX,
    REQUEST_LETTERS_MAX,
    AuditLine,
    audit_line,
)

LINE = {
    "time": "2026-11-26T22:05:58.001Z",
    "node": 1,
    "outcome": "done",
    "principal": "User:anna",
    "host": "10.0.0.7",
    "api": "AlterConfigs",
    "request": {
        "resources": [
            {"resource_name": "orders", "changes": [{"key": "retention.ms", "operation": "SET", "value": "60000"}]}
        ]
    },
    "answer": {"resources": [{"resource_type": "topic", "resource_name": "orders"}], "metadata_offset": 9},
}


def parsed(value: bytes | None) -> AuditLine | None:
    return audit_line(ConsumerRecord("audit", 3, 4, 1_000, 0, None, value, ()))


def line(**more: Any) -> AuditLine:
    found = parsed(json.dumps({**LINE, **more}).encode())
    assert found is not None
    return found


def test_a_change_of_a_configuration_says_who_changed_what() -> None:
    found = line()
    assert (found.time_ms, found.node, found.principal, found.host) == (1_795_730_758_001, "1", "User:anna", "10.0.0.7")
    assert (found.api, found.resources, found.outcome, found.is_good) == ("AlterConfigs", ("orders",), "done", True)
    assert '"retention.ms"' in found.request and '"60000"' in found.request
    assert (found.partition, found.offset) == (3, 4)


@pytest.mark.parametrize(
    ("more", "resources"),
    [
        (
            {"request": {"topic_ids": ["Ew"]}, "answer": {"topics": [{"name": "orders", "topic_id": "Ew"}]}},
            ("Ew", "orders"),
        ),
        ({"request": {"group_ids": ["a", "b"]}}, ("a", "b", "orders")),
        (
            {"request": {"group_id": "g", "partitions": [{"partition": {"topic": "t", "partition": 0}}]}},
            ("g", "t", "orders"),
        ),
        ({"request": {"alterations": [{"entity": {"user": "reports"}}]}, "answer": None}, ("reports",)),
        ({"request": {"broker_id": 3}, "answer": None}, ("3",)),
        ({"request": None, "answer": None, "operation": "Write", "resource": "topic", "name": "orders"}, ("orders",)),
    ],
)
def test_resources_are_the_names_of_the_request_the_answer_or_the_refusal(
    more: dict[str, Any], resources: tuple[str, ...]
) -> None:
    assert line(**more).resources == resources


def test_a_refusal_and_a_failure_say_why() -> None:
    refused = json.dumps({**{k: LINE[k] for k in ("principal", "api")}, "outcome": "refused", "operation": "Write"})
    found = parsed(refused.encode())
    assert found is not None
    assert (found.request, found.is_good, found.host, found.time_ms) == ("operation Write", False, "", 1_000)
    assert line(outcome="failed", errors={"SECURITY_DISABLED": 1, "X": 2}).errors == "SECURITY_DISABLED, X"


@pytest.mark.parametrize(
    "value",
    [
        *(None, b"", b"\xff", b"[" * 100_000, b"{}", b'"done"', b"[]"),
        b'{"outcome": "done"}',
        b'{"outcome": 1, "principal": "a", "api": "b"}',
        json.dumps({**LINE, "more": "x" * LINE_BYTES_MAX}).encode(),
    ],
)
def test_another_record_is_no_line(value: bytes | None) -> None:
    assert parsed(value) is None


def test_odd_and_hostile_fields_are_plain_and_cut() -> None:
    deep: Any = {"name": "inside"}
    for _ in range(100):
        deep = {"more": deep}
    odd = line(
        principal="\u202e\ud800" + "x" * 10_000,
        host=["y" * 10_000],
        node={"a": None},
        time="once",
        request={"name": [None, "a\nb", float("nan")], "deep": deep},
        answer=None,
    )
    assert odd.principal.startswith("\\u202e\\ud800xx") and odd.principal.endswith("x…")
    assert len(odd.host) == NAME_LETTERS_MAX + 1 and odd.node == "{'a': None}"
    assert odd.time_ms == 1_000 and odd.resources == ("a\\nb",)
    assert len(odd.request) <= REQUEST_LETTERS_MAX + 1


def test_a_row_has_the_first_names_and_counts_the_others() -> None:
    row = line(request={"group_ids": [f"g{number}" for number in range(20)]}, answer=None).as_row()
    assert row.resources == tuple(f"g{number}" for number in range(NAMES_SHOWN_MAX))
    assert row.more_resources == 20 - NAMES_SHOWN_MAX
