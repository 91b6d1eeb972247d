"""The table of the broker benchmark: ratios pair by pair, the spread beside the median, goals met and missed."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.broker_goals import Comparison, by_pair, print_table, ratios, spread, verdict


def row(system: str, pair: int, rate: int) -> dict[str, Any]:
    return {
        "system": system,
        "nodes": 3,
        "pair": pair,
        "row": "produce",
        "how": "send",
        "bytes": 100,
        "records_per_s": rate,
    }


def test_a_ratio_is_taken_within_a_pair_and_needs_both_sides() -> None:
    rows = [row("penstock", 0, 200), row("kafka", 0, 100), row("penstock", 1, 50), row("kafka", 1, 100)]
    found = by_pair([*rows, row("penstock", 2, 7)])
    key = ("send", 100)
    assert ratios(found["penstock", 3, *key], found["kafka", 3, *key]) == [2.0, 0.5]


def test_a_figure_that_a_pair_has_several_times_is_their_median() -> None:
    found = by_pair([*(row("penstock", 0, rate) for rate in (90, 400, 100)), row("penstock", 1, 7)])
    assert found["penstock", 3, "send", 100] == {0: 100, 1: 7}


def test_the_spread_shows_median_smallest_and_largest() -> None:
    assert spread([3.0, 1.0, 2.0]) == "2 (1-3)"
    assert spread([929_000]) == "929k"
    assert spread([]) == "-"


def test_a_goal_is_met_at_its_bound_and_missed_beyond_it() -> None:
    at_least = Comparison("rate", "send", "send", at_least=1.0)
    at_most = Comparison("time", "p99_ms", "p99_ms", at_most=1.0)
    assert [verdict(at_least, ratio) for ratio in (1.0, 0.99, None)] == ["≥ 1× met", "≥ 1× MISSED", "≥ 1× (no peer)"]
    assert [verdict(at_most, ratio) for ratio in (1.0, 1.01)] == ["≤ 1× met", "≤ 1× MISSED"]


def test_a_table_has_a_block_for_each_peer_that_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([row("penstock", 0, 200), row("kafka-fsync", 0, 100), row("before", 0, 400)], [3])
    text = capsys.readouterr().out
    assert "3 nodes beside kafka-fsync" in text
    assert "3 nodes beside before" in text
    assert "3 nodes beside kafka " not in text
    assert "≥ 0.95× MISSED" in text
