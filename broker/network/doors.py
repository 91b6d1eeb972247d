"""The port for what comes in to a node: the listeners that serve clients, other nodes and scrapes of the metrics.

A node says with what it serves (`BrokerService`, `ControllerService`); `Doors` make the listeners. gRPC and HTTP are
one implementation (`broker/grpc/grpc_doors.py`); tests have another that serves within one event loop
(`tests/support/memory_network.py`). Not here: what becomes of a request once it is in the request channel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from prometheus_client import CollectorRegistry

from broker.config.node_config import NodeConfig
from broker.network.client_names import ClientNames
from broker.network.connection_guard import ConnectionGuardStatistics
from broker.network.request_channel import RequestChannel
from broker.network.request_memory import RequestMemory
from broker.requests import ProduceRequest
from penstock.types import Endpoint

Handle = Callable[[Any], Awaitable[Any]]
"""Answers a request, or raises a typed error."""


class Session(Protocol):
    """What a fetch stream has as long as it lives: the request path finds it as its requests' context."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class BrokerService:
    """With what a broker serves its clients and its followers."""

    channel: RequestChannel
    new_session: Callable[[str], Session]
    """That of a fetch stream from a host."""
    convert: Callable[[ProduceRequest], Awaitable[None] | None]
    """What a produce stream waits for before its request queues, if anything."""
    client_requests: RequestMemory
    node_requests: RequestMemory
    """Clients that fill their budget do not hold up followers."""
    client_connections_max: int
    node_connections_max: int
    """What the process has descriptors for; `max.connections` may be less."""


@dataclass(frozen=True, slots=True)
class ControllerService:
    """With what a controller serves the quorum and the brokers."""

    quorum: Handle
    controller: Handle
    describe_quorum: Callable[[], Any]
    connections_max: int


class Listener(Protocol):
    """What can be started and stopped; `serving` is what it answers when somebody asks for its health."""

    async def start(self) -> None:
        """Take requests; ConfigError when the address cannot be had."""
        ...

    async def serving(self, is_serving: bool) -> None: ...

    async def stop(self) -> None: ...


class Decoders(Protocol):
    """What reads requests from bytes."""

    def received_bytes(self) -> Counter[str]:
        """Bytes of the requests that came, refused ones too, by API."""
        ...

    def refused(self) -> Counter[str]:
        """Requests that were refused before any work, by API."""
        ...


class Connections(Protocol):
    """Who counts the connections of a listener."""

    def statistics(self) -> ConnectionGuardStatistics: ...


class BrokerListeners(Listener, Protocol):
    """The clients' listener and the inter-broker listener together."""

    def open(self) -> None:
        """The node has caught up with the metadata: requests are taken from now on."""
        ...

    @property
    def decoders(self) -> Decoders: ...

    @property
    def clients(self) -> ClientNames: ...

    @property
    def connections(self) -> Connections:
        """Of the clients' listener."""
        ...


class Doors(Protocol):
    """Makes the listeners of one node."""

    def broker(self, config: NodeConfig, service: BrokerService, /) -> BrokerListeners: ...

    def controller(self, config: NodeConfig, service: ControllerService, /) -> Listener: ...

    def metrics(self, endpoint: Endpoint, registry: CollectorRegistry, /) -> Callable[[], None]:
        """Answer scrapes from now on; returns what ends that. ConfigError when the address cannot be had."""
        ...
