"""Makes the way of a request from the listeners to the bounded queue, and what limits it: log-ins by SASL, rights,
quotas.

The APIs that take requests out of the queue are made later (apis.py): one of them tells how the broker stands with the
controller, and that stands on the listeners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from broker.apis.arrivals.arrival_waits import ArrivalWaits
from broker.apis.fetch_sessions.fetch_session import FetchSession, SessionMemory
from broker.apis.producing.produce_conversion import ProduceConverter, threads_for
from broker.apis.served_apis import JUDGED_IN_PARTS, RULES
from broker.audit.audit_log import AuditLog
from broker.audit.log_ins import AuditedLogIns
from broker.authentication.authentication import Authentication
from broker.authentication.authentication_counts import AuthenticationCounts
from broker.authentication.logins import Dialogue, LoginListener, Logins
from broker.authentication.sessions import Sessions, session_lifetime_ms
from broker.authorization.authorizer import Authorizer
from broker.authorization.request_authorizer import RequestAuthorizer
from broker.config.node_config import NodeConfig
from broker.connections.listener_limits import shared_by_clients
from broker.metrics.field_readings import labelled, record_readings
from broker.metrics.listener_readings import (
    authentication_readings,
    connection_readings,
    conversion_readings,
    decoder_readings,
    io_readings,
    queue_readings,
    refusal_readings,
    telemetry_readings,
)
from broker.metrics.metrics import Reading
from broker.network.client_names import ClientNames
from broker.network.failed_requests import FailedRequests, FailRequest
from broker.network.io_threads import IoThreads
from broker.network.listeners import BrokerListeners, BrokerService
from broker.network.memory_budget import MemoryBudget
from broker.network.named_sessions import ID_MAX, NamedSessions
from broker.network.request_channel import Request, RequestChannel
from broker.network.request_memory import RequestMemory
from broker.network.telemetry.client_telemetry import ClientTelemetry
from broker.node.environment import Environment
from broker.node.parts.foundation import Foundation
from broker.node.parts.quorum import QuorumParts
from broker.node.parts.replication import Replication
from broker.node.process.descriptors import plan_descriptors
from broker.quorum.metadata_loader import MetadataLoader
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.request_quotas import RequestQuotas
from broker.quotas.sampled_rate import QuotaWindows
from metadata.image import MetadataImage
from metadata.scram import ImageCredentials
from penstock.ids import RandomIds
from penstock.lazy_dataclass import dataclass

ANSWERS_STREAM_SHARE = 16
"""Share of the answers' budget: a stream that does not read keeps 1/16 of it, until it is closed."""
OTHER_ANSWERS_SHARE = 4
"""Answers to all but fetches may take this part of the answers' budget besides, and one stream a quarter of that. They
are counted once they are built, and only large ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
    request_authorizer: RequestAuthorizer | None
    """None without an authorizer."""
    quotas: RequestQuotas
    audit: AuditLog
    telemetry: ClientTelemetry

    def readings(self) -> Iterator[Reading]:
        """The metrics of this room."""
        yield from queue_readings(self.channel)
        yield from io_readings(self.io_threads)
        budgets = {
            "requests": self.request_memory.statistics(),
            "log-ins": self.log_in_memory.statistics(),
            "answers": self.answer_memory.statistics(),
            "other-answers": self.request_memory.answers.statistics(),
            "sessions": self.session_memory.statistics(),
        }
        yield from labelled("kind", budgets)
        yield from record_readings(self.named_sessions.statistics())
        yield from record_readings(self.arrivals.statistics())
        yield from refusal_readings(self.request_authorizer)
        yield from labelled("quota", self.quotas.clients.statistics())
        yield from record_readings(self.audit.statistics())
        yield from connection_readings(self.listeners)
        yield from telemetry_readings(self.telemetry)
        yield from authentication_readings(self.authentication)
        yield from conversion_readings(self.converter)
        yield from decoder_readings(self.listeners.decoders)


def make_request_path(
    base: Foundation, replication: Replication, request_sent: Callable[[Request, int], None]
) -> RequestPath:
    """Makes the path; it takes no request before the listeners are started."""
    config, environment, quorum = base.config, base.environment, base.quorum
    clock, threads, busy = environment.clock, environment.threads, base.busy
    channel = RequestChannel(config.queued_max_requests, busy, clock.now_ns, request_sent)
    io_threads = IoThreads(threads, config.num_io_threads, len(config.log_dirs), busy.handlers, clock.now_ns)
    answer_memory = MemoryBudget(config.queued_max_response_bytes, ANSWERS_STREAM_SHARE)
    other_answers = MemoryBudget(config.queued_max_response_bytes // OTHER_ANSWERS_SHARE, OTHER_ANSWERS_SHARE)
    request_memory = RequestMemory(config.queued_max_request_bytes, other_answers)
    log_in_memory, audit, failed = RequestMemory.before_log_in(), AuditLog(clock.now_ms), FailedRequests(base.on_fatal)
    session_memory = MemoryBudget(config.fetch_sessions_max_bytes, 1)
    new_session = partial(
        _new_session, base, replication, answers=answer_memory, sessions=session_memory, fail=failed.fail, io=io_threads
    )
    named_sessions = _named_sessions(config, environment, new_session)
    descriptors = plan_descriptors(environment.descriptors_max)
    connections_max, quotas = descriptors.client_connections_max, make_quotas(config, quorum.loader)
    request_authorizer = make_request_authorizer(config, base.image, audit)
    arrivals = _arrivals(environment, quorum, replication, request_authorizer)
    converter = _converter(config, environment, replication, request_authorizer)
    authentication = make_authentication(config, environment, base.image, connections_max, audit)
    telemetry = ClientTelemetry(base.image, clock, RandomIds(environment.random))
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
        on_fatal=base.on_fatal,
        fail=failed.fail,
        image=base.image,
        voters=lambda: quorum.raft.voters,
        features=quorum.features,
        wall_ms=clock.wall_ms,
        named_sessions=named_sessions,
        names=ClientNames(authentication.listeners),
        telemetry=telemetry,
        authentication=authentication,
        quotas=quotas,
        address_quotas=quotas.clients,
        permissions=request_authorizer,
        arrivals=arrivals,
        requests_before_log_in=log_in_memory,
    )
    return RequestPath(
        channel=channel,
        failed_requests=failed,
        io_threads=io_threads,
        converter=converter,
        arrivals=arrivals,
        request_memory=request_memory,
        log_in_memory=log_in_memory,
        answer_memory=answer_memory,
        session_memory=session_memory,
        named_sessions=named_sessions,
        authentication=authentication,
        listeners=environment.listeners.broker(config, service),
        request_authorizer=request_authorizer,
        quotas=quotas,
        audit=audit,
        telemetry=telemetry,
    )


def _named_sessions(config: NodeConfig, environment: Environment, new_session: Any) -> NamedSessions:
    return NamedSessions(
        partial(new_session, is_stream=False),
        config.max_incremental_fetch_session_cache_slots,
        config.min_incremental_fetch_session_eviction_ms,
        lambda: environment.random.randint(1, ID_MAX),
    )


def _new_session(
    base: Foundation,
    replication: Replication,
    party: str,
    *,
    answers: MemoryBudget,
    sessions: MemoryBudget,
    fail: FailRequest,
    io: IoThreads,
    is_stream: bool = True,
) -> FetchSession:
    return FetchSession(
        replication.replicas.hosted.get,
        base.environment.clock,
        base.config.fetch_max_bytes,
        count_out=replication.replicas.traffic.count_out,
        memory=SessionMemory(answers.open(party), sessions.open(party)),
        fail=fail,
        io=io,
        throttle=replication.leader_throttle,
        readers=replication.readers,
        is_stream=is_stream,
    )


def _arrivals(
    environment: Environment,
    quorum: QuorumParts,
    replication: Replication,
    request_authorizer: RequestAuthorizer | None,
) -> ArrivalWaits:
    hosted, raft, loader = replication.replicas.hosted, quorum.raft, quorum.loader
    arrivals = ArrivalWaits(
        image=lambda: loader.image,
        hosted=hosted,
        known_end_offset=lambda: raft.high_watermark,
        read_end=quorum.committed_end,
        clock=environment.clock,
        permissions=request_authorizer,
    )
    hosted.subscribe(arrivals.news)
    loader.subscribe(lambda delta, image: arrivals.news())  # AFTER the replicas have taken their roles of it
    return arrivals


def _converter(
    config: NodeConfig, environment: Environment, replication: Replication, request_authorizer: RequestAuthorizer | None
) -> ProduceConverter:
    threads = threads_for(environment.processors)
    executor = environment.threads.executor("produce-conversion", threads)
    find, may_write = replication.replicas.hosted.find, request_authorizer.may_write if request_authorizer else None
    return ProduceConverter(
        find=find,
        clock=replication.stamps,
        executor=executor,
        threads=threads,
        request_unpacked_bytes_max=config.socket_request_max_bytes,
        may_write=may_write,
    )


def make_request_authorizer(
    config: NodeConfig, image: Callable[[], MetadataImage], audit: AuditLog
) -> RequestAuthorizer | None:
    """None where everybody may do everything."""
    if not config.authorizer_class_name:
        return None
    authorizer = Authorizer(
        lambda: image().acls,
        config.super_user_principals,
        allows_without_acls=config.allow_everyone_if_no_acl_found,
    )
    return RequestAuthorizer(
        authorizer, image, config.inter_broker_listener_name, audit, rules=RULES, judged_in_parts=JUDGED_IN_PARTS
    )


def make_quotas(config: NodeConfig, loader: MetadataLoader) -> RequestQuotas:
    """Makes the quotas, which are notified of the metadata from now on."""
    windows = QuotaWindows(config.quota_window_num, config.quota_window_size_seconds * 1_000)
    size_ms = config.controller_quota_window_size_seconds * 1_000
    quotas = RequestQuotas(ClientQuotas(windows, QuotaWindows(config.controller_quota_window_num, size_ms)))
    loader.subscribe(quotas.published)
    return quotas


def make_authentication(
    config: NodeConfig,
    environment: Environment,
    image: Callable[[], MetadataImage],
    connections_max: int,
    audit: AuditLog,
) -> Authentication:
    """`connections_max` is the number of connections that clients may have."""
    ids, counts = environment.ids, AuthenticationCounts(config.client_listeners)

    def secret() -> str:
        """32 random bytes, in base64url."""
        return ids.new_id() + ids.new_id()

    logins = Logins(
        users=ImageCredentials(lambda: image().scram),
        new_nonce=secret,
        slowly=environment.threads.executor("authentication", 1),
        counts=counts,
        refusal_delay_ms=config.connection_failed_authentication_delay_ms,
        watch=AuditedLogIns(audit),
        tokens=environment.tokens,
    )

    def lifetime_ms(dialogue: Dialogue) -> int:
        longest: int = config.security_of(dialogue.listener, "connections_max_reauth_ms")
        return session_lifetime_ms(longest, dialogue.ends_ms, environment.clock.wall_ms())

    return Authentication(_listeners(config), lifetime_ms, logins, Sessions(connections_max, secret), counts)


def _listeners(config: NodeConfig) -> dict[str, LoginListener]:
    found = {}
    for name in config.listeners:
        protocol = config.security_protocol(name)
        if protocol.is_sasl:
            mechanisms = config.security_of(name, "sasl_enabled_mechanisms")
            found[name] = LoginListener(name, mechanisms, protocol.is_tls)
    return found
