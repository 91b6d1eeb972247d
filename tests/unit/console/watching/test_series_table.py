"""A table of series: a ring of steps for each, rows that are given up, and numbers that are held over gaps."""

from __future__ import annotations

import pytest

from penstock.console.watching.series_table import SeriesTable


def table(rows_max: int = 2, columns: int = 4) -> SeriesTable[str]:
    found = SeriesTable[str](rows_max=rows_max, columns=columns)
    found.move_to(100)
    return found


def test_a_series_has_a_number_for_each_step_the_oldest_first() -> None:
    series = table()
    for step in range(100, 106):
        series.move_to(step)
        series.set("a", step, step)
    assert series.values("a") == [102, 103, 104, 105]
    assert series.newest("a") == 105


def test_steps_without_a_number_are_empty_even_where_the_ring_had_one() -> None:
    series = table()
    for step in range(100, 104):
        series.move_to(step)
        series.set("a", step, step)
    series.move_to(106)
    assert series.values("a") == [103, None, None, None]
    series.move_to(1_000)
    assert series.values("a") == [None] * 4
    assert series.newest("a") is None


def test_a_step_out_of_the_window_is_dropped() -> None:
    series = table()
    series.set("a", 96, 1)
    series.set("a", 101, 1)
    assert series.values("a") == []
    series.move_to(99)  # older than the newest: nothing changes
    series.set("a", 97, 1)
    assert series.values("a") == [1, None, None, None]


def test_numbers_of_one_step_add_up() -> None:
    series = table()
    series.add("a", 100, 1)
    series.add("a", 100, 2)
    assert series.values("a") == [None, None, None, 3]


def test_a_gauge_is_held_over_a_short_gap_and_not_over_a_long_one() -> None:
    series = table(columns=8)
    series.hold("a", 100, 5, gap_max=2)
    series.move_to(103)
    series.hold("a", 103, 6, gap_max=2)
    assert series.values("a")[-4:] == [5, 5, 5, 6]
    series.move_to(107)
    series.hold("a", 107, 7, gap_max=2)
    assert series.values("a")[-5:] == [6, None, None, None, 7]


def test_a_full_table_leaves_out_new_series_and_gives_them_the_rows_of_silent_ones() -> None:
    series = table()
    series.set("a", 100, 1)
    series.set("b", 100, 1)
    series.set("c", 100, 1)
    assert (series.statistics().rows, series.statistics().left_out) == (2, 1)
    assert series.values("c") == []
    series.move_to(104)
    series.set("b", 104, 2)
    series.move_to(105)
    series.set("c", 105, 3)  # nothing of `a` is in the window any more
    assert series.values("a") == []
    assert series.values("c") == [None, None, None, 3]
    assert series.values("b") == [None, None, 2, None]
    assert series.statistics().left_out == 0


def test_a_forgotten_series_leaves_nothing_to_the_next_one_in_its_row() -> None:
    series = table(rows_max=1)
    series.set("a", 98, 1)
    series.forget("a")
    series.forget("never")
    series.set("b", 100, 2)
    assert series.values("b") == [None, None, None, 2]


@pytest.mark.parametrize(("single", "width"), [(True, 4), (False, 8)])
def test_the_memory_is_that_of_the_rows_in_use(single: bool, width: int) -> None:
    series = SeriesTable[int](rows_max=1_000, columns=720, single=single)
    series.move_to(1)
    assert series.statistics().memory_bytes == 0
    for key in range(10):
        series.set(key, 1, 1)
    assert 720 * width * 10 < series.statistics().memory_bytes < 720 * width * 11
    assert repr(series) == "SeriesTable(10 of 1000 rows, 720 columns)"
