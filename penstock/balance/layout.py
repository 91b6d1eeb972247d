"""The replicas of a cluster while a plan is made: where each is, how many each broker has, and where each may go.

A plan is a series of `move` and `lead` on it. Every rule that a single move must keep is in `targets`: only to a broker
in service that is neither drained nor cordoned, never beside another replica of the partition, never into fewer racks
than before. Where a drain leaves no other choice, the replica goes where the racks are as many as possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from penstock.balance.cluster import ClusterState
from penstock.balance.racks import rack_count, rack_name

TARGETS_MAX = 200_000
"""How many answers of `targets` are remembered: more than a plan of 100,000 partitions asks for twice."""


class ReplicaLayout:
    """Partitions are known by their place in `partitions`, which are sorted by name."""

    def __init__(self, state: ClusterState) -> None:
        self.partitions = sorted(state.partitions, key=lambda partition: (partition.topic, partition.index))
        self.replicas = [partition.replicas for partition in self.partitions]
        self.sizes = [partition.size_bytes or 0 for partition in self.partitions]
        self.takers = tuple(sorted(b.broker_id for b in state.brokers if b.takes_replicas))
        """The brokers that are evened: what may go to them, and what they have may go elsewhere."""
        self.draining = tuple(sorted(broker.broker_id for broker in state.brokers if broker.draining))
        self._rack_of = {broker.broker_id: rack_name(broker.broker_id, broker.rack) for broker in state.brokers}
        self.counts: Counter[int] = Counter()
        """Replicas of each broker."""
        self.bytes: Counter[int] = Counter()
        self.topic_counts: dict[int, Counter[str]] = {}
        """Replicas of each topic on each broker."""
        self._targets: dict[tuple[frozenset[int], int], tuple[int, ...]] = {}
        for place, replicas in enumerate(self.replicas):
            for replica in replicas:
                self._count(place, replica, 1)

    def rack_of(self, broker_id: int) -> str:
        return self._rack_of.get(broker_id, rack_name(broker_id, ""))

    def movable(self) -> Iterable[int]:
        """The partitions that no reassignment is under way of."""
        return (place for place, partition in enumerate(self.partitions) if not partition.moving)

    def topic_count(self, broker_id: int, topic: str) -> int:
        counts = self.topic_counts.get(broker_id)
        return 0 if counts is None else counts[topic]

    def move(self, place: int, source: int, target: int) -> None:
        """The replica of `source` goes to `target`, with its place in the order of preference."""
        self.replicas[place] = tuple(target if replica == source else replica for replica in self.replicas[place])
        self._count(place, source, -1)
        self._count(place, target, 1)

    def lead(self, place: int, broker_id: int) -> None:
        """A replica changes places with the first one."""
        replicas = list(self.replicas[place])
        at = replicas.index(broker_id)
        replicas[0], replicas[at] = replicas[at], replicas[0]
        self.replicas[place] = tuple(replicas)

    def targets(self, place: int, source: int) -> tuple[int, ...]:
        """The brokers that the replica of `source` may go to, by id."""
        return self.targets_of(frozenset(self.replicas[place]), source)

    def targets_of(self, replicas: frozenset[int], source: int) -> tuple[int, ...]:
        """The brokers that the replica of `source` may go to, by id, in every partition with these replicas."""
        key = (replicas, source)
        found = self._targets.get(key)
        if found is None:
            if len(self._targets) >= TARGETS_MAX:
                self._targets.clear()
            found = self._targets[key] = self._find_targets(replicas, source)
        return found

    def _find_targets(self, replicas: frozenset[int], source: int) -> tuple[int, ...]:
        others = {self.rack_of(replica) for replica in replicas if replica != source}
        free = [broker_id for broker_id in self.takers if broker_id not in replicas]
        elsewhere = tuple(broker_id for broker_id in free if self.rack_of(broker_id) not in others)
        if source in self.draining:
            return elsewhere or tuple(free)
        return tuple(free) if len(others) == rack_count(replicas, self.rack_of) else elsewhere

    def _count(self, place: int, broker_id: int, change: int) -> None:
        self.counts[broker_id] += change
        self.bytes[broker_id] += change * self.sizes[place]
        self.topic_counts.setdefault(broker_id, Counter())[self.partitions[place].topic] += change
