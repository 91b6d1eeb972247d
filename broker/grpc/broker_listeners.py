"""The gRPC listeners of a broker, each with its handlers and limits: those for clients, and the one for brokers. An
edge.

Each listener for clients has handlers of its own, which know its name, so that its clients are told of that listener's
endpoints (KIP-103). All of them lead to one request channel. What clients may have is counted for each listener and for
all together, those of Kafka's clients too; the followers' listener shares none of it. Not here: the servers
(servers.py), and the listeners for Kafka's clients.
"""

from __future__ import annotations

from dataclasses import replace

from broker.config.node_config import NodeConfig
from broker.connections.connection_guard import ConnectionGuard
from broker.connections.listener_limits import ListenerLimits, listener_limits
from broker.connections.stream_quotas import StreamQuotas
from broker.connections.turns import PeerTurns
from broker.connections.under_way import Shares
from broker.grpc.access import ListenerAccess
from broker.grpc.callers import Callers, client_callers, node_callers
from broker.grpc.client_streams import StreamHandlers, StreamLimits
from broker.grpc.incoming.request_decoder import RequestDecoders
from broker.network.listeners import BrokerService
from broker.network.named_partitions import arrivals_first, coordinators_first
from broker.tls.material import NO_CERTIFICATES, Certificates
from penstock.lazy_dataclass import dataclass
from penstock.types import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedListener:
    """One listener: where it is, what it may take, and what serves it."""

    name: str
    endpoint: Endpoint
    limits: ListenerLimits
    guard: ConnectionGuard
    held: StreamLimits
    access: ListenerAccess
    handlers: StreamHandlers
    shares: Shares | None = None
    """The shares of clients in what is under way; None where only nodes call."""


class ServedListeners:
    """All of one broker that speak gRPC."""

    def __init__(
        self, config: NodeConfig, service: BrokerService, certificates: Certificates = NO_CERTIFICATES
    ) -> None:
        self.decoders = RequestDecoders(config.socket_request_max_bytes)
        self.names = service.names
        self._config, self._service, self._certificates = config, service, certificates
        share = service.client_connections_max
        shared = service.shared
        streams = StreamQuotas(shared.connections_max, min(config.max_connections_per_ip, shared.connections_max))
        shares = Shares(config.queued_max_request_bytes, config.socket_request_max_bytes)
        self.of_clients = tuple(
            replace(self._served(name, limits, limits.guard(name, shared), streams), shares=shares)
            for name in config.grpc_client_listeners
            for limits in (listener_limits(config, name, share),)
        )
        name = config.inter_broker_listener_name
        limits = listener_limits(config, name, service.node_connections_max)
        self.of_brokers = self._served(name, limits, limits.guard(name), None)

    def _served(
        self, name: str, limits: ListenerLimits, guard: ConnectionGuard, streams: StreamQuotas | None
    ) -> ServedListener:
        config, service = self._config, self._service
        key = f"listener.name.{name.lower()}.max.connections"
        is_own = config.overrides(name).max_connections == limits.connections_max
        quotas = StreamQuotas(
            limits.connections_max, limits.connections_max_per_ip, streams, key if is_own else "max.connections"
        )
        held = StreamLimits(
            decoders=self.decoders,
            connections=quotas,
            requests=service.client_requests,
            node_requests=service.node_requests,
            clients=self.names,
            quotas=service.quotas,
            log_ins=service.requests_before_log_in,
        )
        inter_broker = config.inter_broker_listener_name
        access = ListenerAccess(name, inter_broker, self._callers(name), self._turns(name))
        is_of_brokers, arrivals = name == inter_broker, service.arrivals
        prepare = coordinators_first(arrivals) if is_of_brokers else arrivals_first(arrivals, service.prepare)
        handlers = StreamHandlers(service.channel, service.new_session, held, access, prepare)
        return ServedListener(
            name=name,
            endpoint=config.listener(name),
            limits=limits,
            guard=guard,
            held=held,
            access=access,
            handlers=handlers,
        )

    def _callers(self, name: str) -> Callers:
        config, service = self._config, self._service
        if name == config.inter_broker_listener_name:
            return node_callers(config, name, service.cluster_id, self._certificates)
        return client_callers(config, name, self._certificates, service.authentication, self._now_ms)

    def _turns(self, name: str) -> PeerTurns | None:
        """None between nodes, which have no quotas."""
        quotas = self._service.address_quotas
        if quotas is None or name == self._config.inter_broker_listener_name:
            return None
        return PeerTurns(quotas, self._now_ms)

    def _now_ms(self) -> int:
        return self._service.channel.now_ns() // 1_000_000

    @property
    def all(self) -> tuple[ServedListener, ...]:
        """All listeners, those for clients first."""
        return (*self.of_clients, self.of_brokers)

    def open(self) -> None:
        """Requests are taken from now on."""
        for served in self.all:
            served.access.open()

    def __repr__(self) -> str:
        return f"ServedListeners({', '.join(served.name for served in self.all)})"
