"""The doors of a node as gRPC serves them: `Doors` of `broker/network/doors.py`.

An edge. Not here: the handling of each service's requests (`client_door.py`, `controller_door.py`,
`replication_door.py`).
"""

from __future__ import annotations

import asyncio

from broker.config.node_config import NodeConfig
from broker.grpc.client_door import BrokerDoor, DoorLimits
from broker.grpc.controller_door import ControllerDoor, QuorumDoor
from broker.grpc.limits import RequestDecoders
from broker.grpc.servers import GrpcServer, broker_server, controller_server, inter_broker_server, listener_limits
from broker.network.client_names import ClientNames
from broker.network.connection_watch import ConnectionWatch
from broker.network.doors import BrokerListeners, BrokerService, ControllerService
from broker.network.stream_quotas import StreamQuotas
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
            listener_limits(config, service.connections_max),
            QuorumDoor(service.quorum),
            ControllerDoor(service.controller, service.describe_quorum),
            self._clock,
            self._threads,
        )

    def __repr__(self) -> str:
        return "GrpcDoors()"


class _GrpcBroker:
    """The two listeners, and the limits of their bytes and connections."""

    def __init__(self, config: NodeConfig, service: BrokerService, clock: Clock, threads: Threads) -> None:
        self.decoders = RequestDecoders(config.socket_request_max_bytes)
        limits = listener_limits(config, service.client_connections_max)
        node_limits = listener_limits(config, service.node_connections_max)
        quotas = StreamQuotas(limits.connections_max, limits.connections_max_per_ip)
        self.clients = ClientNames()
        held = DoorLimits(self.decoders, quotas, service.client_requests, service.node_requests, self.clients)
        name = config.inter_broker_listener_name
        self._door = BrokerDoor(service.channel, service.new_session, held, name, service.convert)
        self._servers = (
            broker_server(config.listener("BROKER"), limits, self._door, held, clock, threads),
            inter_broker_server(name, config.listener(name), node_limits, self._door, held, clock, threads),
        )

    @property
    def connections(self) -> ConnectionWatch:
        return self._servers[0].connections

    def open(self) -> None:
        self._door.open()

    async def start(self) -> None:
        for server in self._servers:
            await server.start()

    async def serving(self, is_serving: bool) -> None:
        for server in self._servers:
            await server.serving(is_serving)

    async def stop(self) -> None:
        await asyncio.gather(*(server.stop() for server in self._servers))

    def __repr__(self) -> str:
        return f"_GrpcBroker({self.connections!r})"
