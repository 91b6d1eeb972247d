"""Promises about ranges, shares and loss."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.spark.planning import DataLossError, PlannedRange, clamp_to_log, pack, share, split
from penstock.types import TopicPartition
from tests.support.amount import usually


def span(lo: int, hi: int, partition: int = 0) -> PlannedRange:
    return PlannedRange("t", "id", partition, lo, hi)


def test_ranges_stay_whole_unless_more_tasks_are_wanted() -> None:
    assert split([span(0, 10), span(5, 5, 1), span(3, 7, 2)]) == [span(0, 10), span(3, 7, 2)]


def test_a_larger_range_gets_more_of_the_tasks() -> None:
    pieces = split([span(0, 90), span(0, 10, 1)], min_partitions=10)
    assert [piece.partition for piece in pieces].count(0) == 9


@settings(max_examples=usually(15, long=40), derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 200)), max_size=5), st.integers(0, 30), st.integers(0, 40))
def test_pieces_cover_every_offset_once(bounds: list[tuple[int, int]], least: int, most: int) -> None:
    ranges = [span(lo, lo + size, number) for number, (lo, size) in enumerate(bounds)]
    pieces = split(ranges, least, most)
    assert sorted((p.partition, o) for p in pieces for o in range(p.lo, p.hi)) == [
        (r.partition, o) for r in ranges for o in range(r.lo, r.hi)
    ]
    assert all(0 < piece.size <= (most or piece.size) for piece in pieces)


def test_sixty_partitions_with_little_in_them_are_a_few_tasks_of_about_one_size() -> None:
    tasks = pack([span(0, 50, number) for number in range(60)], 8_192, 4)
    assert [sum(piece.size for piece in task) for task in tasks] == [750] * 4


def test_a_large_range_has_a_task_of_its_own_and_small_ones_beside_it_are_together() -> None:
    tasks = pack([span(0, 5), span(0, 1000, 1), span(0, 5, 2), span(0, 999, 3)], 100, 3)
    assert tasks == [(span(0, 5), span(0, 5, 2)), (span(0, 1000, 1),), (span(0, 999, 3),)]


@settings(max_examples=usually(20, long=80), derandomize=True, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 200)), max_size=9),
    st.integers(1, 250),
    st.integers(0, 30),
    st.integers(0, 40),
)
def test_packed_tasks_have_every_piece_once_in_order_within_both_limits(
    bounds: list[tuple[int, int]], offsets_max: int, tasks_min: int, cut_to: int
) -> None:
    pieces = split([span(lo, lo + size, number) for number, (lo, size) in enumerate(bounds)], 0, cut_to)
    tasks = pack(pieces, offsets_max, tasks_min)
    assert all(list(task) == [piece for piece in pieces if piece in task] for task in tasks)
    assert sorted(map(str, pieces)) == sorted(str(piece) for task in tasks for piece in task)
    assert all(len(task) == 1 or sum(piece.size for piece in task) <= offsets_max for task in tasks)
    assert len(tasks) >= min(tasks_min, len(pieces))


@settings(max_examples=usually(15, long=60), derandomize=True, deadline=None)
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
        clamp_to_log(span(2, 9), 5, 20, 20, True)
    assert clamp_to_log(span(2, 9), 5, 20, 20, False) == span(5, 9)
    assert clamp_to_log(span(2, 4), 5, 20, 20, False).size == 0


def test_a_log_that_ends_too_early_is_a_loss() -> None:
    with pytest.raises(DataLossError, match="the log now ends at 7"):
        clamp_to_log(span(2, 9), 0, 7, 7, True)
    assert clamp_to_log(span(2, 9), 0, 7, 7, False) == span(2, 7)


def test_an_empty_range_below_the_log_start_is_no_loss() -> None:
    assert clamp_to_log(span(2, 2), 5, 20, 20, True) == span(2, 2)
