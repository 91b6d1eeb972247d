"""Makes the parts by which a broker's replicas follow, lead, come, go and move; the metadata says which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.node_config import NodeConfig
from broker.jobs.log_dir_moves.log_dir_moves import LogDirMoves
from broker.jobs.log_dir_moves.make import make_log_dir_moves
from broker.jobs.log_dir_moves.move_table import MoveTable
from broker.load.busy_time import BusyTimes
from broker.network.broker_calls import CallBroker
from broker.node.configuration.told_parts import tell_parts
from broker.node.environment import Environment
from broker.node.rooms.disk_work import DiskWork
from broker.node.rooms.groups import GroupParts, make_groups
from broker.node.rooms.quorum import QuorumParts
from broker.node.rooms.transactions import TransactionParts, make_transactions
from broker.node.rooms.verification import make_verifier
from broker.quorum.metadata_publisher import MetadataPublisher, topic_defaults
from broker.replication.durability import Durability
from broker.replication.follower.fetcher_config import fetcher_config
from broker.replication.follower.fetcher_manager import FetcherManager
from broker.replication.hosting.directory_reports import DirectoryReports
from broker.replication.hosting.follower_node import FollowerNode
from broker.replication.hosting.replica_parts import KnownReplicas, ReplicaParts, ReplicaPorts, replica_parts
from broker.replication.leader.alter_partition import AlterPartitionManager
from broker.replication.leader.follower_contacts import FollowerContacts
from broker.replication.leader.isr_upkeep import IsrUpkeep
from broker.replication.move_throttle import MoveThrottle
from broker.replication.replica_statistics import Traffic
from broker.transactions.coordinator.transaction_coordinator import RequestProducerId
from broker.transactions.verification.verifier import Verifier
from penstock.clock import Clock
from penstock.types import TopicPartition
from storage.log_dirs.log_manager import LogManager


@dataclass(frozen=True, slots=True)
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
    groups: GroupParts
    transactions: TransactionParts
    verifier: Verifier
    stamps: Clock
    """The clock of what leaders append."""


def make_replication(
    config: NodeConfig,
    environment: Environment,
    quorum: QuorumParts,
    log_manager: LogManager,
    dynamic: DynamicBrokerConfig,
    busy: BusyTimes,
    known: KnownReplicas,
    disks: DiskWork,
    request_id: RequestProducerId,
    call_broker: CallBroker,
    on_fatal: Callable[[BaseException], None],
) -> Replication:
    """`known` are the tables of replicas, which the parts here share. `request_id` gives producer ids; `call_broker`
    reaches this broker, too."""
    clock, random, threads = environment.clock, environment.random, environment.threads
    call, broker_id, lag_ms = quorum.channel.call, config.node_id, config.replica_lag_time_max_ms
    durability = Durability(disks.group_commit, disks.log_starts, disks.upkeep.make_room_below_log_start)

    def broker_epoch() -> int:
        return known.lost.broker_epoch

    alter_partition = AlterPartitionManager(broker_id, broker_epoch, call, on_fatal, random, environment.probe)
    isrs = IsrUpkeep(alter_partition, broker_epoch, lag_ms)
    contacts = FollowerContacts(broker_id, clock.now_ms, lag_ms)
    leader_throttle = MoveThrottle(config.leader_replication_throttled_rate)
    follower_throttle = MoveThrottle(config.follower_replication_throttled_rate)
    fetchers = FetcherManager(
        fetcher_config(config, quorum.cluster_id),
        config.num_replica_fetchers,
        clock,
        random,
        quorum.peers.open_fetch_stream,
        FollowerNode(known.lost, known.hosted, durability, log_manager.checkpoints.expect_cut),
        on_fatal,
        follower_throttle,
        busy.fetchers.timed,
    )
    directories = DirectoryReports(broker_id, broker_epoch, log_manager.directory_id, call, on_fatal, random)
    move_table, forget_cleaned = MoveTable(log_manager), disks.cleaner.cleaner.forget

    def on_log_gone(partition: TopicPartition) -> None:
        forget_cleaned(partition)
        move_table.give_up(partition)

    traffic = Traffic()
    verifies = config.transaction_partition_verification_enable
    verifier = make_verifier(environment, quorum, call_broker, on_fatal, is_enabled=verifies)
    led = durability, traffic, known.hosted, broker_epoch, verifier
    groups = make_groups(config, environment, quorum, *led, on_fatal)
    transactions = make_transactions(
        config, environment, quorum, durability, traffic, broker_epoch, request_id, call_broker, on_fatal
    )
    told = on_log_gone, on_fatal, (groups.coordinator, transactions.coordinator)
    ports = ReplicaPorts(durability, isrs, contacts, fetchers, directories, *told, traffic)
    replicas = replica_parts(known, log_manager, clock, threads, ports)
    throttle = MoveThrottle(config.replica_alter_log_dirs_io_max_bytes_per_second)
    moving = move_table, replicas, fetchers, directories, forget_cleaned
    moves = make_log_dir_moves(log_manager, *moving, disks.scheduler, throttle, clock, threads)
    publisher = MetadataPublisher(replicas.assignments, log_manager, topic_defaults(config), clock.now_ms, on_fatal)
    tell_parts(dynamic, publisher, disks.cleaner, leader_throttle, follower_throttle, throttle)
    quorum.loader.subscribe(publisher.publish)
    quorum.loader.subscribe(replicas.traffic.by_topic.published)
    quorum.loader.subscribe(groups.coordinator.published)
    quorum.loader.subscribe(transactions.published)
    serving = replicas, moves, publisher, groups, transactions, verifier, disks.wall_clock.stamps
    return Replication(alter_partition, leader_throttle, follower_throttle, fetchers, directories, *serving)
