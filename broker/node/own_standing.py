"""Collects what a broker knows of itself without asking the controller, for DescribeCluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker.apis.describe_cluster import Standing
from broker.node.broker_lifecycle import BrokerLifecycle
from broker.replication.hosting.replica_parts import ReplicaParts
from broker.replication.lost_replicas import LostReplicas
from broker.replication.replica_troubles import NAMED_MAX, ShortPartition
from broker.requests import NodeStandingView, PartitionTroubleKind, PartitionTroubleView
from metadata.image import MetadataImage


def own_standing(
    lifecycle: BrokerLifecycle,
    replicas: ReplicaParts,
    image: MetadataImage,
    metadata_age_ms: int,
    failed_log_dirs: Iterable[str],
) -> Standing:
    """The standing, and the first partitions that this broker should lead and cannot, or that it leads with too few
    replicas in sync."""
    counts, refused = replicas.statistics(), replicas.refused.statistics()
    unserved = tuple(unserved_partitions(replicas.lost, image))
    standing = NodeStandingView(
        replicas.hosted.broker_id,
        lifecycle.statistics().is_fenced,
        metadata_age_ms,
        counts.partitions,
        counts.leaders,
        counts.troubles.under_replicated,
        counts.troubles.under_min_isr,
        counts.offline,
        tuple(sorted(failed_log_dirs)),
        len(unserved),
        refused.partitions,
        refused.led,
    )
    return standing, (*unserved[:NAMED_MAX], *map(_short_view, counts.troubles.named))


def unserved_partitions(lost: LostReplicas, image: MetadataImage) -> Iterator[PartitionTroubleView]:
    """The partitions that this broker leads by the metadata, and whose replica it has lost."""
    for key in sorted(lost.partitions):
        partition = image.partition(key.topic, key.partition)
        reason = "" if partition is None else lost.why_offline(key, partition)
        if partition is not None and reason:
            kind = PartitionTroubleKind.UNSERVED
            yield PartitionTroubleView(key, kind, partition.replicas, partition.isr, reason=reason)


def _short_view(short: ShortPartition) -> PartitionTroubleView:
    kind = PartitionTroubleKind.UNDER_MIN_ISR if short.is_under_min_isr else PartitionTroubleKind.UNDER_REPLICATED
    return PartitionTroubleView(short.partition, kind, short.replicas, short.in_sync, short.min_insync_replicas)
