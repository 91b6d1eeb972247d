"""Knows which partitions are not led by their preferred leader, the first of their replicas.

An index of the controller's state, kept up with every record. So the check of the imbalance costs as much as there are
brokers, not partitions. A partition without a leader counts too, as in Kafka. Not here: what is done about it
(leader_balance.py).
"""

from __future__ import annotations

from collections import Counter

from metadata.registrations import PartitionKey, PartitionRegistration


class PreferredLeaders:
    """Partitions by their preferred leader."""

    def __init__(self) -> None:
        self.elsewhere_count = 0
        """Partitions of the cluster that their preferred leader does not lead. May be read in any thread."""
        self._partitions: Counter[int] = Counter()
        self._elsewhere: dict[int, dict[PartitionKey, None]] = {}
        """Keys in the order in which they came, so that equal histories give equal records."""

    def put(self, partition: PartitionRegistration) -> None:
        """Counts a partition that is new, or was dropped before its change."""
        preferred = partition.replicas[0]
        self._partitions[preferred] += 1
        if partition.leader_id != preferred:
            self._elsewhere.setdefault(preferred, {})[partition.key] = None
            self.elsewhere_count += 1

    def drop(self, partition: PartitionRegistration) -> None:
        """Takes back what `put` counted of the same value."""
        preferred = partition.replicas[0]
        self._partitions[preferred] -= 1
        if partition.leader_id != preferred:
            del self._elsewhere[preferred][partition.key]
            self.elsewhere_count -= 1

    def led_elsewhere(self, broker_id: int) -> list[PartitionKey]:
        """The partitions that the broker should lead and does not, as they are now."""
        return list(self._elsewhere.get(broker_id, ()))

    def brokers_above(self, percentage: int) -> list[int]:
        """The brokers that lack more than this share of the leaderships that they should have, by id."""
        return sorted(
            broker_id
            for broker_id, elsewhere in self._elsewhere.items()
            if 100 * len(elsewhere) > percentage * self._partitions[broker_id]
        )

    def __repr__(self) -> str:
        return f"PreferredLeaders({self.elsewhere_count} of {self._partitions.total()} partitions are led elsewhere)"
