"""Promises about ranges, shares and loss."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.spark.planning import DataLossError, PlannedRange, clamp_to_log, share, split
from penstock.types import TopicPartition


def span(lo: int, hi: int, partition: int = 0) -> PlannedRange:
    return PlannedRange("t", "id", partition, lo, hi)


def test_ranges_stay_whole_unless_more_tasks_are_wanted() -> None:
    assert split([span(0, 10), span(5, 5, 1), span(3, 7, 2)]) == [span(0, 10), span(3, 7, 2)]


def test_a_larger_range_gets_more_of_the_tasks() -> None:
    pieces = split([span(0, 90), span(0, 10, 1)], min_partitions=10)
    assert [piece.partition for piece in pieces].count(0) == 9


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 200)), max_size=5), st.integers(0, 30), st.integers(0, 40))
def test_pieces_cover_every_offset_once(bounds: list[tuple[int, int]], least: int, most: int) -> None:
    ranges = [span(lo, lo + size, number) for number, (lo, size) in enumerate(bounds)]
    pieces = split(ranges, least, most)
    assert sorted((p.partition, o) for p in pieces for o in range(p.lo, p.hi)) == [
        (r.partition, o) for r in ranges for o in range(r.lo, r.hi)
    ]
    assert all(0 < piece.size <= (most or piece.size) for piece in pieces)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.dictionaries(st.integers(0, 9), st.integers(0, 1000), max_size=6), st.integers(1, 500))
def test_shares_keep_the_limit_and_starve_nobody(lags: dict[int, int], limit: int) -> None:
    wanted = {TopicPartition("t", number): lag for number, lag in lags.items()}
    shares = share(wanted, limit)
    lagging = [tp for tp, lag in wanted.items() if lag]
    assert set(shares) == set(lagging)
    assert all(1 <= shares[tp] <= wanted[tp] for tp in lagging)
    assert sum(shares.values()) == min(sum(lags.values()), max(limit, len(lagging)))


def test_what_retention_took_is_a_loss() -> None:
    with pytest.raises(DataLossError, match=r"t-0: offsets \[2, 5\) were deleted.*log now starts at 5.*failOnDataLoss"):
        clamp_to_log(span(2, 9), 5, 20, True)
    assert clamp_to_log(span(2, 9), 5, 20, False) == span(5, 9)
    assert clamp_to_log(span(2, 4), 5, 20, False).size == 0


def test_a_log_that_ends_too_early_is_a_loss() -> None:
    with pytest.raises(DataLossError, match="the log now ends at 7"):
        clamp_to_log(span(2, 9), 0, 7, True)
    assert clamp_to_log(span(2, 9), 0, 7, False) == span(2, 7)


def test_an_empty_range_below_the_log_start_is_no_loss() -> None:
    assert clamp_to_log(span(2, 2), 5, 20, True) == span(2, 2)
