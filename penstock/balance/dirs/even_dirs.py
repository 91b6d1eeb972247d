"""Evens the log dirs of a broker step by step: the move, or else the exchange, that brings two of them nearest to the
mean.

A step is taken only if a tenth of what it copies counts (GAIN_SHARE). Large replicas go first by themselves, so the
moves are few; what turns out not to be needed is taken back. Not here: whether fewer moves do (fewest_dir_moves.py).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import NamedTuple

from penstock.balance.byte_counts import GAIN_SHARE
from penstock.balance.dirs.dir_layout import DirLayout

STEPS_OF_A_REPLICA_MAX = 4
"""The most steps of one replica, on average. Each step makes the dirs more even, so the steps end anyway; this bounds
their number."""
EXCHANGED_MAX = 64
"""How many of the smallest replicas are tried in exchange."""


class _Step(NamedTuple):
    away: float  # how far from the wanted transfer
    copied: int
    replica: int
    back: int | None  # the replica that goes the other way


def even_dirs(layout: DirLayout) -> None:
    """Moves and exchanges until the dirs are even, or none is left that is worth a copy; none is without gain."""
    weights = _Weights(layout)
    for _ in range(STEPS_OF_A_REPLICA_MAX * len(layout.weights)):
        if layout.is_even or not _take_one_step(layout, weights):
            break
    take_back_needless(layout)


def take_back_needless(layout: DirLayout) -> None:
    """Each replica stays at home without which the dirs are even, too; or, where they are not, no less even."""
    is_even, changed = layout.is_even, True
    while changed:
        changed = False
        for replica in sorted(layout.moved, key=lambda replica: layout.weights[replica]):
            before, target = layout.squares, layout.at[replica]
            layout.move(replica, layout.homes[replica])
            if layout.is_even if is_even else layout.squares <= before:
                changed = True
            else:
                layout.move(replica, target)


def _take_one_step(layout: DirLayout, weights: _Weights) -> bool:
    for find in (_best_move, _best_exchange):
        for heavy, light in _dir_pairs(layout):
            step = find(layout, weights, heavy, light)
            if step is not None:
                weights.move(step.replica, light)
                if step.back is not None:
                    weights.move(step.back, heavy)
                return True
    return False


def _dir_pairs(layout: DirLayout) -> Iterator[tuple[int, int]]:
    """The pairs of which at least one is not within the tolerance, the furthest apart first."""
    by_load = sorted(range(len(layout.loads)), key=lambda log_dir: (layout.loads[log_dir], log_dir))
    for heavy in reversed(by_load):
        for light in by_load:
            most, fewest = layout.loads[heavy], layout.loads[light]
            if fewest >= most:
                break
            if most > layout.high or fewest < layout.low:
                yield heavy, light


def _wanted(layout: DirLayout, heavy: int, light: int) -> float:
    wanted = min(layout.loads[heavy] - layout.mean, layout.mean - layout.loads[light])
    return wanted if wanted > 0 else (layout.loads[heavy] - layout.loads[light]) / 2


def _best_move(layout: DirLayout, weights: _Weights, heavy: int, light: int) -> _Step | None:
    gap, wanted = layout.loads[heavy] - layout.loads[light], _wanted(layout, heavy, light)
    found = weights.nearest(heavy, light, wanted, 0, gap / (1 + GAIN_SHARE))
    return None if found is None else _Step(abs(found[0] - wanted), *found, None)


def _best_exchange(layout: DirLayout, weights: _Weights, heavy: int, light: int) -> _Step | None:
    gap, wanted = layout.loads[heavy] - layout.loads[light], _wanted(layout, heavy, light)
    found: list[_Step] = []
    for back, replica in weights.smallest(light):
        if not layout.fits(replica, heavy):
            continue
        least = back * (1 + GAIN_SHARE) / (1 - GAIN_SHARE)
        most = (gap + back * (1 - GAIN_SHARE)) / (1 + GAIN_SHARE)
        forth = weights.nearest(heavy, light, wanted + back, least, most)
        if forth is not None:
            found.append(_Step(abs(forth[0] - back - wanted), forth[0] + back, forth[1], replica))
    return min(found, key=lambda step: (step.away, step.copied, step.replica), default=None)


class _Weights:
    """The replicas of each log dir that may move, by weight."""

    def __init__(self, layout: DirLayout) -> None:
        self._layout = layout
        self._on: list[list[tuple[int, int]]] = [[] for _ in layout.paths]
        for replica, log_dir in enumerate(layout.at):
            self._on[log_dir].append((layout.weights[replica], replica))
        for weights in self._on:
            weights.sort()

    def smallest(self, log_dir: int) -> list[tuple[int, int]]:
        return self._on[log_dir][:EXCHANGED_MAX]

    def nearest(self, source: int, target: int, wanted: float, least: float, most: float) -> tuple[int, int] | None:
        """The weight and the replica nearest to the wanted weight that fits, from `least` to `most`."""
        weights, room = self._on[source], self._layout.room[target]
        most = most if room is None else min(most, room)
        end = bisect_right(weights, (most, len(self._layout.weights)))
        begin = bisect_left(weights, (least, -1))
        at = bisect_left(weights, (wanted, -1))
        near = {min(max(place, begin), end - 1) for place in (at - 1, at)} if begin < end else set()
        return min((weights[place] for place in near), key=lambda each: (abs(each[0] - wanted), each), default=None)

    def move(self, replica: int, target: int) -> None:
        entry = (self._layout.weights[replica], replica)
        source = self._on[self._layout.at[replica]]
        del source[bisect_left(source, entry)]
        insort(self._on[target], entry)
        self._layout.move(replica, target)
