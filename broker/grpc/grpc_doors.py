"""The doors of a node as gRPC serves them: `Doors` of `broker/network/doors.py`.

An edge. Not here: the handling of each service's requests (`client_door.py`, `controller_door.py`,
`replication_door.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from broker.config.node_config import NodeConfig
from broker.grpc.broker_listeners import ServedListeners
from broker.grpc.controller_door import ControllerDoor, QuorumDoor
from broker.grpc.limits import RequestDecoders
from broker.grpc.servers import GrpcServer, broker_server, controller_server, inter_broker_server
from broker.network.client_names import ClientNames
from broker.network.connection_watch import ConnectionWatch
from broker.network.doors import BrokerListeners, BrokerService, ControllerService
from broker.network.listener_limits import listener_limits
from penstock.clock import Clock
from penstock.threads import Threads


class GrpcDoors:
    """Listeners on the machine's network."""

    def __init__(self, clock: Clock, threads: Threads) -> None:
        self._clock, self._threads = clock, threads

    def broker(self, config: NodeConfig, service: BrokerService) -> BrokerListeners:
        return _GrpcBroker(config, service, self._clock, self._threads)

    def controller(self, config: NodeConfig, service: ControllerService) -> GrpcServer:
        return controller_server(
            config.listener("CONTROLLER"),
            listener_limits(config, "CONTROLLER", service.connections_max),
            QuorumDoor(service.quorum),
            ControllerDoor(service.controller, service.describe_quorum),
            self._clock,
            self._threads,
        )

    def __repr__(self) -> str:
        return "GrpcDoors()"


class _GrpcBroker:
    """A server for each listener."""

    def __init__(self, config: NodeConfig, service: BrokerService, clock: Clock, threads: Threads) -> None:
        self._served = ServedListeners(config, service)
        self._servers = {served.name: broker_server(served, clock, threads) for served in self._served.of_clients}
        brokers = self._served.of_brokers
        self._servers[brokers.name] = inter_broker_server(brokers, clock, threads)

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
