"""The listeners of a node as gRPC serves them: `Listeners` of `broker/network/listeners.py`.

An edge. Not here: the handling of each service's requests (`client_calls.py`, `client_streams.py`,
`controller_calls.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from broker.config.node_config import NodeConfig
from broker.connections.connection_watch import ConnectionWatch
from broker.connections.listener_limits import listener_limits
from broker.grpc.broker_listeners import ServedListeners
from broker.grpc.callers import node_callers
from broker.grpc.incoming.request_decoder import RequestDecoders
from broker.grpc.servers import (
    GrpcServer,
    add_broker_apis,
    add_client_apis,
    add_controller_apis,
    broker_server,
    controller_server,
)
from broker.network.client_names import ClientNames
from broker.network.listeners import BrokerListeners, BrokerService, ControllerService
from broker.tls.material import NO_CERTIFICATES, Certificates
from metadata.listeners import CONTROLLER_LISTENER
from penstock.clock import Clock
from penstock.threads import Threads


class GrpcListeners:
    """Listeners on the machine's network."""

    def __init__(self, clock: Clock, threads: Threads, certificates: Certificates = NO_CERTIFICATES) -> None:
        self._clock, self._threads, self._certificates = clock, threads, certificates

    def broker(self, config: NodeConfig, service: BrokerService) -> BrokerListeners:
        return _GrpcBroker(config, service, self._clock, self._threads, self._certificates)

    def controller(self, config: NodeConfig, service: ControllerService) -> GrpcServer:
        limits = listener_limits(config, CONTROLLER_LISTENER, service.connections_max)
        endpoint = config.listener(CONTROLLER_LISTENER)
        callers = node_callers(config, CONTROLLER_LISTENER, service.cluster_id, self._certificates)
        server = controller_server(endpoint, limits, self._clock, self._threads, self._certificates, callers)
        add_controller_apis(server, limits, service, self._clock, callers)
        return server

    def __repr__(self) -> str:
        return "GrpcListeners()"


class _GrpcBroker:
    """A server for each listener."""

    def __init__(
        self, config: NodeConfig, service: BrokerService, clock: Clock, threads: Threads, certificates: Certificates
    ) -> None:
        self._served = ServedListeners(config, service, certificates)
        self._servers = {
            served.name: broker_server(served, clock, threads, certificates) for served in self._served.all
        }
        for served in self._served.of_clients:
            add_client_apis(self._servers[served.name], served, service.channel)
        brokers = self._served.of_brokers
        add_broker_apis(self._servers[brokers.name], brokers, service.channel)

    @property
    def decoders(self) -> RequestDecoders:
        return self._served.decoders

    @property
    def clients(self) -> ClientNames:
        return self._served.names

    @property
    def connections(self) -> Mapping[str, ConnectionWatch]:
        return {name: server.connections for name, server in self._servers.items()}

    def open(self) -> None:
        self._served.open()

    async def start(self) -> None:
        for server in self._servers.values():
            await server.start()

    async def serving(self, is_serving: bool) -> None:
        for server in self._servers.values():
            await server.serving(is_serving)

    async def stop(self) -> None:
        await asyncio.gather(*(server.stop() for server in self._servers.values()))

    def __repr__(self) -> str:
        return f"_GrpcBroker({self._served!r})"
