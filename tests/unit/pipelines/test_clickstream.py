"""Promises about the click-stream: equal seeds are equal, every fault occurs, and the answers are those of the JSON."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime

from examples.pipelines.clicks import (
    DISORDER_MS_MAX,
    DUPLICATE_MS_MAX,
    Answers,
    ClickKind,
    ClickStream,
    answers_json,
)

WINDOW_MS = 300_000


def test_equal_seeds_give_equal_records_and_others_do_not() -> None:
    first = list(ClickStream(1, 500).records())
    assert list(ClickStream(1, 500).records()) == first
    assert list(ClickStream(2, 500).records()) != first


def test_records_arrive_in_order_and_every_fault_occurs() -> None:
    records = list(ClickStream(1, 5_000).records())
    assert [record.timestamp_ms for record in records] == sorted(record.timestamp_ms for record in records)
    kinds = Counter(record.kind for record in records)
    assert set(kinds) == set(ClickKind) and kinds[ClickKind.GOOD] > 4_900
    users = Counter(record.key for record in records).most_common()
    assert users[0][1] > 100 * users[-1][1], "skewed"


def test_kinds_are_what_the_bytes_say() -> None:
    """A plain parser finds the same kinds: an oracle of the oracle."""
    seen: set[str] = set()
    for record in ClickStream(3, 5_000).records():
        assert record.kind is judged(record.value, record.timestamp_ms, seen)


def judged(value: bytes | None, timestamp_ms: int, seen: set[str]) -> ClickKind:
    if value is None:
        return ClickKind.TOMBSTONE
    try:
        event = json.loads(value)
        time_ms = datetime.fromisoformat(event["event_time"]).timestamp() * 1000
        name = event["event_id"]
    except (ValueError, KeyError):
        return ClickKind.MALFORMED
    if timestamp_ms - time_ms > DISORDER_MS_MAX + DUPLICATE_MS_MAX:
        return ClickKind.LATE
    if name in seen:
        return ClickKind.DUPLICATE
    seen.add(name)
    return ClickKind.GOOD


def test_answers_sum_good_events_and_final_windows_end_before_the_watermark() -> None:
    records = list(ClickStream(1, 5_000).records())
    answers = Answers.of(records, WINDOW_MS)
    assert answers.records == len(records)
    good = [record.click for record in records if record.kind is ClickKind.GOOD and record.click]
    assert sum(window.views for window in answers.windows.values()) == sum(click.action == "view" for click in good)
    revenue = sum(click.amount_cents or 0 for click in good)
    assert sum(window.revenue_cents for window in answers.windows.values()) == revenue > 0
    final = answers.final_windows(1_200_000)
    assert 0 < len(final) < len(answers.windows)
    assert max(start for start, _ in final) + WINDOW_MS <= answers.latest_event_ms - 1_200_000
    expected = answers_json(answers, 1_200_000)
    assert expected["records"] == len(records) and len(expected["windows"]) == len(final)
