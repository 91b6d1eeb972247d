"""Collects what a broker knows of itself without asking the controller, for DescribeCluster."""

from __future__ import annotations

from collections.abc import Iterable

from broker.apis.describe_cluster import Standing
from broker.node.broker_lifecycle import BrokerLifecycle
from broker.replication.hosting.replica_parts import ReplicaParts
from broker.requests import NodeStandingView


def own_standing(
    lifecycle: BrokerLifecycle, replicas: ReplicaParts, metadata_age_ms: int, failed_log_dirs: Iterable[str]
) -> Standing:
    """The standing, and the first partitions led here that have too few replicas in sync."""
    counts = replicas.statistics()
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
    )
    return standing, counts.troubles.named
