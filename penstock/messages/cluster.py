"""DescribeCluster: the cluster as one broker has it, and what that broker knows of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import NamedTuple

from penstock.lazy_dataclass import dataclass
from penstock.messages.metadata import BrokerInfo
from penstock.types import Endpoint


@dataclass(frozen=True, slots=True)
class DescribeClusterRequest:
    """Asks for every broker, fenced ones too."""


class SilentLogDir(NamedTuple):
    """A log dir whose disk does not answer. After `log.dir.hang.ms.max` it fails."""

    path: str
    silent_ms: int
    """The time for which the oldest call to the disk has not come back."""
    stalled: int
    """Partitions that the broker leads there and that have records which wait for the disk."""


@dataclass(frozen=True, slots=True)
class NodeListener:
    """A listener for nodes (CONTROLLER, INTERNAL), where its broker listens."""

    name: str
    host: str
    port: int
    is_exposed: bool
    """The listener is open to every network of the machine: a program that reaches it can act as a node of the
    cluster."""

    def __str__(self) -> str:
        return f"{self.name}://{Endpoint(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class CertificateStanding:
    """The certificates of one listener with TLS. The times are until they end, by the node's clock; negative after."""

    listener: str
    left_ms: int
    """The time of the keystore's certificate that ends first."""
    truststore_left_ms: int | None = None
    """The time of the truststore's CA that ends last; None without a truststore."""
    refused: str = ""
    """Why a changed file was not taken: the node goes on with what it had."""


class LogDirRoom(NamedTuple):
    """The file system that has a log dir, as the node saw it last."""

    path: str
    size_bytes: int
    free_bytes: int
    """The bytes that the node may still take."""


class StuckGroup(NamedTuple):
    """A group with members and records to read that has committed nothing new for STUCK_GROUP_MS."""

    group_id: str
    members: int
    lag: int
    stalled_ms: int


STUCK_GROUP_MS = 600_000
"""The limit of the alert PenstockGroupStuck, too."""
HELD_UP_MS = 120_000
"""A transaction that has been open for this time is older than most clients' time-out (60 s)."""


@dataclass(frozen=True, slots=True)
class NodeStanding:
    """A broker's own knowledge, without the controller: it is true when the rest of the answer is old."""

    node_id: int
    fenced: bool
    """The controller keeps the broker out of service, or none answers it."""
    metadata_age_ms: int
    """The time for which the broker has not heard from a working quorum: its metadata may be this old."""
    partitions: int
    leaders: int
    under_replicated: int
    """Partitions led there with replicas that are not in sync, as the leader knows it."""
    under_min_isr: int
    """Partitions led there with fewer replicas in sync than min.insync.replicas."""
    lost_replicas: int
    """Replicas that the broker cannot serve: they are damaged, or their log dir failed."""
    failed_log_dirs: tuple[str, ...]
    unserved: int = 0
    """The lost replicas that the broker should lead: nobody can read or write them."""
    refusing_appends: int = 0
    """Replicas whose last append found no room on the disk, or no file descriptor."""
    refusing_writes: int = 0
    """The part of `refusing_appends` that the broker leads: producers are refused."""
    silent_log_dirs: tuple[SilentLogDir, ...] = ()
    node_listeners: tuple[NodeListener, ...] = ()
    """The listeners for nodes, of which every broker has one; none if it is older than this field."""
    listener_types: Mapping[str, str] = field(default_factory=dict)
    """The protocol of each listener for clients, GRPC or KAFKA; none if the broker is older than this field."""
    version: str = ""
    """Its release; empty if the broker is older than this field."""
    settings_digest: str = ""
    """The digest of its configuration file, without what is a node's own."""
    certificates: tuple[CertificateStanding, ...] = ()
    log_dir_rooms: tuple[LogDirRoom, ...] = ()
    stuck_groups: tuple[StuckGroup, ...] = ()
    """The groups that it coordinates and that stand still for longest; not all of many."""
    held_up: int = 0
    """Partitions led there whose last stable offset has stood still below the high watermark for HELD_UP_MS."""
    is_partial: bool = False
    """The caller may not describe the cluster, so all that needs this right is left out."""
    calendar_fault: str = ""
    """The reason for which nothing is deleted by age there; empty while its calendar is believed."""


class PartitionTroubleKind(StrEnum):
    """The troubles of a partition."""

    UNSPECIFIED = "unspecified"
    """A trouble that only a newer broker knows."""
    OFFLINE = "offline"
    UNDER_MIN_ISR = "under_min_isr"
    UNDER_REPLICATED = "under_replicated"
    UNSERVED = "unserved"
    STALLED = "stalled"
    HELD_UP = "held_up"


@dataclass(frozen=True, slots=True)
class PartitionTrouble:
    """A partition that is offline, or that the broker that answered should lead, and is ill."""

    topic: str
    partition: int
    kind: PartitionTroubleKind
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    """The in-sync replicas as the leader knows them; the ISR in the metadata for an offline or unserved partition."""
    min_insync_replicas: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster as one broker has it: its id, its controller (-1: none now) and every registered broker. Brokers,
    leaders and offline partitions are those of its metadata. `standing` says how old that is, and what the broker
    knows by itself; `troubles` names the worst partitions, not all of many."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerInfo, ...]
    metadata_offset: int
    standing: NodeStanding
    leaders: Mapping[int, int] = field(default_factory=dict)
    """Broker to the number of partitions that it leads."""
    offline_partitions: int = 0
    troubles: tuple[PartitionTrouble, ...] = ()

    @property
    def freshness(self) -> tuple[bool, int, int]:
        """Larger is newer, of the answers of several brokers."""
        return self.controller_id >= 0, self.metadata_offset, -self.standing.metadata_age_ms
