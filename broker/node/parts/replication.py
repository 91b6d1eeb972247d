"""Makes the parts by which a broker's replicas follow, lead, come, go and move; the metadata says which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from broker.jobs.log_dir_moves.log_dir_moves import LogDirMoves
from broker.jobs.log_dir_moves.make import make_log_dir_moves
from broker.jobs.log_dir_moves.move_table import MoveTable
from broker.metrics.field_readings import record_readings
from broker.metrics.metrics import Reading
from broker.metrics.replication_readings import copy_readings, fetcher_readings, replica_readings
from broker.node.configuration.told_parts import tell_parts
from broker.node.parts.disk_work import DiskWork
from broker.node.parts.foundation import Foundation
from broker.quorum.metadata_publisher import MetadataPublisher, topic_defaults
from broker.replication.follower.fetcher_config import fetcher_config
from broker.replication.follower.fetcher_manager import FetcherManager
from broker.replication.hosting.directory_reports import DirectoryReports
from broker.replication.hosting.follower_node import FollowerNode
from broker.replication.hosting.replica_parts import KnownReplicas, ReplicaParts, ReplicaPorts, replica_parts
from broker.replication.hosting.role_news import RoleListener
from broker.replication.leader.alter_partition import AlterPartitionManager
from broker.replication.leader.follower_contacts import FollowerContacts
from broker.replication.leader.isr_upkeep import IsrUpkeep
from broker.replication.move_throttle import MoveThrottle
from broker.replication.replica_statistics import Traffic
from penstock.clock import Clock
from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """Subscribed to the metadata, and to the configuration."""

    alter_partition: AlterPartitionManager
    leader_throttle: MoveThrottle
    follower_throttle: MoveThrottle
    fetchers: FetcherManager
    directories: DirectoryReports
    replicas: ReplicaParts
    log_dir_moves: LogDirMoves
    publisher: MetadataPublisher
    stamps: Clock
    """The clock of what leaders append."""

    def readings(self) -> Iterator[Reading]:
        """The metrics of this room."""
        yield from replica_readings(self.replicas)
        yield from fetcher_readings(self.fetchers)
        yield from copy_readings(sent=self.leader_throttle, fetched=self.follower_throttle)
        yield from record_readings(self.log_dir_moves.statistics())


def make_replication(
    base: Foundation,
    known: KnownReplicas,
    disks: DiskWork,
    *,
    traffic: Traffic,
    role_listeners: Sequence[RoleListener],
) -> Replication:
    """`known` are the tables of replicas, which the parts here share; `traffic` counts what is appended."""
    config, environment, quorum, log_manager = base.config, base.environment, base.quorum, base.log_manager
    clock, random, call, on_fatal = environment.clock, environment.random, quorum.channel.call, base.on_fatal
    broker_id, lag_ms = config.node_id, config.replica_lag_time_max_ms

    def broker_epoch() -> int:
        return known.lost.broker_epoch

    alter_partition = AlterPartitionManager(broker_id, broker_epoch, call, on_fatal, random, probe=environment.probe)
    leader_throttle = MoveThrottle(config.leader_replication_throttled_rate)
    follower_throttle = MoveThrottle(config.follower_replication_throttled_rate)
    node = FollowerNode(known.lost, known.hosted, disks.durability, log_manager.checkpoints.expect_cut)
    fetchers = _make_fetchers(base, node, follower_throttle)
    directories = DirectoryReports(broker_id, broker_epoch, log_manager.directory_id, call, on_fatal, random=random)
    move_table, forget_cleaned = MoveTable(log_manager), disks.cleaner.cleaner.forget

    def on_log_gone(partition: TopicPartition) -> None:
        forget_cleaned(partition)
        move_table.give_up(partition)

    ports = ReplicaPorts(
        durability=disks.durability,
        isrs=IsrUpkeep(alter_partition, broker_epoch, lag_ms),
        contacts=FollowerContacts(broker_id, clock.now_ms, lag_ms),
        fetchers=fetchers,
        directories=directories,
        on_log_gone=on_log_gone,
        on_fatal=on_fatal,
        role_listeners=role_listeners,
        traffic=traffic,
    )
    replicas = replica_parts(known, log_manager, clock, environment.threads, ports)
    move_throttle = MoveThrottle(config.replica_alter_log_dirs_io_max_bytes_per_second)
    publisher = MetadataPublisher(replicas.assignments, log_manager, topic_defaults(config), clock.now_ms, on_fatal)
    tell_parts(
        base.dynamic,
        publisher,
        disks.cleaner,
        leader=leader_throttle,
        follower=follower_throttle,
        log_dirs=move_throttle,
    )
    quorum.loader.subscribe(publisher.publish)
    quorum.loader.subscribe(replicas.traffic.by_topic.published)
    return Replication(
        alter_partition=alter_partition,
        leader_throttle=leader_throttle,
        follower_throttle=follower_throttle,
        fetchers=fetchers,
        directories=directories,
        replicas=replicas,
        log_dir_moves=_make_moves(base, replicas, ports, table=move_table, disks=disks, throttle=move_throttle),
        publisher=publisher,
        stamps=disks.wall_clock.stamps,
    )


def _make_fetchers(base: Foundation, node: FollowerNode, throttle: MoveThrottle) -> FetcherManager:
    config, environment, quorum = base.config, base.environment, base.quorum
    return FetcherManager(
        fetcher_config(config, quorum.cluster_id),
        config.num_replica_fetchers,
        clock=environment.clock,
        random=environment.random,
        open_stream=quorum.peers.open_fetch_stream,
        node=node,
        on_fatal=base.on_fatal,
        throttle=throttle,
        timed=base.busy.fetchers.timed,
    )


def _make_moves(
    base: Foundation,
    replicas: ReplicaParts,
    ports: ReplicaPorts,
    *,
    table: MoveTable,
    disks: DiskWork,
    throttle: MoveThrottle,
) -> LogDirMoves:
    return make_log_dir_moves(
        base.log_manager,
        table,
        replicas,
        fetchers=ports.fetchers,
        directories=ports.directories,
        on_log_gone=disks.cleaner.cleaner.forget,
        scheduler=disks.scheduler,
        throttle=throttle,
        clock=base.environment.clock,
        threads=base.environment.threads,
    )
