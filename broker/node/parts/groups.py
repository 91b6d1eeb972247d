"""Makes the coordinator of consumer groups: the driver, over the configuration of this node.

Made before the replicas, whose leads it hears of; started with the broker, and stopped BEFORE the listeners close.
"""

from __future__ import annotations

from functools import partial

from broker.config.node_config import NodeConfig
from broker.coordination.partition_of import partition_of
from broker.coordination.shard_ports import ShardState
from broker.groups.coordinator.group_coordinator import GroupCoordinator, check_group_id
from broker.groups.coordinator.group_statistics import GroupFigures
from broker.groups.group_config import GroupConfig
from broker.groups.group_sizes import group_memory
from broker.groups.lag.lag_watch import LagWatch, WatchedShard
from broker.groups.lag.log_ends import LogEnds
from broker.groups.records.record_log import read_group_records
from broker.groups.records.usual_offsets import UsualOffsetWriter
from broker.groups.shard.group_totals import GroupTotals
from broker.groups.shard.shard import Shard
from broker.node.parts.coordination import StateLog, StateMaker
from broker.node.parts.foundation import Foundation
from broker.replication.hosting.hosted_partitions import PartitionLookup
from broker.transactions.verification.verifier import Verifier
from metadata.internal_topics import CONSUMER_OFFSETS
from penstock.lazy_dataclass import dataclass
from penstock.record.codecs import Codec

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class GroupParts:
    """The coordinator, and what is told of it."""

    coordinator: GroupCoordinator
    figures: GroupFigures
    lag: LagWatch

    def start(self) -> None:
        self.coordinator.start()
        self.lag.start()

    async def stop(self) -> None:
        """Stops the groups. Called BEFORE the listeners close: requests that wait are answered."""
        await self.lag.stop()
        await self.coordinator.stop()


def make_groups(
    base: Foundation, state_of: StateMaker, *, partitions: PartitionLookup, verifier: Verifier
) -> GroupParts:
    """Subscribe the coordinator to the metadata AFTER the replicas."""
    config, quorum = base.config, base.quorum
    log = StateLog(
        topic=CONSUMER_OFFSETS,
        check_id=check_group_id,
        partition_of=partition_of,
        partitions=config.offsets_topic_num_partitions,
        replication_factor=config.offsets_topic_replication_factor,
        topic_config={"segment.bytes": str(config.offsets_topic_segment_bytes)},
        load_threads="group-load",
        read=read_group_records,
        make_encode=lambda: UsualOffsetWriter().encode,
        codec=Codec(config.offsets_topic_compression_codec),
        commit_timeout_ms=config.offsets_commit_timeout_ms,
    )
    state = state_of(log)
    memory, totals = group_memory(config.group_coordinator_memory_max_bytes), GroupTotals()
    make_core = partial(Shard, group_config(config), memory, totals)
    coordinator = GroupCoordinator(
        broker_id=config.node_id,
        topic=state.topic,
        topics=state.topics,
        ports=state.ports,
        make_core=make_core,
        verification=verifier,
    )

    def serving() -> list[WatchedShard]:
        return [shard.core for shard in coordinator.shards if shard.state is ShardState.ACTIVE]

    ends = LogEnds(config.node_id, partitions, lambda: quorum.loader.image, quorum.peers.call_broker)
    figures = GroupFigures(coordinator, memory, totals, state.ports.loader.figures)
    lag = LagWatch(serving, ends, state.topics, base.environment.clock, base.on_fatal)
    return GroupParts(coordinator, figures, lag)


def group_config(config: NodeConfig) -> GroupConfig:
    """The settings of the cores."""
    return GroupConfig(
        group_max_size=config.group_max_size,
        group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        group_max_session_timeout_ms=config.group_max_session_timeout_ms,
        group_consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        group_consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        group_consumer_max_size=config.group_consumer_max_size,
        group_consumer_assignors=config.group_consumer_assignors,
        group_consumer_migration_policy=config.group_consumer_migration_policy,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * _MINUTE_MS,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        record_bytes_max=config.message_max_bytes,
    )
