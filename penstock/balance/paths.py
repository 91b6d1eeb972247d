"""Paths of moves that bring two brokers nearer to each other where no direct move may: 1 -> 2, then 2 -> 3.

A broker on the way has as many as before. The shortest path is taken, because each of its moves copies a partition.
Evenness cannot be improved by any series of moves once no path leads from a broker to one that has two fewer (Harvey,
Ladner, Lovász and Tamir, "Semi-matchings for bipartite graphs and load balancing", WADS 2003), as long as moves do not
hinder each other. Partitions with the same replicas may go to the same brokers, so they are looked at as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from penstock.balance.layout import ReplicaLayout


class PathStep(NamedTuple):
    source: int
    target: int


def shortest_path(
    start: int, ways: Callable[[int], Iterable[int]], is_end: Callable[[int], bool]
) -> list[PathStep] | None:
    """The way from `start` over `ways` to the nearest broker that is an end; of equally near ones, to the one found
    first."""
    came_from: dict[int, int] = {start: start}
    queue = [start]
    for broker_id in queue:
        for way in ways(broker_id):
            if way in came_from:
                continue
            came_from[way] = broker_id
            if is_end(way):
                return _steps(came_from, way)
            queue.append(way)
    return None


def _steps(came_from: dict[int, int], end: int) -> list[PathStep]:
    steps: list[PathStep] = []
    while came_from[end] != end:
        steps.append(PathStep(came_from[end], end))
        end = came_from[end]
    return steps[::-1]


def next_path(
    counts: Counter[int], takers: Iterable[int], ways: Callable[[int], Iterable[int]]
) -> list[PathStep] | None:
    """The path from the broker with the most, of those that have a path to a broker with two fewer; None if no broker
    has one."""
    least = min(counts[broker_id] for broker_id in takers)
    for start in sorted(takers, key=lambda broker_id: (-counts[broker_id], broker_id)):
        few = counts[start] - 2
        if few < least:
            return None
        path = shortest_path(start, ways, lambda broker_id, few=few: counts[broker_id] <= few)  # type: ignore[misc]
        if path is not None:
            return path
    return None


class ReplicaPaths:
    """The replicas of each broker that may move, by the set of replicas of their partition."""

    def __init__(self, layout: ReplicaLayout) -> None:
        self._layout = layout
        self._on: dict[int, dict[frozenset[int], dict[int, None]]] = {broker: {} for broker in layout.takers}
        for place in layout.movable():
            self._put(place)

    def even(self) -> None:
        """Ends because each path makes the sum of the squares of the counts smaller."""
        layout = self._layout
        while path := next_path(layout.counts, layout.takers, self._ways):
            if not self._take(path):
                return

    def _ways(self, source: int) -> list[int]:
        """The brokers that some replica of this one may go to."""
        found: set[int] = set()
        for replicas in self._on[source]:
            found.update(self._layout.targets_of(replicas, source))
            if len(found) == len(self._layout.takers) - 1:
                break
        return sorted(found, key=lambda broker_id: (self._layout.counts[broker_id], broker_id))

    def _take(self, path: list[PathStep]) -> bool:
        """False, and nothing is changed, where two steps need the same partition."""
        done: list[tuple[int, PathStep]] = []
        for step in path:
            place = self._place_for(step)
            if place is None:
                for moved, (source, target) in reversed(done):
                    self._move(moved, target, source)
                return False
            self._move(place, *step)
            done.append((place, step))
        return True

    def _place_for(self, step: PathStep) -> int | None:
        """The partition that takes the step: of those that may, one of the topic that the source has most of."""
        counts, layout = self._layout.topic_count, self._layout
        firsts = [
            next(iter(places))
            for replicas, places in self._on[step.source].items()
            if places and step.target in layout.targets_of(replicas, step.source)
        ]

        def worth(place: int) -> tuple[int, int]:
            topic = layout.partitions[place].topic
            return counts(step.target, topic) - counts(step.source, topic), place

        return min(firsts, key=worth, default=None)

    def _move(self, place: int, source: int, target: int) -> None:
        replicas = frozenset(self._layout.replicas[place])
        for replica in replicas & self._on.keys():
            del self._on[replica][replicas][place]
            if not self._on[replica][replicas]:
                del self._on[replica][replicas]
        self._layout.move(place, source, target)
        self._put(place)

    def _put(self, place: int) -> None:
        replicas = frozenset(self._layout.replicas[place])
        for replica in replicas & self._on.keys():
            self._on[replica].setdefault(replicas, {})[place] = None
