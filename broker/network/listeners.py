"""The port for requests to a node: the listeners that serve clients and other nodes.

A node gives the parts that serve (`BrokerService`, `ControllerService`); `Listeners` make the listeners. gRPC is one
implementation (`broker/grpc/grpc_listeners.py`); tests have another on a simulated network
(`tests/simulation/cluster/rpc.py`). Not here: the handling of a request in the request channel; `/metrics`, which the
process serves (`broker/node/server.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any, Protocol

from broker.authentication.authentication import Authentication
from broker.config.node_config import NodeConfig
from broker.connections.connection_guard import ConnectionGuardStatistics
from broker.connections.shared_connections import SharedConnections
from broker.connections.turns import AddressQuotas
from broker.network.client_names import ClientNames
from broker.network.connection_loop import Prepare, Quotas
from broker.network.failed_requests import FailedRequests, FailRequest
from broker.network.fetcher_session import NewSession
from broker.network.named_partitions import Arrivals
from broker.network.named_sessions import NamedSessions, no_named_sessions
from broker.network.request_channel import Caller, RequestChannel
from broker.network.request_memory import RequestMemory
from broker.network.telemetry.client_telemetry import ClientTelemetry, no_telemetry
from metadata.features import TABLE, FeatureTable
from metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.security.acls import Operation, ResourceType
from raft.voters import NO_VOTERS, VoterSet

Handle = Callable[[Any], Awaitable[Any]]
"""Answers a request, or raises a typed error."""


class Permissions(Protocol):
    """Judges callers: for what a listener looks up by itself, and tells without asking the node."""

    def may(self, caller: Caller, operation: Operation, resource: ResourceType, name: str, /) -> bool: ...

    def may_any(self, caller: Caller, operation: Operation, resource: ResourceType, /) -> bool:
        """True if the caller may do this with some resource of the type."""
        ...

    def refusal(
        self, caller: Caller, api: str, operation: Operation, resource: ResourceType, name: str, /
    ) -> ApiError | None:
        """None if the caller may do this; noted otherwise."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerService:
    """The parts with which a broker serves its clients and its followers."""

    channel: RequestChannel
    new_session: NewSession
    prepare: Prepare
    """Converts the batches of a Produce (apis/producing/produce_conversion.py); a connection waits for it BEFORE its
    request queues."""
    client_requests: RequestMemory
    node_requests: RequestMemory
    """Clients that fill their budget do not hold up followers."""
    client_connections_max: int
    node_connections_max: int
    """The connections for which the process has descriptors; `max.connections` may be less."""
    shared: SharedConnections
    """The limits of all listeners for clients together, whichever protocol each speaks."""
    cluster_id: str = ""
    names: ClientNames = field(default_factory=ClientNames)
    """Counts the clients of all listeners together."""
    on_fatal: Callable[[BaseException], None] = lambda error: None
    """Ends the node."""
    fail: FailRequest = FailedRequests(lambda error: None).fail
    """Answers a request with an exception."""
    image: Callable[[], MetadataImage] = lambda: EMPTY_IMAGE
    """The newest metadata of this node."""
    voters: Callable[[], VoterSet] = lambda: NO_VOTERS
    """The quorum's voters, as this node knows them now."""
    features: FeatureTable = TABLE
    """The feature levels that this node knows."""
    wall_ms: Callable[[], int] = lambda: 0
    """The calendar: milliseconds since 1970."""
    named_sessions: NamedSessions = field(default_factory=no_named_sessions)
    telemetry: ClientTelemetry = field(default_factory=no_telemetry)
    """The clients that push their metrics."""
    authentication: Authentication | None = None
    """The authentication of listeners with SASL."""
    quotas: Quotas | None = None
    """None where nobody is held to any."""
    address_quotas: AddressQuotas | None = None
    permissions: Permissions | None = None
    """None without an authorizer: everybody may do everything."""
    arrivals: Arrivals | None = None
    """The waits for partitions; None: no request waits for partitions that this broker does not have yet."""
    requests_before_log_in: RequestMemory = field(default_factory=RequestMemory.before_log_in)
    """Requests of connections that have still to log in, at all listeners."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerService:
    """The parts with which a controller serves the quorum and the brokers."""

    quorum: Handle
    controller: Handle
    connections_max: int
    cluster_id: str = ""


class Listener(Protocol):
    """A listener that can be started and stopped; `serving` sets the answer of its health service."""

    async def start(self) -> None:
        """Take requests; ConfigError if the address cannot be bound."""
        ...

    async def serving(self, is_serving: bool) -> None: ...

    async def stop(self) -> None: ...


class Decoders(Protocol):
    """Reads requests from bytes."""

    def received_bytes(self) -> Counter[str]:
        """Bytes of the requests that came, refused ones too, by API."""
        ...

    def refused(self) -> Counter[str]:
        """Requests that were refused before any work, by API."""
        ...


class Connections(Protocol):
    """Counts the connections of a listener."""

    def statistics(self) -> ConnectionGuardStatistics: ...


class BrokerListeners(Listener, Protocol):
    """The listeners for clients and the inter-broker listener together."""

    def open(self) -> None:
        """The node has caught up with the metadata: requests are taken from now on."""
        ...

    @property
    def decoders(self) -> Decoders: ...

    @property
    def clients(self) -> ClientNames: ...

    @property
    def connections(self) -> Mapping[str, Connections]:
        """The connections by the name of the listener, those for clients first."""
        ...


class NodeListeners(Protocol):
    """Makes the listeners of one node."""

    def broker(self, config: NodeConfig, service: BrokerService, /) -> BrokerListeners: ...

    def controller(self, config: NodeConfig, service: ControllerService, /) -> Listener: ...
