"""The types that `Admin` gives and takes for topics, brokers, groups, transactions, log dirs and the quorum.

    from penstock.admin import TopicDescription

    def partitions_of(topic: TopicDescription) -> int: ...

Each name is re-exported from where it stands. Not here: the calls themselves (`penstock.Admin`), and the types of ACLs,
users and quotas (penstock/security.py).
"""

from __future__ import annotations

from penstock.client.admin.admin_types import AdminStatistics, BrokerDescription, TopicDescription
from penstock.client.admin.elections import ElectionResult
from penstock.client.admin.feature_calls import FeatureChange, FeatureChanges
from penstock.client.admin.groups.group_types import (
    GroupDescription,
    GroupListing,
    MemberDescription,
    OffsetReset,
    PartitionLag,
)
from penstock.client.admin.health.health_check import ClusterHealth, HealthCheck
from penstock.client.admin.log_dir_info import FutureReplicaInfo, LogDirInfo, ReplicaLogInfo
from penstock.client.admin.log_dirs import BrokerLogDirs, ReassignmentProgress
from penstock.client.admin.metadata_content import MetadataContent, MetadataDigest
from penstock.client.admin.transactions.transaction_types import (
    HangingTransaction,
    TransactionDetails,
    TransactionOverview,
)
from penstock.client.cluster.offsets import OffsetInfo
from penstock.messages.cluster import (
    CertificateStanding,
    ClusterInfo,
    LogDirRoom,
    NodeListener,
    NodeStanding,
    PartitionTrouble,
    PartitionTroubleKind,
    SilentLogDir,
    StuckGroup,
)
from penstock.messages.configs import ConfigEntry, ConfigSource, ConfigSynonym
from penstock.messages.features import (
    FeatureHindrance,
    FeatureInfo,
    FeatureLevelInfo,
    FeatureNode,
    FeatureRange,
    FeaturesInfo,
)
from penstock.messages.groups.listing import GroupType
from penstock.messages.metadata import BrokerInfo, ClientListener, PartitionInfo
from penstock.messages.produce import ProducerState
from penstock.messages.quorum import QuorumInfo, QuorumReplicaInfo
from penstock.messages.topics import NewTopic, ReplicaAssignment
from penstock.types import Endpoint, ListenerEndpoint

__all__ = [
    "AdminStatistics",
    "BrokerDescription",
    "BrokerInfo",
    "BrokerLogDirs",
    "CertificateStanding",
    "ClientListener",
    "ClusterHealth",
    "ClusterInfo",
    "ConfigEntry",
    "ConfigSource",
    "ConfigSynonym",
    "ElectionResult",
    "Endpoint",
    "FeatureChange",
    "FeatureChanges",
    "FeatureHindrance",
    "FeatureInfo",
    "FeatureLevelInfo",
    "FeatureNode",
    "FeatureRange",
    "FeaturesInfo",
    "FutureReplicaInfo",
    "GroupDescription",
    "GroupListing",
    "GroupType",
    "HangingTransaction",
    "HealthCheck",
    "ListenerEndpoint",
    "LogDirInfo",
    "LogDirRoom",
    "MemberDescription",
    "MetadataContent",
    "MetadataDigest",
    "NewTopic",
    "NodeListener",
    "NodeStanding",
    "OffsetInfo",
    "OffsetReset",
    "PartitionInfo",
    "PartitionLag",
    "PartitionTrouble",
    "PartitionTroubleKind",
    "ProducerState",
    "QuorumInfo",
    "QuorumReplicaInfo",
    "ReassignmentProgress",
    "ReplicaAssignment",
    "ReplicaLogInfo",
    "SilentLogDir",
    "StuckGroup",
    "TopicDescription",
    "TransactionDetails",
    "TransactionOverview",
]
