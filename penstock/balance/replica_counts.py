"""Evens the numbers of replicas: in the end two brokers differ by one at most, where the racks permit that.

Most moves are direct, from a broker with too many to one with too few. Without racks there is always one: of the more
partitions that a broker has, at least one is not on the broker with fewer. Each such move brings every broker that is
not yet even one nearer, so no plan has fewer. The replica that moves belongs to the topic of which its broker has the
largest surplus over the brokers that take: so a broker that joins gets its share of every topic.

Where racks forbid the direct move, a path of moves may do it (paths.py): 1 -> 2 and 2 -> 3 take one from 1 to 3.
"""

from __future__ import annotations

from collections import Counter, deque
from heapq import heapify, heappop, heappush

from penstock.balance.layout import ReplicaLayout
from penstock.balance.paths import ReplicaPaths


def even_replicas(layout: ReplicaLayout) -> None:
    """Moves until no move, and no path of moves, brings two brokers nearer to each other."""
    if len(layout.takers) < 2:
        return
    _direct_moves(layout)
    counts = [layout.counts[broker_id] for broker_id in layout.takers]
    if max(counts) - min(counts) > 1:
        ReplicaPaths(layout).even()


def _direct_moves(layout: ReplicaLayout) -> None:
    least = sum(layout.counts[broker_id] for broker_id in layout.takers) // len(layout.takers)
    donors = {broker_id: None for broker_id in layout.takers if layout.counts[broker_id] > least}
    received = _Received(layout, tuple(broker_id for broker_id in layout.takers if broker_id not in donors))
    by_donor: dict[int, _Replicas] = {}
    on = _replicas_by_broker(layout, donors)
    while donors:
        donor = max(donors, key=lambda broker_id: (layout.counts[broker_id], -broker_id))
        under = _receivers(layout, least, layout.counts[donor])
        if not under:
            return
        replicas = by_donor.get(donor)
        if replicas is None:
            replicas = by_donor[donor] = _Replicas(layout, donor, on.pop(donor, {}), received)
        if not replicas.give_one(under):
            del donors[donor]  # what is left may need a path


def _receivers(layout: ReplicaLayout, least: int, most: int) -> frozenset[int]:
    """The brokers below the smaller of the two even numbers. If no broker is below it, the brokers at it, as long as
    one has more than the larger."""
    under = frozenset(broker_id for broker_id in layout.takers if layout.counts[broker_id] < least)
    if under and most > least:
        return under
    if most > least + 1:
        return frozenset(broker_id for broker_id in layout.takers if layout.counts[broker_id] == least)
    return frozenset()


def _replicas_by_broker(layout: ReplicaLayout, brokers: dict[int, None]) -> dict[int, dict[str, deque[int]]]:
    found: dict[int, dict[str, deque[int]]] = {broker_id: {} for broker_id in brokers}
    for place in layout.movable():
        topic = layout.partitions[place].topic
        for replica in layout.replicas[place]:
            if replica in found:
                found[replica].setdefault(topic, deque()).append(place)
    return found


class _Received:
    """How many replicas of each topic the brokers have that take."""

    def __init__(self, layout: ReplicaLayout, brokers: tuple[int, ...]) -> None:
        self.brokers = max(len(brokers), 1)
        self.topics: Counter[str] = Counter()
        for broker_id in brokers:
            self.topics.update(layout.topic_counts.get(broker_id, {}))


class _Replicas:
    """The replicas that one broker may give. A replica that no taking broker may have is not looked at again."""

    def __init__(self, layout: ReplicaLayout, donor: int, places: dict[str, deque[int]], received: _Received) -> None:
        self._layout = layout
        self._donor = donor
        self._places = places
        self._received = received
        self._topics = [(self._worth(topic), topic) for topic in places]
        """A heap. A number in it may be too small, because more of the topic was received; never too large."""
        heapify(self._topics)

    def give_one(self, under: frozenset[int]) -> bool:
        """False if none of the replicas that are left may go to one of these."""
        while self._topics:
            worth, topic = heappop(self._topics)
            if worth < self._worth(topic):
                heappush(self._topics, (self._worth(topic), topic))
                continue
            places = self._places[topic]
            while places:
                place = places.popleft()
                targets = [b for b in self._layout.targets(place, self._donor) if b in under]
                if targets:
                    self._give(place, topic, targets)
                    return True
        return False

    def _give(self, place: int, topic: str, targets: list[int]) -> None:
        layout = self._layout
        target = min(targets, key=lambda b: (layout.topic_count(b, topic), layout.counts[b], b))
        layout.move(place, self._donor, target)
        self._received.topics[topic] += 1
        if self._places[topic]:
            heappush(self._topics, (self._worth(topic), topic))

    def _worth(self, topic: str) -> int:
        """The smaller, the more of the topic the donor has, compared with a broker that takes."""
        brokers = self._received.brokers
        return self._received.topics[topic] - self._layout.topic_count(self._donor, topic) * brokers
