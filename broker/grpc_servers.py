"""Makes the node's gRPC servers: one for each listener, with health and reflection, on a port of their own. An edge."""

from __future__ import annotations

from typing import Any

import grpc.aio
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from broker.grpc_controller_door import ControllerDoor, QuorumDoor
from broker.grpc_door import BrokerDoor
from broker.grpc_handlers import add_service
from broker.grpc_limits import RequestDecoders
from broker.grpc_peers import MESSAGE_BYTES_OVERHEAD
from broker.grpc_replication_door import ReplicationDoor
from penstock.errors import ConfigError
from penstock.pb import broker_pb2, controller_pb2, quorum_pb2, replication_pb2
from penstock.types import Endpoint

BROKER_SERVICE = broker_pb2.DESCRIPTOR.services_by_name["Broker"]
REPLICATION_SERVICE = replication_pb2.DESCRIPTOR.services_by_name["Replication"]
QUORUM_SERVICE = quorum_pb2.DESCRIPTOR.services_by_name["Quorum"]
CONTROLLER_SERVICE = controller_pb2.DESCRIPTOR.services_by_name["Controller"]
STOP_GRACE_SECONDS = 0.5


class GrpcServer:
    """One listener. Health is NOT_SERVING until `serving` says otherwise."""

    def __init__(self, listener: str, endpoint: Endpoint, message_bytes_max: int) -> None:
        self._listener = listener
        self._endpoint = endpoint
        self._server = grpc.aio.server(options=_options(message_bytes_max))
        self._health = health.aio.HealthServicer()
        self._services: list[str] = []

    def add(self, service: ServiceDescriptor, servicer: object, decoders: RequestDecoders) -> None:
        """Serve `service`; its requests pass their limits before they are parsed."""
        add_service(self._server, service, servicer, decoders)
        self._services.append(service.full_name)

    async def start(self) -> None:
        """Bind and serve; ConfigError when the address cannot be had."""
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (*self._services, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        await self.serving(False)
        try:
            bound = self._server.add_insecure_port(str(self._endpoint))
        except RuntimeError:
            bound = 0
        if bound == 0:
            raise ConfigError(
                f"listeners: {self._listener} cannot listen on {self._endpoint}: the address is in use or not of this "
                "machine; choose another port or stop what holds it"
            )
        await self._server.start()

    async def serving(self, is_serving: bool) -> None:
        """What the health service answers, for the server ("") and each of its services."""
        known = health_pb2.HealthCheckResponse
        status = known.SERVING if is_serving else known.NOT_SERVING
        for service in ("", *self._services):
            await self._health.set(service, status)

    async def stop(self) -> None:
        await self._server.stop(STOP_GRACE_SECONDS)


def _options(message_bytes_max: int) -> list[tuple[str, Any]]:
    return [
        ("grpc.so_reuseport", 0),  # else a second node on the same port would share it in silence
        ("grpc.max_receive_message_length", message_bytes_max),
        ("grpc.max_send_message_length", message_bytes_max + MESSAGE_BYTES_OVERHEAD),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def broker_server(
    endpoint: Endpoint, message_bytes_max: int, door: BrokerDoor, decoders: RequestDecoders
) -> GrpcServer:
    server = GrpcServer("BROKER", endpoint, message_bytes_max)
    server.add(BROKER_SERVICE, door, decoders)
    return server


def inter_broker_server(
    listener: str, endpoint: Endpoint, message_bytes_max: int, door: ReplicationDoor, decoders: RequestDecoders
) -> GrpcServer:
    server = GrpcServer(listener, endpoint, message_bytes_max)
    server.add(REPLICATION_SERVICE, door, decoders)
    return server


def controller_server(
    endpoint: Endpoint, message_bytes_max: int, quorum: QuorumDoor, controller: ControllerDoor
) -> GrpcServer:
    server = GrpcServer("CONTROLLER", endpoint, message_bytes_max)
    decoders = RequestDecoders(message_bytes_max)
    server.add(QUORUM_SERVICE, quorum, decoders)
    server.add(CONTROLLER_SERVICE, controller, decoders)
    return server
