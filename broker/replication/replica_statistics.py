"""The figures of all partitions of a broker, for the metrics: how many, in which roles, and their traffic.

A snapshot. `Traffic` counts records and bytes, `leader_state.py` the changes of the ISR. Not here: which partitions
have too few replicas in sync (`replica_troubles.py`), and lost replicas (`lost_replicas.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from broker.replication.partition import Partition
from broker.replication.replica_troubles import ReplicaTroubles
from broker.replication.topic_traffic import TrafficByTopic
from penstock.lazy_dataclass import dataclass
from penstock.messages.fetch import PartitionFetchResult
from penstock.metric_fields import counter, gauge, inner, measured


@dataclass(slots=True)
class Traffic:
    """The traffic of this broker since its start, without its own fetches. Changed on the event loop."""

    bytes_in: int = 0
    messages_in: int = 0
    bytes_out: int = 0
    replication_bytes_out: int = 0
    by_topic: TrafficByTopic = field(default_factory=TrafficByTopic)
    """The traffic by topic, without the bytes that were sent to followers."""

    def count_in(self, topic: str, size_bytes: int, records: int) -> None:
        """A producer's batches were appended."""
        self.bytes_in += size_bytes
        self.messages_in += records
        row = self.by_topic.of(topic)
        row.bytes_in += size_bytes
        row.messages_in += records

    def count_out(self, results: Sequence[PartitionFetchResult], size_bytes: int, is_replica: bool) -> None:
        """A fetch was answered with `size_bytes` of records."""
        if is_replica:
            self.replication_bytes_out += size_bytes
            return
        self.bytes_out += size_bytes
        for result in results:
            if result.records:
                self.by_topic.of(result.partition.topic).bytes_out += len(result.records)


@measured
class ReplicaStatistics:
    """All partitions of the broker now, and what went through it since its start."""

    partitions: int = gauge("penstock_partitions", "Partitions that this broker hosts.")
    to_create: int = gauge(
        "penstock_partitions_to_create", "Partitions of this broker whose logs are still to be created."
    )
    """The partitions that are to be created; they are not among `partitions`."""
    leaders: int = gauge("penstock_leaders", "Partitions that this broker leads.")
    troubles: ReplicaTroubles = inner(ReplicaTroubles)
    """Partitions led here that have too few replicas in sync."""
    offline: int
    isr_shrinks: int = counter("penstock_isr_shrinks", "Members that left an ISR led here.")
    isr_expands: int = counter("penstock_isr_expands", "Members that joined an ISR led here.")
    messages_in: int = counter("penstock_messages_in", "Records appended for producers.")
    bytes_in: int = counter("penstock_bytes_in", "Record bytes appended for producers.")
    bytes_out: int = counter("penstock_bytes_out", "Record bytes sent to consumers.")
    replication_bytes_out: int


def count_roles(hosted: Sequence[Partition], *, retired_shrinks: int, retired_expands: int) -> dict[str, int]:
    """The roles and ISR changes of the partitions; `retired_…` are of partitions that were led here before."""
    leading = [partition.leading for partition in hosted if partition.leading is not None]
    return {
        "partitions": len(hosted),
        "leaders": len(leading),
        "isr_shrinks": retired_shrinks + sum(state.isr_shrinks for state in leading),
        "isr_expands": retired_expands + sum(state.isr_expands for state in leading),
    }
