"""Makes the parts by which a broker's replicas follow, lead, come, go and move; the metadata says which.

Implements the port through which the fetchers ask their node (follower/fetcher_ports.py), over these parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from broker.jobs.log_dir_moves.log_dir_moves import LogDirMoves
from broker.jobs.log_dir_moves.move_announcement import MoveAnnouncements
from broker.jobs.log_dir_moves.move_copy import MoveCopy
from broker.jobs.log_dir_moves.move_swap import MoveSwap
from broker.jobs.log_dir_moves.move_table import MoveTable
from broker.jobs.log_dir_moves.move_threads import MoveThreads
from broker.jobs.scheduler import Scheduler
from broker.metrics.field_readings import record_readings
from broker.metrics.metrics import Reading
from broker.metrics.replication_readings import copy_readings, fetcher_readings, replica_readings
from broker.node.configuration.changed_parts import tell_parts
from broker.node.parts.disk_work import DiskWork
from broker.node.parts.foundation import Foundation
from broker.quorum.metadata_publisher import MetadataPublisher, topic_defaults
from broker.replication.durability import Durability
from broker.replication.follower.fetcher_config import fetcher_config
from broker.replication.follower.fetcher_manager import FetcherManager
from broker.replication.hosting.directory_reports import DirectoryReports
from broker.replication.hosting.hosted_partitions import PartitionLookup
from broker.replication.hosting.replica_parts import KnownReplicas, ReplicaParts, ReplicaPorts, replica_parts
from broker.replication.hosting.replica_roles import Fetchers
from broker.replication.hosting.role_news import RoleListener
from broker.replication.leader.alter_partition import AlterPartitionManager
from broker.replication.leader.follower_contacts import FollowerContacts
from broker.replication.leader.isr_upkeep import IsrUpkeep
from broker.replication.leader.log_start_commit import Waiter
from broker.replication.lost_replicas import LostReplicas
from broker.replication.move_throttle import MoveThrottle
from broker.replication.partition import Partition
from broker.replication.read_replicas import ReadReplicaLimits, ReadReplicas
from broker.replication.replica_statistics import Traffic
from penstock.clock import Clock
from penstock.lazy_dataclass import dataclass
from penstock.threads import Threads
from penstock.types import TopicPartition
from storage.log.log import Log
from storage.log_dirs.log_manager import LogManager

LATE_FETCH_MS = 1_000
"""A follower asks again at the latest after replica.fetch.wait.max.ms; this much later it is suspected."""


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
    readers: ReadReplicas
    """Where consumers with racks read."""

    def readings(self) -> Iterator[Reading]:
        """The metrics of this room."""
        yield from replica_readings(self.replicas)
        yield from fetcher_readings(self.fetchers)
        yield from record_readings(self.readers.statistics())
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
        readers=_make_readers(base, replicas),
    )


def _make_readers(base: Foundation, replicas: ReplicaParts) -> ReadReplicas:
    config, image = base.config, base.image
    limits = ReadReplicaLimits(
        follower_silence_ms=config.replica_fetch_wait_max_ms + LATE_FETCH_MS,
        quorum_silence_ms=config.broker_session_timeout_ms,
    )
    return ReadReplicas(
        config.broker_rack,
        lambda broker_id: image().find_broker(broker_id),
        replicas.contacts,
        base.quorum.raft.contact_ms_ago,
        limits if config.replica_selector_class else None,
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


class FollowerNode:
    """The node, as its fetchers ask it. There is one per broker."""

    def __init__(
        self,
        lost: LostReplicas,
        hosted: PartitionLookup,
        durability: Durability,
        expect_cut: Callable[[Log, int, Callable[[], bool]], None],
    ) -> None:
        self._lost, self._hosted, self._durability = lost, hosted, durability
        self._expect_cut = expect_cut

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration, as the controller answered it."""
        return self._lost.broker_epoch

    def find(self, partition: TopicPartition) -> Partition | None:
        return self._hosted.find(partition)

    def request_flush(self, partition: Partition) -> None:
        self._durability.request_flush(partition)

    def expect_cut(self, partition: Partition, offset: int, is_wanted: Callable[[], bool]) -> None:
        self._expect_cut(partition.log, offset, is_wanted)

    def when_disk_answers(
        self, partition: Partition, then: Callable[[BaseException | None], None], work: Callable[[], object] | None
    ) -> None:
        self._durability.when_disk_answers(partition, then, work)

    def make_log_start_durable(self, partition: Partition, done: Waiter) -> None:
        self._durability.make_log_start_durable(partition, done)

    def __repr__(self) -> str:
        return f"FollowerNode(broker epoch {self.broker_epoch})"


def make_log_dir_moves(
    log_manager: LogManager,
    table: MoveTable,
    replicas: ReplicaParts,
    *,
    fetchers: Fetchers,
    directories: DirectoryReports,
    on_log_gone: Callable[[TopicPartition], None],
    scheduler: Scheduler,
    throttle: MoveThrottle,
    clock: Clock,
    threads: Threads,
) -> LogDirMoves:
    """Makes the moves, with their jobs in the scheduler; `on_log_gone` is told of a partition whose log is another one
    from now on."""
    in_dirs = MoveThreads(scheduler, threads, tuple(log_manager.meta_properties))
    copying = MoveCopy(log_manager.futures, in_dirs, throttle, clock)
    announcements = MoveAnnouncements(directories)
    swapping = MoveSwap(
        log_manager=log_manager,
        replicas=replicas,
        fetchers=fetchers,
        on_log_gone=on_log_gone,
        announcements=announcements,
        copying=copying,
        threads=in_dirs,
        clock=clock,
    )
    moves = LogDirMoves(
        log_manager=log_manager,
        table=table,
        replicas=replicas,
        copying=copying,
        swapping=swapping,
        throttle=throttle,
        threads=in_dirs,
        clock=clock,
    )
    moves.schedule(scheduler)
    return moves
