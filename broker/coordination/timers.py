"""The timers of one coordinator: what is due, in order, as the time that is given says. No clock of its own.

A timer has a name; setting it again moves it. Not here: the wake-up when the next one is due (wake_up.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

D = TypeVar("D")
_SLACK = 64
"""The timers that were moved which the heap may hold, or else as many as there are timers."""


class Timers(Generic[D]):
    """Timers of what is done with a `D` when one is due."""

    def __init__(self) -> None:
        self._due: dict[Hashable, tuple[int, int, Callable[[D], None]]] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._number = 0

    def set(self, name: Hashable, at_ms: int, action: Callable[[D], None]) -> None:
        """Do `action` at that time instead of whatever that name stood for."""
        self._number += 1
        self._due[name] = at_ms, self._number, action
        heappush(self._heap, (at_ms, self._number, name))  # the number is unique: names are never compared
        if len(self._heap) > 2 * len(self._due) + _SLACK:
            self._heap = [(at, number, key) for key, (at, number, _) in self._due.items()]
            heapify(self._heap)

    def cancel(self, name: Hashable) -> None:
        """Cancels the timer, if it is set."""
        self._due.pop(name, None)

    def due_ms(self, name: Hashable) -> int | None:
        due = self._due.get(name)
        return None if due is None else due[0]

    @property
    def next_ms(self) -> int | None:
        """The time of the first timer; None without one."""
        while self._heap and not self._is_current(self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: int) -> Iterator[Callable[[D], None]]:
        """The actions that are due, one by one: an action may set and cancel timers before the next is taken."""
        while (at_ms := self.next_ms) is not None and at_ms <= now_ms:
            _, _, name = heappop(self._heap)
            yield self._due.pop(name)[2]

    def _is_current(self, entry: tuple[int, int, Hashable]) -> bool:
        due = self._due.get(entry[2])
        return due is not None and due[1] == entry[1]

    def __len__(self) -> int:
        return len(self._due)

    def __repr__(self) -> str:
        return f"Timers({len(self)})"
