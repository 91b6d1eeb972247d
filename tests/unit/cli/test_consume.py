"""How `penstock consume` prints records."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from penstock.cli import consume


class Record(NamedTuple):
    """What is printed of a record."""

    key: bytes | None
    value: bytes | None
    topic: str = "users"
    partition: int = 0
    offset: int = 0
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()


RECORDS = [Record(b"a", b"1"), Record(b"a", None), Record(None, b"")]


@pytest.mark.parametrize(
    ("marker", "print_key", "expected"),
    [
        (b"", False, b"1\n\n\n"),
        (b"", True, b"a\t1\na\t\n\t\n"),
        (b"NULL", False, b"1\nNULL\n\n"),
        (b"NULL", True, b"a\t1\na\tNULL\nNULL\t\n"),
    ],
)
def test_the_marker_is_printed_for_null_and_for_nothing_else(marker: bytes, print_key: bool, expected: bytes) -> None:
    assert consume._lines(RECORDS, marker, print_key=print_key, as_json=False) == expected


def test_json_has_a_null_of_its_own() -> None:
    lines = consume._lines(RECORDS, b"NULL", print_key=False, as_json=True).splitlines()
    assert [(row["key"], row["value"]) for row in map(json.loads, lines)] == [("a", "1"), ("a", None), (None, "")]
