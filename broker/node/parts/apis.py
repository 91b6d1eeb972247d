"""Makes the APIs of a broker, and the router that gives each its requests. They stand on everything else."""

from __future__ import annotations

from functools import partial

from broker.apis.api_parts import ApiParts, OwnStatus
from broker.apis.cluster.topic_views import TopicViews
from broker.apis.forwarding import ForwardedRequests
from broker.apis.router import Router
from broker.apis.served_apis import AUDITED_OFTEN, handlers
from broker.audit.audited_requests import AuditedRequests
from broker.jobs.wall_clock import WallClockGuard
from broker.node.parts.coordinators import BrokerCoordinators
from broker.node.parts.disk_work import ReplicaJobs
from broker.node.parts.foundation import Foundation
from broker.node.parts.replication import Replication
from broker.node.parts.request_path import RequestPath
from broker.node.registration.broker_lifecycle import BrokerLifecycle
from broker.node.registration.node_findings import NodeFindings
from broker.node.registration.own_status import own_status
from broker.producer_ids.producer_id_manager import ProducerIdManager
from broker.quorum.describe_metadata import DescribeMetadataApi
from broker.replication.hosting.replica_parts import ReplicaParts
from broker.transactions.verification.held_batches import HeldBatches
from penstock.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Apis:
    """The router, and those of the APIs that have to be stopped."""

    router: Router
    forwarded: ForwardedRequests
    describe_metadata: DescribeMetadataApi


def make_apis(
    base: Foundation,
    *,
    replication: Replication,
    coordinators: BrokerCoordinators,
    jobs: ReplicaJobs,
    requests: RequestPath,
    producer_ids: ProducerIdManager,
    lifecycle: BrokerLifecycle,
    wall_clock: WallClockGuard,
) -> Apis:
    """A new API that needs nothing else of the node changes nothing here (apis/served_apis.py)."""
    config, environment, quorum = base.config, base.environment, base.quorum
    replicas, fail = replication.replicas, requests.failed_requests.fail
    findings = NodeFindings(
        dynamic=base.dynamic,
        certificates=environment.certificates,
        disk_rooms=jobs.disk_rooms,
        stable_offsets=jobs.stable_offsets,
        group_lag=coordinators.groups.lag,
        wall_clock=wall_clock,
        clock=environment.clock,
    )

    def leader_id() -> int:
        return quorum.leader_id

    forwarded = ForwardedRequests(quorum.channel, quorum.loader, fail)
    describe_metadata = DescribeMetadataApi(quorum.own_metadata, environment.threads, fail)
    audited, request_authorizer = AuditedRequests(requests.audit, AUDITED_OFTEN), requests.request_authorizer
    parts = ApiParts(
        node_id=config.node_id,
        cluster_id=quorum.cluster_id,
        clock=environment.clock,
        fail=fail,
        io_threads=requests.io_threads,
        image=base.image,
        leader_id=leader_id,
        metadata_age_ms=quorum.raft.contact_ms_ago,
        forwarded=forwarded,
        describe_metadata=describe_metadata,
        own_quorum_view=quorum.own_view,
        own_features=quorum.own_features,
        hosted=replicas.hosted,
        durability=replicas.durability,
        traffic=replicas.traffic,
        stamps=replication.stamps,
        held=HeldBatches(coordinators.verifier),
        registered_epochs=lambda: replicas.isrs.registered_epochs,
        fetched=replicas.contacts.fetched,
        log_manager=base.log_manager,
        log_dir_moves=replication.log_dir_moves,
        disk_rooms=jobs.disk_rooms.statistics,
        views=TopicViews(config.node_id, replicas.lost.why_offline),
        own_status=partial(_own_status, base, lifecycle, replicas, findings),
        dynamic=base.dynamic,
        groups=coordinators.groups.coordinator,
        transactions=coordinators.transactions.coordinator,
        request_producer_id=producer_ids.request,
        has_authorizer=request_authorizer is not None,
        share_holder=None if request_authorizer is None else request_authorizer.share_holder,
        authentication=requests.authentication,
        quotas=requests.quotas,
        audit_request=audited.found,
    )
    passes = None if request_authorizer is None else request_authorizer.passes
    router = Router(handlers(parts), passes, audited.watch)
    return Apis(router=router, forwarded=forwarded, describe_metadata=describe_metadata)


def _own_status(
    base: Foundation, lifecycle: BrokerLifecycle, replicas: ReplicaParts, findings: NodeFindings
) -> OwnStatus:
    return own_status(
        base.config,
        lifecycle,
        replicas,
        base.image(),
        metadata_age_ms=base.quorum.raft.contact_ms_ago(),
        failed_log_dirs=base.failures.offline_log_dirs(),
        silent_ms=base.log_manager.calls.ages_ms(),
        findings=findings,
    )
