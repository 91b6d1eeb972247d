"""Evens the numbers of partitions that brokers lead, by the order of replicas alone: that copies nothing.

The first replica of each partition is its preferred leader. A replica changes places with the first one where that
brings two brokers nearer to each other, directly or by a path over other brokers (paths.py). Where a broker has too few
partitions with other replicas, its number stays as it is.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

from penstock.balance.layout import ReplicaLayout
from penstock.balance.paths import PathStep, next_path

LOOKS_MAX = 32
"""How many of the partitions that could change their leader in the same way are compared by topic."""


def even_leaders(layout: ReplicaLayout) -> None:
    """Changes orders until no path of changes brings two brokers nearer to each other."""
    if len(layout.takers) >= 2:
        _Leaders(layout).even()


class _Leaders:
    def __init__(self, layout: ReplicaLayout) -> None:
        self._layout = layout
        self._counts: Counter[int] = Counter()
        self._topics: dict[int, Counter[str]] = {broker_id: Counter() for broker_id in layout.takers}
        self._led: dict[int, dict[int, dict[int, None]]] = {broker_id: {} for broker_id in layout.takers}
        """The partitions that a broker leads, by each other broker that could."""
        for place, replicas in enumerate(layout.replicas):
            if replicas[0] in self._led:
                self._count(place, 1)
        for place in layout.movable():
            self._put(place)

    def even(self) -> None:
        """Ends because each path makes the sum of the squares of the counts smaller."""
        while path := next_path(self._counts, self._layout.takers, self._ways):
            for step in path:
                self._change(self._chosen(step), step.target)

    def _ways(self, source: int) -> list[int]:
        found = (broker_id for broker_id, places in self._led[source].items() if places)
        return sorted(found, key=lambda broker_id: (self._counts[broker_id], broker_id))

    def _chosen(self, step: PathStep) -> int:
        """Chooses a partition of the topic that the source leads most of, compared with the target. The partition of
        the step before is not among them: it could have gone to the target at once, and the path would be shorter."""

        def worth(place: int) -> tuple[int, int]:
            topic = self._layout.partitions[place].topic
            return self._topics[step.target][topic] - self._topics[step.source][topic], place

        return min(islice(self._led[step.source][step.target], LOOKS_MAX), key=worth)

    def _change(self, place: int, leader_id: int) -> None:
        before = self._layout.replicas[place]
        for replica in before[1:]:
            self._led[before[0]].get(replica, {}).pop(place, None)
        self._count(place, -1)
        self._layout.lead(place, leader_id)
        self._count(place, 1)
        self._put(place)

    def _put(self, place: int) -> None:
        leader_id, *others = self._layout.replicas[place]
        if leader_id in self._led:
            for replica in others:
                if replica in self._led:
                    self._led[leader_id].setdefault(replica, {})[place] = None

    def _count(self, place: int, change: int) -> None:
        leader_id = self._layout.replicas[place][0]
        self._counts[leader_id] += change
        self._topics[leader_id][self._layout.partitions[place].topic] += change
