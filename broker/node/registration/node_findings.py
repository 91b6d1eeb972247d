"""Collects what a broker knows of itself beside its replicas: certificates, disks, groups, transactions, its clock,
its settings.

Each part looks by itself, in a job of its own; here the newest results are put together for DescribeCluster, so that
`penstock cluster health` needs no metrics. Bounded: NAMED_MAX groups and partitions are named, the worst first. Not
here: whether it is bad (penstock/client/admin/health/).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from broker.config.config_digest import settings_digest
from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.node_config import NodeConfig
from broker.groups.lag.lag_pass import GroupLag
from broker.groups.lag.lag_watch import LagWatch
from broker.jobs.disk_room import DiskRooms
from broker.jobs.stable_offsets import StableOffsets
from broker.jobs.wall_clock import WallClockGuard
from broker.replication.partition import Partition
from broker.replication.replica_troubles import NAMED_MAX
from broker.tls.material import Certificates
from penstock.clock import Clock
from penstock.messages.cluster import (
    HELD_UP_MS,
    STUCK_GROUP_MS,
    CertificateStanding,
    LogDirRoom,
    PartitionTrouble,
    PartitionTroubleKind,
    StuckGroup,
)


class NodeFindings:
    """The parts that are asked. One per broker."""

    def __init__(
        self,
        *,
        dynamic: DynamicBrokerConfig,
        certificates: Certificates,
        disk_rooms: DiskRooms,
        stable_offsets: StableOffsets,
        group_lag: LagWatch,
        wall_clock: WallClockGuard,
        clock: Clock,
    ) -> None:
        self._dynamic, self._certificates, self._disk_rooms = dynamic, certificates, disk_rooms
        self._stable_offsets, self._group_lag, self._clock = stable_offsets, group_lag, clock
        self._wall_clock = wall_clock
        self._digest: tuple[NodeConfig, str] | None = None

    def settings_digest(self) -> str:
        """The digest of the file, as the log of a start has it; made anew when the file was taken again."""
        file = self._dynamic.file
        if self._digest is None or self._digest[0] is not file:
            self._digest = file, settings_digest(file)
        return self._digest[1]

    def certificate_standings(self) -> tuple[CertificateStanding, ...]:
        now_ms = self._clock.wall_ms()
        return tuple(
            CertificateStanding(
                one.listener,
                one.keystore_not_after_ms - now_ms,
                None if one.truststore_not_after_ms is None else one.truststore_not_after_ms - now_ms,
                one.refused,
            )
            for one in self._certificates.statistics()
        )

    def log_dir_rooms(self) -> tuple[LogDirRoom, ...]:
        rooms = self._disk_rooms.statistics()
        return tuple(LogDirRoom(path, *rooms[path]) for path in sorted(rooms))

    def stuck_groups(self) -> tuple[StuckGroup, ...]:
        return stuck_groups(self._group_lag.snapshot.groups)

    def calendar_fault(self) -> str:
        """The reason why nothing is deleted by age here; empty if there is no fault."""
        return self._wall_clock.fault

    def held_up(self) -> tuple[int, tuple[PartitionTrouble, ...]]:
        """How many partitions an open transaction holds up, and the first of them."""
        found = self._stable_offsets.held_up(HELD_UP_MS)
        return len(found), tuple(islice(_held_views(found), NAMED_MAX))


def stuck_groups(groups: Mapping[str, GroupLag]) -> tuple[StuckGroup, ...]:
    """The groups with members and records to read that have committed nothing new for STUCK_GROUP_MS."""
    found = [
        StuckGroup(group_id, one.members, one.lag or one.never_committed, one.stalled_ms)
        for group_id, one in groups.items()
        if one.members and (one.lag or one.never_committed) and one.stalled_ms >= STUCK_GROUP_MS
    ]
    return tuple(sorted(found, key=lambda one: (-one.stalled_ms, one.group_id))[:NAMED_MAX])


def _held_views(found: list[tuple[Partition, int]]) -> Iterator[PartitionTrouble]:
    for partition, ms in found:
        state = partition.state
        reason = (
            f"readers of committed records stand at offset {partition.last_stable_offset} for {ms // 1000} s, and"
            f" {partition.high_watermark - partition.last_stable_offset} records follow"
        )
        kind = PartitionTroubleKind.HELD_UP
        yield PartitionTrouble(*partition.topic_partition, kind, state.replicas, state.isr, reason=reason)
