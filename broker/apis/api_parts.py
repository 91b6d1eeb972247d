"""The parts of a broker on which the handlers of its APIs stand, each by its name.

The node fills it once (node/parts/apis.py). A new API that needs nothing else changes no wiring. Not here: the
handlers, and the parts themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from broker.apis.cluster.topic_views import TopicViews
from broker.apis.coordinators import CoordinatorPort, GroupsCoordinator
from broker.apis.forwarding import ForwardedRequests
from broker.authentication.authentication import Authentication
from broker.config.dynamic_config import DynamicBrokerConfig
from broker.jobs.log_dir_moves.log_dir_moves import LogDirMoves
from broker.network.failed_requests import FailRequest
from broker.network.io_threads import IoPort
from broker.network.request_channel import Caller, Request
from broker.quorum.describe_metadata import DescribeMetadataApi
from broker.quotas.request_quotas import RequestQuotas
from broker.replication.durability import Durability
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.replica_statistics import Traffic
from broker.transactions.coordinator.transaction_coordinator import RequestProducerId
from broker.transactions.leader.transaction_markers import OffsetsMarkers
from broker.transactions.verification.held_batches import HeldBatches
from metadata.image import MetadataImage
from penstock.clock import Clock
from penstock.lazy_dataclass import dataclass
from penstock.messages.cluster import NodeStanding, PartitionTrouble
from penstock.messages.features import FeaturesInfo
from penstock.messages.quorum import QuorumInfo
from storage.disk.file_system import DiskRoom
from storage.log_dirs.log_manager import LogManager

OwnStatus = tuple[NodeStanding, tuple[PartitionTrouble, ...]]
"""The broker's knowledge of itself, and the worst of the partitions that it should lead."""


class GroupsOfBroker(GroupsCoordinator, OffsetsMarkers, Protocol):
    """The coordinator of groups, which also writes the markers of transactions in its partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParts:
    """Everything that a handler may be given."""

    node_id: int
    cluster_id: str
    clock: Clock
    fail: FailRequest
    """Answers a request whose task or thread raised."""
    io_threads: IoPort

    image: Callable[[], MetadataImage]
    leader_id: Callable[[], int]
    """The active controller; NO_LEADER while there is none."""
    metadata_age_ms: Callable[[], int]
    forwarded: ForwardedRequests
    describe_metadata: DescribeMetadataApi
    own_quorum_view: Callable[[], QuorumInfo]
    own_features: Callable[[], FeaturesInfo]

    hosted: HostedPartitions
    durability: Durability
    traffic: Traffic
    stamps: Clock
    """The clock of what leaders append."""
    held: HeldBatches
    registered_epochs: Callable[[], Mapping[int, int]]
    fetched: Callable[[int, bool], None]
    """Notes that a follower has fetched, and whether consumers may be sent to it."""

    log_manager: LogManager
    log_dir_moves: LogDirMoves
    disk_rooms: Callable[[], Mapping[str, DiskRoom]]
    views: TopicViews
    own_status: Callable[[], OwnStatus]
    dynamic: DynamicBrokerConfig

    groups: GroupsOfBroker
    transactions: CoordinatorPort
    request_producer_id: RequestProducerId

    has_authorizer: bool
    share_holder: Callable[[Caller], str] | None
    """The principal whose share of the cluster's partitions a caller uses, or ""; None without an authorizer."""
    authentication: Authentication
    quotas: RequestQuotas
    audit_request: Callable[[Request], None]
    """Audits a request of programs that turns out to be an administrative act."""
