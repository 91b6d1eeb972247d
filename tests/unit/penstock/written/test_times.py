"""Times as people write them, for commands and the console."""

from __future__ import annotations

import pytest

from penstock.written.times import moment_ms

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("0", 0),
        ("1700000000000", 1_700_000_000_000),
        ("2026-01-31T12:00:00Z", 1_769_860_800_000),
        ("1960-01-01T00:00:00Z", 0),
        ("-90s", NOW_MS - 90_000),
        ("-2h", NOW_MS - 7_200_000),
        ("-999999999d", 0),
    ],
)
def test_a_time_is_ms_since_1970(text: str, at_ms: int) -> None:
    assert moment_ms(text, NOW_MS) == at_ms


@pytest.mark.parametrize("text", ["", "soon", "-5", "-5y", "٣", "9" * 20, str(2**63), "2026-13-01", "-1", "--1s"])
def test_another_text_is_no_time(text: str) -> None:
    assert moment_ms(text, NOW_MS) is None
