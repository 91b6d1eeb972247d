"""Makes the APIs of a broker, and the router that gives each its requests. They stand on everything else."""

from __future__ import annotations

from dataclasses import dataclass

from broker.apis.api_parts import ApiParts, Standing
from broker.apis.cluster.topic_views import TopicViews
from broker.apis.forwarding import ForwardedRequests
from broker.apis.router import Router
from broker.apis.served_apis import AUDITED_OFTEN, handlers
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
from broker.transactions.verification.held_batches import HeldBatches
from metadata.image import MetadataImage
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
    """A new API that needs nothing else of the node changes nothing here (apis/served_apis.py)."""
    replicas, fail, metadata_age_ms = replication.replicas, requests.failed_requests.fail, quorum.raft.contact_ms_ago
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
    acts, gatekeeper = Acts(requests.audit, AUDITED_OFTEN), requests.gatekeeper
    parts = ApiParts(
        node_id=config.node_id,
        cluster_id=quorum.cluster_id,
        clock=environment.clock,
        fail=fail,
        io_threads=requests.io_threads,
        image=image,
        leader_id=leader_id,
        metadata_age_ms=metadata_age_ms,
        forwarded=forwarded,
        describe_metadata=describe_metadata,
        own_quorum_view=quorum.own_view,
        hosted=replicas.hosted,
        durability=replicas.durability,
        traffic=replicas.traffic,
        stamps=replication.stamps,
        held=HeldBatches(replication.verifier),
        registered_epochs=lambda: replicas.isrs.registered_epochs,
        fetched=replicas.contacts.fetched,
        log_manager=log_manager,
        log_dir_moves=replication.log_dir_moves,
        disk_rooms=disk_rooms.statistics,
        views=TopicViews(config.node_id, replicas.lost.why_offline),
        standing=standing,
        dynamic=dynamic,
        groups=replication.groups.coordinator,
        transactions=replication.transactions.coordinator,
        request_producer_id=producer_ids.request,
        has_authorizer=gatekeeper is not None,
        share_holder=None if gatekeeper is None else gatekeeper.share_holder,
        authentication=requests.authentication,
        quotas=requests.quotas,
        audit_act=acts.found,
    )
    passes = None if gatekeeper is None else gatekeeper.passes
    return Apis(Router(handlers(parts), passes, acts.watch), forwarded, describe_metadata)
