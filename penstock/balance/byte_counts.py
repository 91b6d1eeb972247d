"""Evens the bytes of brokers: in the end each is within a tolerance of the mean, where the sizes permit that.

One step takes bytes from a broker with more to one with fewer, by the move of one replica. Where the numbers of
replicas must stay even, and the two brokers have equal ones, a smaller replica goes the other way in exchange. Each
step makes the sum of the squares smaller, by enough to be worth a copy. The replica is taken that brings the two
nearest to the mean. Not here: the sizes of log dirs within a broker; a broker places its replicas itself.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from penstock.balance.layout import ReplicaLayout

BYTES_TOLERANCE = 0.1
"""Share of the mean by which brokers may differ from it. Closer is not worth a copy: sizes change while it goes on."""
GAIN_SHARE = 0.1
"""The share of the bytes that a step copies which must count, or the step is not taken. The exchange of two replicas of
nearly the same size would copy much and move little."""
COUNTERWEIGHTS_MAX = 8
NEIGHBOURS_MAX = 64
"""How many small replicas are tried in exchange, and how many of about the right size for each."""


class _Step(NamedTuple):
    away: float  # how far from the wanted transfer
    copied: int
    place: int
    back: int | None  # the partition whose replica goes the other way


def even_bytes(layout: ReplicaLayout, tolerance: float, *, keep_counts: bool) -> None:
    """Moves and exchanges until all are within the tolerance, or none is left that is worth a copy."""
    if len(layout.takers) < 2:
        return
    sizes = _Sizes(layout)
    mean = sum(layout.bytes[broker_id] for broker_id in layout.takers) / len(layout.takers)
    while _take_one_step(layout, sizes, mean, tolerance, keep_counts):
        continue


def _take_one_step(layout: ReplicaLayout, sizes: _Sizes, mean: float, tolerance: float, keep_counts: bool) -> bool:
    for heavy, light in _pairs(layout, mean, tolerance):
        step = _best(layout, sizes, heavy, light, mean, keep_counts)
        if step is not None:
            sizes.move(step.place, heavy, light)
            if step.back is not None:
                sizes.move(step.back, light, heavy)
            return True
    return False


def _pairs(layout: ReplicaLayout, mean: float, tolerance: float) -> Iterator[tuple[int, int]]:
    """The pairs of which at least one broker is out of the tolerance, the furthest apart first."""
    by_bytes = sorted(layout.takers, key=lambda broker_id: (layout.bytes[broker_id], broker_id))
    low, high = mean * (1 - tolerance), mean * (1 + tolerance)
    for heavy in reversed(by_bytes):
        for light in by_bytes:
            most, fewest = layout.bytes[heavy], layout.bytes[light]
            if fewest >= most:
                break
            if most > high or fewest < low:
                yield heavy, light


def _best(layout: ReplicaLayout, sizes: _Sizes, heavy: int, light: int, mean: float, keep_counts: bool) -> _Step | None:
    gap = layout.bytes[heavy] - layout.bytes[light]
    wanted = min(layout.bytes[heavy] - mean, mean - layout.bytes[light])
    if wanted <= 0:
        wanted = gap / 2
    found: list[_Step] = []
    for back, weight in _counterweights(layout, sizes, heavy, light, keep_counts):
        for size, place in sizes.near(heavy, wanted + weight):
            moved = size - weight
            is_worth = min(moved, gap - moved) >= max(GAIN_SHARE * (size + weight), 1)
            if not is_worth or light not in layout.targets(place, heavy):
                continue
            found.append(_Step(abs(size - weight - wanted), size + weight, place, back))
            break  # the next ones are further from what is wanted
    return min(found, key=lambda step: (step.away, step.copied, step.place), default=None)


def _counterweights(
    layout: ReplicaLayout, sizes: _Sizes, heavy: int, light: int, keep_counts: bool
) -> Iterator[tuple[int | None, int]]:
    """Replicas that can go the other way, each with its size: none is needed where a move leaves the counts as even as
    they are."""
    if not keep_counts or layout.counts[heavy] > layout.counts[light]:
        yield None, 0
        return
    tried = 0
    for size, place in sizes.smallest(light):
        if heavy in layout.targets(place, light):
            yield place, size
            tried += 1
            if tried == COUNTERWEIGHTS_MAX:
                return


class _Sizes:
    """The replicas of each broker that may move, by size."""

    def __init__(self, layout: ReplicaLayout) -> None:
        self._layout = layout
        self._on: dict[int, list[tuple[int, int]]] = {broker_id: [] for broker_id in layout.takers}
        for place in layout.movable():
            for replica in layout.replicas[place]:
                if replica in self._on:
                    self._on[replica].append((layout.sizes[place], place))
        for sizes in self._on.values():
            sizes.sort()

    def smallest(self, broker_id: int) -> list[tuple[int, int]]:
        return self._on[broker_id][:NEIGHBOURS_MAX]

    def near(self, broker_id: int, wanted: float) -> Iterator[tuple[int, int]]:
        """Sizes and partitions, those nearest to the wanted size first."""
        sizes = self._on[broker_id]
        above = bisect_left(sizes, (wanted, -1))
        below = above - 1
        for _ in range(NEIGHBOURS_MAX):
            is_below = below >= 0 and (above == len(sizes) or wanted - sizes[below][0] <= sizes[above][0] - wanted)
            if is_below:
                yield sizes[below]
                below -= 1
            elif above < len(sizes):
                yield sizes[above]
                above += 1
            else:
                return

    def move(self, place: int, source: int, target: int) -> None:
        entry = (self._layout.sizes[place], place)
        del self._on[source][bisect_left(self._on[source], entry)]
        insort(self._on[target], entry)
        self._layout.move(place, source, target)
