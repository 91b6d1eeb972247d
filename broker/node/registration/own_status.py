"""Collects what a broker knows of itself without asking the controller, for DescribeCluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from broker.apis.api_parts import OwnStatus
from broker.config.exposed_listeners import node_listeners
from broker.config.node_config import NodeConfig
from broker.node.registration.broker_lifecycle import BrokerLifecycle
from broker.node.registration.node_findings import NodeFindings
from broker.replication.hosting.replica_parts import ReplicaParts
from broker.replication.lost_replicas import LostReplicas
from broker.replication.partition import Partition
from broker.replication.replica_troubles import NAMED_MAX, ShortPartition
from metadata.image import MetadataImage
from penstock.messages.cluster import NodeStanding, PartitionTrouble, PartitionTroubleKind, SilentLogDir
from penstock.topic_names import reading_order
from penstock.version import __version__

SILENT_MS = 5_000
"""A disk that answers so late is reported, long before its log dir fails."""


def own_status(
    config: NodeConfig,
    lifecycle: BrokerLifecycle,
    replicas: ReplicaParts,
    image: MetadataImage,
    *,
    metadata_age_ms: int,
    failed_log_dirs: Iterable[str],
    silent_ms: Mapping[str, int],
    findings: NodeFindings,
) -> OwnStatus:
    """The standing, and the first partitions that this broker should lead and cannot, whose disk does not answer, or
    that it leads with too few replicas in sync. `silent_ms`: by log dir, the age of the oldest call to its disk."""
    counts, refused = replicas.statistics(), replicas.refused.statistics()
    silent = {path: ms for path, ms in silent_ms.items() if ms >= SILENT_MS}
    stalled = stalled_partitions(replicas.hosted.all(), silent)
    unserved = tuple(unserved_partitions(replicas.lost, image))
    held_up, held = findings.held_up()
    status = NodeStanding(
        node_id=replicas.hosted.broker_id,
        fenced=lifecycle.statistics().is_fenced,
        metadata_age_ms=metadata_age_ms,
        partitions=counts.partitions,
        leaders=counts.leaders,
        under_replicated=counts.troubles.under_replicated,
        under_min_isr=counts.troubles.under_min_isr,
        lost_replicas=counts.offline,
        failed_log_dirs=tuple(sorted(failed_log_dirs)),
        unserved=len(unserved),
        refusing_appends=refused.partitions,
        refusing_writes=refused.led,
        silent_log_dirs=tuple(
            SilentLogDir(path, ms, len(stalled.get(path, ()))) for path, ms in sorted(silent.items())
        ),
        node_listeners=tuple(node_listeners(config)),
        listener_types={name: config.listener_type(name).value for name in config.client_listeners},
        version=__version__,
        settings_digest=findings.settings_digest(),
        certificates=findings.certificate_standings(),
        log_dir_rooms=findings.log_dir_rooms(),
        stuck_groups=findings.stuck_groups(),
        held_up=held_up,
        calendar_fault=findings.calendar_fault(),
    )
    waiting = (_stalled_view(each, silent[path]) for path, found in sorted(stalled.items()) for each in found)
    return status, (
        *unserved[:NAMED_MAX],
        *islice(waiting, NAMED_MAX),
        *map(_short_view, counts.troubles.named),
        *held,
    )


def stalled_partitions(hosted: Iterable[Partition], log_dirs: Collection[str]) -> Mapping[str, Sequence[Partition]]:
    """The partitions that this broker leads in each log dir and that have records which are not flushed."""
    found: defaultdict[str, list[Partition]] = defaultdict(list)
    for partition in hosted if log_dirs else ():
        log = partition.log
        if log.log_dir in log_dirs and partition.leading is not None and log.flushed_offset < log.log_end_offset:
            found[log.log_dir].append(partition)
    return found


def _stalled_view(partition: Partition, silent_ms: int) -> PartitionTrouble:
    state, log = partition.state, partition.log
    reason = f"{log.log_end_offset - log.flushed_offset} records wait for {log.log_dir}, silent for {silent_ms} ms"
    kind = PartitionTroubleKind.STALLED
    return PartitionTrouble(*partition.topic_partition, kind, state.replicas, state.isr, reason=reason)


def unserved_partitions(lost: LostReplicas, image: MetadataImage) -> Iterator[PartitionTrouble]:
    """The partitions that this broker leads by the metadata, and whose replica it has lost."""
    for key in sorted(lost.partitions, key=lambda tp: (reading_order(tp.topic), tp.partition)):
        partition = image.partition(key.topic, key.partition)
        reason = "" if partition is None else lost.why_offline(key, partition)
        if partition is not None and reason:
            kind = PartitionTroubleKind.UNSERVED
            yield PartitionTrouble(*key, kind, partition.replicas, partition.isr, reason=reason)


def _short_view(short: ShortPartition) -> PartitionTrouble:
    kind = PartitionTroubleKind.UNDER_MIN_ISR if short.is_under_min_isr else PartitionTroubleKind.UNDER_REPLICATED
    return PartitionTrouble(*short.partition, kind, short.replicas, short.in_sync, short.min_insync_replicas)
