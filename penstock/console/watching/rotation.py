"""Takes the things to look at in turn, so that a round's cost is bounded however many there are. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping


class Rotation:
    """The next names in their order, as many as a budget allows; after the last one it begins again."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._last = ""

    def take(self, weights: Mapping[str, int]) -> list[str]:
        """The next names, each at most once. One is taken even if its weight alone is above the budget."""
        names = sorted(weights)
        begin = bisect_right(names, self._last)
        taken: list[str] = []
        left = self._budget
        for name in names[begin:] + names[:begin]:
            left -= weights[name]
            if left < 0 and taken:
                break
            taken.append(name)
        if taken:
            self._last = taken[-1]
        return taken

    def __repr__(self) -> str:
        return f"Rotation({self._budget} a round, after {self._last!r})"
