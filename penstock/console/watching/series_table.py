"""Many series of numbers over the last hour, in one array of a fixed size.

A series is a row with a column for each step of time; the columns are a ring. Steps count from the start of the
monotonic clock: step n begins at n × step_ms. A column without a number has NaN. A table takes `rows_max` series; one
that has got no number for the whole window gives up its row to a new one, and without such a row a new one is left out
and counted. Pure. Not here: what the numbers mean (last_hour.py), and labels with calendar time.

Memory: rows are added one by one, so an idle console is small. A full table has rows_max × columns numbers.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from penstock.lazy_dataclass import dataclass

NO_NUMBER = math.nan
ROW_OVERHEAD_BYTES = 200
"""About what the key, its place in the dict and the step of its last number take."""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """`left_out`: series that found no row, now."""

    rows: int
    left_out: int
    memory_bytes: int


class SeriesTable(Generic[K]):
    """Rows by their keys. `single` keeps numbers of 4 bytes, which are exact up to 16 millions, in place of 8."""

    def __init__(self, *, rows_max: int, columns: int, single: bool = False) -> None:
        self._rows_max = rows_max
        self._columns = columns
        self._empty_row = array("f" if single else "d", [NO_NUMBER]) * columns
        self._numbers = array("f" if single else "d")
        self._rows: dict[K, int] = {}
        self._free: list[int] = []
        self._last_steps = array("q")
        """The step of the newest number of each row."""
        self._newest_step: int | None = None
        self._left_out: set[K] = set()
        self._is_swept = False
        """Silent rows were looked for in this step: a walk over all rows, once a step."""

    def move_to(self, step: int) -> None:
        """Makes `step` the newest one; the columns between are empty. An older step changes nothing."""
        newest = self._newest_step
        if newest is not None and step <= newest:
            return
        new = self._columns if newest is None else min(step - newest, self._columns)
        rows = len(self._last_steps)
        emptied = self._empty_row[:1] * rows
        for passed in range(step - new + 1, step + 1):
            self._numbers[passed % self._columns :: self._columns] = emptied
        self._newest_step = step
        self._left_out.clear()
        self._is_swept = False

    def add(self, key: K, step: int, number: float) -> None:
        """Adds to the number of a step in the window; without one there, sets it."""
        at = self._place(key, step)
        if at is not None:
            before = self._numbers[at]
            self._numbers[at] = number if math.isnan(before) else before + number

    def set(self, key: K, step: int, number: float) -> None:
        """Sets the number of a step in the window."""
        at = self._place(key, step)
        if at is not None:
            self._numbers[at] = number

    def hold(self, key: K, step: int, number: float, gap_max: int) -> None:
        """Sets the number, and fills up to `gap_max` empty steps before it with the last one known."""
        row = self._rows.get(key)
        last_step = self._last_steps[row] if row is not None else step
        if 1 < step - last_step <= gap_max + 1 and (held := self.number(key, last_step)) is not None:
            for between in range(last_step + 1, step):
                self.set(key, between, held)
        self.set(key, step, number)

    def number(self, key: K, step: int) -> float | None:
        """The number of one step; None without one."""
        row = self._rows.get(key)
        if row is None or not self._has(step):
            return None
        found = self._numbers[row * self._columns + step % self._columns]
        return None if math.isnan(found) else found

    def newest(self, key: K) -> float | None:
        """The last number that a series got, if it is in the window still."""
        row = self._rows.get(key)
        return None if row is None else self.number(key, self._last_steps[row])

    def values(self, key: K) -> list[float | None]:
        """All columns of a series, the oldest first; empty for a key that has no row."""
        row, newest = self._rows.get(key), self._newest_step
        if row is None or newest is None:
            return []
        begin, first = row * self._columns, (newest + 1) % self._columns
        ring = self._numbers[begin + first : begin + self._columns] + self._numbers[begin : begin + first]
        return [None if math.isnan(number) else number for number in ring]

    def __iter__(self) -> Iterator[K]:
        return iter(self._rows)

    def forget(self, key: K) -> None:
        """Gives up the row of a series."""
        row = self._rows.pop(key, None)
        if row is not None:
            self._numbers[row * self._columns : (row + 1) * self._columns] = self._empty_row
            self._free.append(row)

    def statistics(self) -> TableStatistics:
        """A snapshot."""
        numbers = len(self._numbers) * self._numbers.itemsize
        return TableStatistics(
            rows=len(self._rows),
            left_out=len(self._left_out),
            memory_bytes=numbers + len(self._last_steps) * ROW_OVERHEAD_BYTES,
        )

    def _has(self, step: int) -> bool:
        return self._newest_step is not None and self._newest_step - self._columns < step <= self._newest_step

    def _place(self, key: K, step: int) -> int | None:
        """The index of a number that is about to be set; None for a step out of the window, and without a row."""
        if not self._has(step):
            return None
        row = self._rows.get(key)
        if row is None and (row := self._new_row(key)) is None:
            return None
        self._last_steps[row] = max(self._last_steps[row], step)
        return row * self._columns + step % self._columns

    def _new_row(self, key: K) -> int | None:
        if len(self._rows) >= self._rows_max and not self._is_swept:
            self._is_swept = True
            self._free_silent_rows()
        if self._free:
            row = self._free.pop()
        elif len(self._last_steps) < self._rows_max:
            row = len(self._last_steps)
            self._numbers.extend(self._empty_row)
            self._last_steps.append(0)
        else:
            if len(self._left_out) < self._rows_max:
                self._left_out.add(key)
            return None
        self._last_steps[row] = -1
        self._rows[key] = row
        return row

    def _free_silent_rows(self) -> None:
        silent = [key for key, row in self._rows.items() if not self._has(self._last_steps[row])]
        for key in silent:
            self.forget(key)

    def __repr__(self) -> str:
        return f"SeriesTable({len(self._rows)} of {self._rows_max} rows, {self._columns} columns)"
