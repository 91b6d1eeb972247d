"""The parts that hold a broker's replicas, and the order in which they are made.

    known     the tables (hosted, lost, refused), and what takes a replica offline: these need no other part
    hosting   creates, revives and deletes replicas, and gives them roles. Made last, because it needs the fetchers,
              and the fetchers need the tables

Wiring only, for the node and for tests alike. Not here: jobs that run on schedule (`broker/jobs/`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial

from broker.replication.checkpointed_high_watermarks import CheckpointedHighWatermarks
from broker.replication.disk_failures import DiskFailures
from broker.replication.durability import Durability
from broker.replication.hosting.directory_reports import DirectoryReports
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.hosting.partition_opener import PartitionOpener
from broker.replication.hosting.replica_assignments import ReplicaAssignments
from broker.replication.hosting.replica_creation import ReplicaCreation
from broker.replication.hosting.replica_revival import ReplicaRevival
from broker.replication.hosting.replica_roles import Fetchers, ReplicaRoles
from broker.replication.hosting.role_news import RoleListener, RoleNews
from broker.replication.leader.follower_contacts import FollowerContacts
from broker.replication.leader.isr_upkeep import IsrUpkeep
from broker.replication.lost_replicas import LostReplicas
from broker.replication.partition import Partition, PartitionReports
from broker.replication.refused_appends import RefusedAppends
from broker.replication.replica_statistics import ReplicaStatistics, Traffic, count_roles
from broker.replication.replica_troubles import replica_troubles
from penstock.clock import Clock
from penstock.lazy_dataclass import dataclass
from penstock.threads import Threads
from penstock.types import TopicPartition
from storage.disk.log_dir_threads import InLogDir, LogDirThreads
from storage.log_dirs.log_manager import LogManager


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownReplicas:
    """The table of replicas, those of them that are lost, and the part that reports a loss."""

    hosted: HostedPartitions
    lost: LostReplicas
    refused: RefusedAppends
    failures: DiskFailures
    removing: InLogDir
    """The threads that remove logs that go out of use."""


def known_replicas(
    broker_id: int,
    log_manager: LogManager,
    clock: Clock,
    threads: Threads,
    on_replica_lost: Callable[[], None],
    on_log_dir_failed: Callable[[str, Exception], None],
) -> KnownReplicas:
    """The known replicas, with the logs that the start found damaged or out of use."""
    hosted = HostedPartitions(broker_id)
    lost = LostReplicas(hosted)
    offline = {log_id.topic_partition: log.error for log_id, log in log_manager.table.offline.items()}
    for key, error in offline.items():
        lost.found(key, error)
    refused = RefusedAppends(clock.now_ms)
    removing = LogDirThreads(threads, "log-deletion")
    failures = DiskFailures(
        log_manager=log_manager,
        hosted=hosted,
        lost=lost,
        refused=refused,
        threads=removing,
        on_replica_lost=on_replica_lost,
        on_log_dir_failed=on_log_dir_failed,
    )
    return KnownReplicas(hosted=hosted, lost=lost, refused=refused, failures=failures, removing=removing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPorts:
    """The other parts of the broker that the hosting of replicas uses."""

    durability: Durability
    isrs: IsrUpkeep
    contacts: FollowerContacts
    fetchers: Fetchers
    directories: DirectoryReports
    on_log_gone: Callable[[TopicPartition], None]
    """Hears of a partition that is served here no longer."""
    on_fatal: Callable[[BaseException], None]
    role_listeners: Sequence[RoleListener] = ()
    traffic: Traffic = field(default_factory=Traffic)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaParts:
    """All parts that hold a broker's replicas."""

    hosted: HostedPartitions
    lost: LostReplicas
    refused: RefusedAppends
    failures: DiskFailures
    durability: Durability
    isrs: IsrUpkeep
    contacts: FollowerContacts
    high_watermarks: CheckpointedHighWatermarks
    roles: ReplicaRoles
    news: RoleNews
    creation: ReplicaCreation
    revival: ReplicaRevival
    assignments: ReplicaAssignments
    traffic: Traffic

    def statistics(self) -> ReplicaStatistics:
        hosted, news = self.hosted.all(), self.news
        return ReplicaStatistics(
            **count_roles(hosted, retired_shrinks=news.past_isr_shrinks, retired_expands=news.past_isr_expands),
            troubles=replica_troubles(hosted, self.contacts),
            to_create=len(self.creation),
            offline=len(self.lost),
            bytes_in=self.traffic.bytes_in,
            bytes_out=self.traffic.bytes_out,
            messages_in=self.traffic.messages_in,
            replication_bytes_out=self.traffic.replication_bytes_out,
        )


def _append_refused(refused: RefusedAppends, durability: Durability, partition: Partition) -> None:
    refused.refused(partition)
    if partition.log.awaits_roll:  # that may be why, and no other append may ask for the flush after which it rolls
        durability.request_flush(partition)


def _opener(
    known: KnownReplicas,
    log_manager: LogManager,
    high_watermarks: CheckpointedHighWatermarks,
    news: RoleNews,
    ports: ReplicaPorts,
) -> PartitionOpener:
    append_refused = partial(_append_refused, known.refused, ports.durability)
    return PartitionOpener(
        known.hosted,
        log_manager,
        high_watermarks=high_watermarks,
        durability=ports.durability,
        reports=PartitionReports(
            follower_fetched=ports.isrs.maybe_expand,
            disk_error=known.failures.disk_error,
            append_refused=append_refused,
            lead_changed=news.lead_changed,
        ),
        dismissed=(known.refused.forget, ports.directories.forget, ports.on_log_gone),
    )


def replica_parts(
    known: KnownReplicas,
    log_manager: LogManager,
    clock: Clock,
    threads: Threads,
    ports: ReplicaPorts,
    creating: InLogDir | None = None,
) -> ReplicaParts:
    """The rest of them, over the tables and what serves them; `creating` creates logs, in threads of its own if it is
    not given."""
    hosted, lost, failures, isrs = known.hosted, known.lost, known.failures, ports.isrs
    high_watermarks = CheckpointedHighWatermarks(log_manager.checkpoints.high_watermarks(), hosted.all)
    news = RoleNews(ports.role_listeners, ports.on_fatal)
    opener = _opener(known, log_manager, high_watermarks, news, ports)
    roles = ReplicaRoles(
        hosted.broker_id,
        clock,
        durability=ports.durability,
        isrs=isrs,
        fetchers=ports.fetchers,
        partition_failed=failures.partition_failed,
        check_directory=ports.directories.check,
    )
    creation = ReplicaCreation(
        hosted=hosted,
        opener=opener,
        roles=roles,
        lost=lost,
        removal=log_manager.removal,
        creation=log_manager.creation,
        clock=clock,
        removing=known.removing,
        creating=creating or LogDirThreads(threads, "log-creation"),
        leave_isrs=failures.leave_isrs,
        disk_failed=failures.directory_failed,
        on_fatal=ports.on_fatal,
    )
    failures.listen(creation.log_dir_failed)
    revival = ReplicaRevival(
        hosted=hosted,
        lost=lost,
        opener=opener,
        to_create=creation.to_create,
        deletions=creation.deletions,
        logs=log_manager.table,
        high_watermarks=high_watermarks,
        leave_isrs=failures.leave_isrs,
    )
    return ReplicaParts(
        hosted=hosted,
        lost=lost,
        refused=known.refused,
        failures=failures,
        durability=ports.durability,
        isrs=isrs,
        contacts=ports.contacts,
        high_watermarks=high_watermarks,
        roles=roles,
        news=news,
        creation=creation,
        revival=revival,
        assignments=ReplicaAssignments(hosted, opener, creation, revival, isrs=isrs, lost=lost, logs=log_manager.table),
        traffic=ports.traffic,
    )
