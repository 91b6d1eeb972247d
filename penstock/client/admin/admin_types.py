"""The values that the admin client returns, frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from penstock.client.admin.elections import ElectionResult
from penstock.client.admin.health.health_check import ClusterHealth, HealthCheck
from penstock.client.admin.security.acls import AclJudgement
from penstock.client.admin.security.users import (
    UserDescription,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from penstock.client.cluster.offsets import OffsetInfo
from penstock.client.metrics.client_metric import ClientMetric, Row, metrics_of
from penstock.lazy_dataclass import dataclass
from penstock.messages.cluster import (
    CertificateStanding,
    ClusterInfo,
    LogDirRoom,
    NodeListener,
    NodeStanding,
    PartitionTrouble,
    SilentLogDir,
    StuckGroup,
)
from penstock.messages.configs import ConfigEntry
from penstock.messages.metadata import BrokerInfo, ClientListener, PartitionInfo
from penstock.messages.quorum import QuorumInfo, QuorumReplicaInfo
from penstock.messages.security.acls import AclBinding, AclFilter, Operation, PatternType, Permission, ResourceType
from penstock.messages.security.quotas import QuotaEntity


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic: its id, its partitions in order, and the configs that it overrides."""

    name: str
    topic_id: str
    partitions: tuple[PartitionInfo, ...]
    config: Mapping[str, str] = field(default_factory=dict)
    metadata_age_ms: int = field(default=0, compare=False)
    """The time for which the broker that described the topic has not heard from a working quorum."""

    @property
    def partition_count(self) -> int:
        return len(self.partitions)

    @property
    def replication_factor(self) -> int:
        return self.partitions[0].replication_factor if self.partitions else 0


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A registered broker, and how much of the cluster it has."""

    broker: BrokerInfo
    replicas: int = 0
    """Partitions that have a replica there, those that come and those that go too."""
    leaders: int = 0


@dataclass(frozen=True, slots=True)
class AdminStatistics:
    """Counts since the client was made.

    `throttle_time_ms`, `throttle_time_max_ms`: how long brokers told it to wait because its quota was used up, in all
    and at most after one call.
    """

    throttle_time_ms: int = 0
    throttle_time_max_ms: int = 0


def admin_metrics(counts: AdminStatistics, labels: Mapping[str, str], connections: int) -> tuple[ClientMetric, ...]:
    """The counts by names of the kind that Kafka's clients have."""
    rows = (
        Row("throttle-time-total", counts.throttle_time_ms, "Milliseconds of quota waits."),
        Row("throttle-time-max", counts.throttle_time_max_ms, "Milliseconds of the longest quota wait."),
        Row("connection-count", connections, "Brokers to which the client has a connection."),
    )
    return metrics_of("admin", labels, rows)


__all__ = [
    "AclBinding",
    "AclFilter",
    "AclJudgement",
    "AdminStatistics",
    "BrokerDescription",
    "BrokerInfo",
    "CertificateStanding",
    "ClientListener",
    "ClusterHealth",
    "ClusterInfo",
    "ConfigEntry",
    "ElectionResult",
    "HealthCheck",
    "LogDirRoom",
    "NodeListener",
    "NodeStanding",
    "OffsetInfo",
    "Operation",
    "PartitionInfo",
    "PartitionTrouble",
    "PatternType",
    "Permission",
    "QuorumInfo",
    "QuorumReplicaInfo",
    "QuotaEntity",
    "ResourceType",
    "SilentLogDir",
    "StuckGroup",
    "TopicDescription",
    "UserDescription",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
]
