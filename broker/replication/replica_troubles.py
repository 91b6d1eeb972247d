"""The partitions led here that have fewer replicas in sync than they should have, as this leader knows it.

Counted over all of them, and the first few of each kind by name, those of the cluster's own topics last. A partition
below `min.insync.replicas` refuses acks=all. It is named as that, and counts as under-replicated, too. Not here:
partitions without a leader (`metadata/offline.py`), and replicas that this broker cannot serve (`lost_replicas.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.replication.leader.follower_contacts import FollowerContacts
from broker.replication.partition import Partition
from penstock.lazy_dataclass import dataclass
from penstock.metric_fields import gauge, measured
from penstock.topic_names import reading_order
from penstock.types import TopicPartition

NAMED_MAX = 20
"""The most partitions of a kind that are named: enough to know where to look, in an answer that stays small."""


@dataclass(frozen=True, slots=True)
class ShortPartition:
    """A led partition with too few replicas in sync."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    min_insync_replicas: int

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.in_sync) < self.min_insync_replicas


@measured
class ReplicaTroubles:
    """The counts, and the first partitions: those below min.insync.replicas come first."""

    under_replicated: int = gauge(
        "penstock_under_replicated_partitions",
        "Led partitions with replicas out of the ISR, or in it and not heard of for replica.lag.time.max.ms.",
    )
    under_min_isr: int = gauge(
        "penstock_under_min_isr_partitions",
        "Led partitions with fewer replicas in sync than min.insync.replicas, as this leader knows it.",
    )
    named: tuple[ShortPartition, ...]


def replica_troubles(hosted: Sequence[Partition], contacts: FollowerContacts) -> ReplicaTroubles:
    """May be called in any thread. A replica that a reassignment adds is not missed while it is copied."""
    led = [(partition, leading) for partition in hosted if (leading := partition.leading) is not None]
    found = contacts.in_sync(leading for _, leading in led)
    short = [
        ShortPartition(p.topic_partition, p.state.original_replicas, tuple(sorted(in_sync)), p.min_insync_replicas)
        for (p, _), in_sync in zip(led, found, strict=True)
        if len(in_sync) < max(len(p.state.original_replicas), p.min_insync_replicas)
    ]
    return counted(short)


def counted(short: Sequence[ShortPartition]) -> ReplicaTroubles:
    """The counts of such partitions, and the names of the first of each kind."""
    in_order = sorted(short, key=lambda one: (reading_order(one.partition.topic), one.partition.partition))
    refusing = [one for one in in_order if one.is_under_min_isr]
    others = [one for one in in_order if not one.is_under_min_isr]
    return ReplicaTroubles(
        sum(len(one.in_sync) < len(one.replicas) for one in short),
        len(refusing),
        (*refusing[:NAMED_MAX], *others[:NAMED_MAX]),
    )
