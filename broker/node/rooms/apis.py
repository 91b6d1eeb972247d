"""Makes the APIs of a broker, and the router that gives each its requests. They stand on everything else."""

from __future__ import annotations

from dataclasses import dataclass

from broker.apis.alter_replica_log_dirs import log_dir_apis
from broker.apis.cluster.describe_cluster import DescribeClusterApi, Standing
from broker.apis.cluster.describe_quorum import DescribeQuorumApi
from broker.apis.cluster.metadata import MetadataApi
from broker.apis.cluster.topic_views import TopicViews
from broker.apis.delete_records import DeleteRecordsApi
from broker.apis.describe_configs import DescribeConfigsApi
from broker.apis.describe_producers import DescribeProducersApi
from broker.apis.fetch import FetchApi
from broker.apis.forwarding import ForwardedRequests
from broker.apis.groups import group_handlers
from broker.apis.init_producer_id import InitProducerIdApi
from broker.apis.list_offsets import ListOffsetsApi
from broker.apis.offset_for_leader_epoch import OffsetForLeaderEpochApi
from broker.apis.producing.produce import ProduceApi
from broker.apis.router import Handle, Router
from broker.apis.security.acls import acl_handlers
from broker.apis.security.charged_changes import charged
from broker.apis.security.describe_quotas import DescribeQuotasApi
from broker.apis.security.describe_users import DescribeUsersApi
from broker.apis.security.sasl_authenticate import SaslAuthenticateApi
from broker.apis.security.topic_owners import with_owners
from broker.apis.transactions import transaction_handlers
from broker.audit.acts import Acts
from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.node_config import NodeConfig
from broker.jobs.disk_room import DiskRooms
from broker.jobs.stable_offsets import StableOffsets
from broker.jobs.wall_clock import WallClockGuard
from broker.node.environment import Environment
from broker.node.node_failures import NodeFailures
from broker.node.rooms.quorum import QuorumParts
from broker.node.rooms.replication import Replication
from broker.node.rooms.request_path import RequestPath
from broker.node.standing.broker_lifecycle import BrokerLifecycle
from broker.node.standing.node_findings import NodeFindings
from broker.node.standing.own_standing import own_standing
from broker.producer_ids.producer_id_manager import ProducerIdManager
from broker.quorum.describe_metadata import DescribeMetadataApi
from broker.replication.leader.leader_appends import LeaderAppends
from broker.transactions.leader.transaction_markers import TransactionMarkersApi
from broker.transactions.verification.held_batches import HeldBatches
from metadata.image import MetadataImage
from penstock.messages.client_apis import INIT_PRODUCER_ID
from penstock.messages.nodes.node_apis import WRITE_TXN_MARKERS
from penstock.messages.security.quota_apis import DESCRIBE_CLIENT_QUOTAS
from penstock.messages.security.user_apis import DESCRIBE_USER_SCRAM_CREDENTIALS
from penstock.messages.transactions.transaction_apis import END_HANGING_TRANSACTION
from storage.log_dirs.log_manager import LogManager


@dataclass(frozen=True, slots=True)
class Apis:
    """The router, and those of the APIs that have to be stopped."""

    router: Router
    forwarded: ForwardedRequests
    describe_metadata: DescribeMetadataApi


def make_apis(
    config: NodeConfig,
    environment: Environment,
    quorum: QuorumParts,
    log_manager: LogManager,
    dynamic: DynamicBrokerConfig,
    replication: Replication,
    disk_rooms: DiskRooms,
    stable_offsets: StableOffsets,
    requests: RequestPath,
    producer_ids: ProducerIdManager,
    lifecycle: BrokerLifecycle,
    failures: NodeFailures,
    wall_clock: WallClockGuard,
) -> Apis:
    """A new API gets its handler here."""
    replicas, cluster_id, fail = replication.replicas, quorum.cluster_id, requests.failed_requests.fail
    hosted, metadata_age_ms = replicas.hosted, quorum.raft.contact_ms_ago
    watched = disk_rooms, stable_offsets, replication.groups.lag
    findings = NodeFindings(dynamic, environment.certificates, *watched, wall_clock, environment.clock)

    def image() -> MetadataImage:
        return quorum.loader.image

    def leader_id() -> int:
        return quorum.leader_id

    def standing() -> Standing:
        known = metadata_age_ms(), failures.offline_log_dirs(), log_manager.calls.ages_ms()
        return own_standing(config, lifecycle, replicas, image(), *known, findings)

    forwarded = ForwardedRequests(quorum.channel, quorum.loader, fail)
    describe_metadata = DescribeMetadataApi(quorum.own_metadata, environment.threads, fail)
    fetch = FetchApi(lambda: replicas.isrs.registered_epochs, cluster_id, replicas.contacts.fetched).handle
    held = HeldBatches(replication.verifier)
    views = TopicViews(config.node_id, replicas.lost.why_offline)
    gatekeeper = requests.gatekeeper
    passes, holder = (None, None) if gatekeeper is None else (gatekeeper.passes, gatekeeper.share_holder)
    acts = Acts(requests.audit)
    router = Router(
        {
            "Produce": ProduceApi(hosted, replicas.durability, replicas.traffic, replication.stamps, held).handle,
            "FetchConsumer": fetch,
            "FetchFollower": fetch,
            "ListOffsets": ListOffsetsApi(hosted, requests.io_threads, fail, environment.clock.now_ms).handle,
            "OffsetForLeaderEpoch": OffsetForLeaderEpochApi(hosted).handle,
            "Metadata": MetadataApi(cluster_id, image, leader_id, views, metadata_age_ms).handle,
            "DescribeCluster": DescribeClusterApi(cluster_id, image, leader_id, standing).handle,
            "DescribeQuorum": DescribeQuorumApi(forwarded, quorum.own_view).handle,
            "DescribeMetadata": describe_metadata.handle,
            **log_dir_apis(config.node_id, log_manager, disk_rooms.statistics, replication.log_dir_moves, fail),
            **charged(with_owners(forwarded.handlers(), holder), requests.quotas, image),
            **_coordinators(replication, producer_ids, acts),
            **_markers(replication),
            "DeleteRecords": DeleteRecordsApi(hosted, replicas.durability.make_log_start_durable).handle,
            "DescribeProducers": DescribeProducersApi(hosted).handle,
            "SaslAuthenticate": SaslAuthenticateApi(requests.authentication, environment.clock, fail).handle,
            "DescribeConfigs": DescribeConfigsApi(dynamic, image).handle,
            **acl_handlers(image, is_enabled=gatekeeper is not None),
            DESCRIBE_CLIENT_QUOTAS.name: DescribeQuotasApi(image).handle,
            DESCRIBE_USER_SCRAM_CREDENTIALS.name: DescribeUsersApi(image).handle,
        },
        passes,
        acts.watch,
    )
    return Apis(router, forwarded, describe_metadata)


def _coordinators(replication: Replication, producer_ids: ProducerIdManager, acts: Acts) -> dict[str, Handle]:
    groups, transactions = replication.groups.coordinator, replication.transactions.coordinator
    others = {
        **group_handlers(groups, acts.found),
        INIT_PRODUCER_ID.name: InitProducerIdApi(producer_ids.request).handle,
    }
    return others | transaction_handlers(transactions, groups, others)


def _markers(replication: Replication) -> dict[str, Handle]:
    replicas, stamps = replication.replicas, replication.stamps
    logs = LeaderAppends(replicas.durability, replicas.traffic, stamps)
    markers = TransactionMarkersApi(replicas.hosted, logs, replication.groups.coordinator, stamps)
    return {WRITE_TXN_MARKERS.name: markers.handle, END_HANGING_TRANSACTION.name: markers.end_hanging}
