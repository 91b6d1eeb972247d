"""Rates and averages are those of the last two windows."""

from __future__ import annotations

import pytest

from penstock.client.metrics.recent_totals import WINDOW_MS, RecentTotals

SECOND = 1_000


def test_a_rate_divides_by_one_window_at_least() -> None:
    counts = {"records": 0}
    recent = RecentTotals()
    recent.look(0, counts)
    counts["records"] = 300
    assert recent.growth(1 * SECOND, counts).rate("records") == 10
    assert recent.growth(60 * SECOND, counts).rate("records") == 5


def test_growth_before_the_last_two_windows_no_longer_counts() -> None:
    counts = {"records": 0, "requests": 0}
    recent = RecentTotals()
    recent.look(0, counts)
    for second in range(1, 121):
        recent.look(second * SECOND, counts)
        counts["records"] += 1_000 if second < 30 else 10
        counts["requests"] += 1
    growth = recent.growth(120 * SECOND, counts)
    assert growth.rate("records") == pytest.approx(10, rel=0.05)
    assert growth.mean("records", "requests") == 10
    assert WINDOW_MS <= growth.span_ms <= 2 * WINDOW_MS


def test_a_client_that_rested_counts_from_when_it_goes_on() -> None:
    counts = {"records": 0}
    recent = RecentTotals()
    recent.look(0, counts)
    counts["records"] = 1_000_000
    hour = 3_600 * SECOND
    recent.look(hour, counts)
    counts["records"] += 600
    assert recent.growth(hour + 30 * SECOND, counts).rate("records") == 20


def test_few_samples_are_kept_however_often_something_is_counted() -> None:
    counts = {"records": 0}
    recent = RecentTotals()
    recent.look(0, counts)
    for at_ms in range(0, 600 * SECOND, 100):
        recent.look(at_ms, counts)
    assert repr(recent) == "RecentTotals(4 samples)"


def test_the_mean_of_nothing_is_zero() -> None:
    assert RecentTotals().growth(5, {"a": 3, "b": 0}).mean("a", "b") == 0
