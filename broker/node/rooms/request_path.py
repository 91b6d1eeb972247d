"""Makes the way of a request from the listeners to the bounded queue, and what limits it.

The APIs that take requests out of the queue are made later (apis.py): one of them tells how the broker stands with the
controller, and that stands on the listeners.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from broker.apis.arrivals.arrival_waits import ArrivalWaits
from broker.apis.fetch_sessions.fetch_session import FetchSession, SessionMemory
from broker.apis.producing.produce_conversion import ProduceConverter, threads_for
from broker.audit.audit_log import AuditLog
from broker.authentication.authentication import Authentication
from broker.authorization.gatekeeper import Gatekeeper
from broker.config.node_config import NodeConfig
from broker.connections.listener_limits import shared_by_clients
from broker.load.busy_time import BusyTimes
from broker.network.client_names import ClientNames
from broker.network.doors import BrokerListeners, BrokerService
from broker.network.failed_requests import FailedRequests
from broker.network.io_threads import IoThreads
from broker.network.memory_budget import MemoryBudget
from broker.network.named_sessions import ID_MAX, NamedSessions
from broker.network.request_channel import Request, RequestChannel
from broker.network.request_memory import RequestMemory
from broker.node.environment import Environment
from broker.node.process.descriptors import plan_descriptors
from broker.node.rooms.authentication import make_authentication
from broker.node.rooms.authorization import make_gatekeeper
from broker.node.rooms.quorum import QuorumParts
from broker.node.rooms.quotas import make_quotas
from broker.node.rooms.replication import Replication
from broker.quotas.request_quotas import RequestQuotas
from metadata.image import MetadataImage

ANSWERS_STREAM_SHARE = 16
"""Share of the answers' budget: a stream that does not read keeps 1/16 of it, until it is closed."""
OTHER_ANSWERS_SHARE = 4
"""Answers to all but fetches may take this part of the answers' budget besides, and one stream a quarter of that. They
are counted once they are built, and only large ones."""


@dataclass(frozen=True, slots=True)
class RequestPath:
    """The path of requests from the listeners to the queue."""

    channel: RequestChannel
    failed_requests: FailedRequests
    io_threads: IoThreads
    converter: ProduceConverter
    arrivals: ArrivalWaits
    request_memory: RequestMemory
    log_in_memory: RequestMemory
    answer_memory: MemoryBudget
    session_memory: MemoryBudget
    named_sessions: NamedSessions
    authentication: Authentication
    listeners: BrokerListeners
    gatekeeper: Gatekeeper | None
    """None without an authorizer."""
    quotas: RequestQuotas
    audit: AuditLog


def make_request_path(
    config: NodeConfig,
    environment: Environment,
    busy: BusyTimes,
    quorum: QuorumParts,
    replication: Replication,
    request_sent: Callable[[Request, int], None],
    on_fatal: Callable[[BaseException], None],
) -> RequestPath:
    """Takes nothing before the listeners are started."""
    clock, threads, replicas = environment.clock, environment.threads, replication.replicas
    channel = RequestChannel(config.queued_max_requests, busy, clock.now_ns, request_sent)
    failed = FailedRequests(on_fatal)
    io_threads = IoThreads(threads, config.num_io_threads, len(config.log_dirs), busy.handlers, clock.now_ns)
    answer_memory = MemoryBudget(config.queued_max_response_bytes, ANSWERS_STREAM_SHARE)
    other_answers = MemoryBudget(config.queued_max_response_bytes // OTHER_ANSWERS_SHARE, OTHER_ANSWERS_SHARE)
    request_memory = RequestMemory(config.queued_max_request_bytes, other_answers)
    log_in_memory, audit = RequestMemory.before_log_in(), AuditLog(clock.now_ms)
    session_memory = MemoryBudget(config.fetch_sessions_max_bytes, 1)
    get, count_out, throttle = replicas.hosted.get, replicas.traffic.count_out, replication.leader_throttle

    def new_session(party: str, *, is_stream: bool = True) -> FetchSession:
        memory = SessionMemory(answer_memory.open(party), session_memory.open(party))
        limits = config.fetch_max_bytes, count_out, memory
        return FetchSession(get, clock, *limits, failed.fail, io_threads, throttle, is_stream=is_stream)

    named_sessions = NamedSessions(
        partial(new_session, is_stream=False),
        config.max_incremental_fetch_session_cache_slots,
        config.min_incremental_fetch_session_eviction_ms,
        lambda: environment.random.randint(1, ID_MAX),
    )
    descriptors = plan_descriptors(environment.descriptors_max)
    connections_max, quotas = descriptors.client_connections_max, make_quotas(config, quorum.loader)

    def image() -> MetadataImage:
        return quorum.loader.image

    gatekeeper = make_gatekeeper(config, image, audit)
    arrivals = _arrivals(environment, quorum, replication, gatekeeper)
    converter = _converter(config, environment, replication, gatekeeper)
    authentication = make_authentication(config, environment, image, connections_max, audit)
    service = BrokerService(
        channel=channel,
        new_session=new_session,
        prepare=converter.begin,
        client_requests=request_memory,
        node_requests=RequestMemory(config.queued_max_request_bytes),
        client_connections_max=connections_max,
        node_connections_max=descriptors.node_connections_max,
        shared=shared_by_clients(config, connections_max),
        cluster_id=quorum.cluster_id,
        on_fatal=on_fatal,
        fail=failed.fail,
        image=image,
        wall_ms=clock.wall_ms,
        named_sessions=named_sessions,
        names=ClientNames(authentication.listeners),
        authentication=authentication,
        quotas=quotas,
        address_quotas=quotas.clients,
        permissions=gatekeeper,
        arrivals=arrivals,
        requests_before_log_in=log_in_memory,
    )
    memories = request_memory, log_in_memory, answer_memory, session_memory, named_sessions
    checks = authentication, environment.doors.broker(config, service), gatekeeper, quotas
    return RequestPath(channel, failed, io_threads, converter, arrivals, *memories, *checks, audit=audit)


def _arrivals(
    environment: Environment, quorum: QuorumParts, replication: Replication, gatekeeper: Gatekeeper | None
) -> ArrivalWaits:
    hosted, raft, loader = replication.replicas.hosted, quorum.raft, quorum.loader
    arrivals = ArrivalWaits(
        lambda: loader.image,
        hosted,
        lambda: raft.high_watermark,
        quorum.committed_end,
        environment.clock,
        gatekeeper,
    )
    hosted.subscribe(arrivals.news)
    loader.subscribe(lambda delta, image: arrivals.news())  # AFTER the replicas have taken their roles of it
    return arrivals


def _converter(
    config: NodeConfig, environment: Environment, replication: Replication, gatekeeper: Gatekeeper | None
) -> ProduceConverter:
    threads = threads_for(environment.processors)
    executor = environment.threads.executor("produce-conversion", threads)
    find, may_write = replication.replicas.hosted.find, gatekeeper.may_write if gatekeeper else None
    return ProduceConverter(find, replication.stamps, executor, threads, config.socket_request_max_bytes, may_write)
