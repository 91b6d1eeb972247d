"""Knows how many replicas each broker has, or will have once what moves has moved.

An index of the controller's state, kept up with every record, so that a look at the balance costs as much as there are
brokers, not partitions. Not here: what is done about it (replica_balance.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from metadata.registrations import PartitionRegistration


class ReplicaCounts:
    """Replicas by broker. A partition that is being reassigned is counted where it goes."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def put(self, partition: PartitionRegistration) -> None:
        """Counts a partition that is new, or was dropped before its change."""
        for replica in partition.target_replicas:
            self._counts[replica] += 1

    def drop(self, partition: PartitionRegistration) -> None:
        """Takes back what `put` counted of the same value."""
        for replica in partition.target_replicas:
            self._counts[replica] -= 1

    def of(self, brokers: Collection[int]) -> Counter[int]:
        """A copy, with a number for each of these brokers and for no other."""
        return Counter({broker_id: self._counts[broker_id] for broker_id in brokers})

    def __repr__(self) -> str:
        return f"ReplicaCounts({dict(self._counts)})"


def spread_of(counts: Counter[int]) -> int:
    """The largest number minus the smallest; 0 of none."""
    return max(counts.values()) - min(counts.values()) if counts else 0
