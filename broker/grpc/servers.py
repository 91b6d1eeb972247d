"""Makes the node's gRPC servers: one for each listener, with health and reflection, on a port of their own. An edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import grpc.aio
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from broker.config.node_config import NodeConfig
from broker.grpc.client_door import BrokerDoor, DoorLimits
from broker.grpc.controller_door import ControllerDoor, QuorumDoor
from broker.grpc.handlers import add_service
from broker.grpc.limits import RequestDecoders
from broker.grpc.outgoing_calls import MESSAGE_BYTES_OVERHEAD
from broker.grpc.replication_door import ReplicationDoor
from broker.network.accepted_sockets import AcceptedSockets
from broker.network.busy_time import BusyTime
from broker.network.connection_guard import ConnectionGuard
from broker.network.connection_watch import ConnectionWatch, NoStreams, StreamsView
from broker.network.request_channel import SMALL_BYTES
from broker.network.request_memory import RequestMemory
from penstock.clock import Clock
from penstock.errors import ConfigError
from penstock.pb import broker_pb2, controller_pb2, quorum_pb2, replication_pb2
from penstock.threads import Threads
from penstock.types import Endpoint

BROKER_SERVICE = broker_pb2.DESCRIPTOR.services_by_name["Broker"]
REPLICATION_SERVICE = replication_pb2.DESCRIPTOR.services_by_name["Replication"]
QUORUM_SERVICE = quorum_pb2.DESCRIPTOR.services_by_name["Quorum"]
CONTROLLER_SERVICE = controller_pb2.DESCRIPTOR.services_by_name["Controller"]
STOP_GRACE_SECONDS = 0.5
HANDSHAKE_MS_MAX = 5_000
"""A connection that has not begun to speak HTTP/2 by then is closed (gRPC: 120 s)."""
CONNECTION_STREAMS_MAX = 256
"""Streams and calls of one connection at a time; a client waits with the next (gRPC: no limit)."""


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """The limits of one listener."""

    message_bytes_max: int
    request_bytes_max: int
    idle_ms_max: int
    connections_max: int
    connections_max_per_ip: int
    write_stall_ms_max: int


def listener_limits(config: NodeConfig, descriptors_share: int) -> ListenerLimits:
    """By the configuration, and never more connections than the process has descriptors for."""
    connections_max = min(config.max_connections, descriptors_share)
    return ListenerLimits(
        config.socket_request_max_bytes,
        config.queued_max_request_bytes,
        config.connections_max_idle_ms,
        connections_max,
        min(config.max_connections_per_ip, connections_max),
        config.connections_max_write_stall_ms,
    )


class GrpcServer:
    """One listener. Health is NOT_SERVING until `serving` says otherwise. `streams` are those that are open at it."""

    def __init__(
        self,
        listener: str,
        endpoint: Endpoint,
        limits: ListenerLimits,
        streams: StreamsView,
        clock: Clock,
        threads: Threads,
    ) -> None:
        self._listener = listener
        self._executor = threads.executor(f"connections-{listener}", 1)
        self._endpoint = endpoint
        self._server = grpc.aio.server(options=_options(limits))
        guard = ConnectionGuard(limits.connections_max, limits.connections_max_per_ip, limits.write_stall_ms_max)
        self.connections = ConnectionWatch(
            listener, AcceptedSockets((endpoint.port,)), guard, streams, clock, self._executor
        )
        self._health = health.aio.HealthServicer()
        self._services: list[str] = []

    def add(
        self,
        service: ServiceDescriptor,
        servicer: object,
        decoders: RequestDecoders,
        memory: RequestMemory,
        busy: BusyTime,
    ) -> None:
        """Serve `service`; its requests pass their limits before they are parsed. `busy` counts its calls' time."""
        add_service(self._server, service, servicer, decoders, memory, busy)
        self._services.append(service.full_name)

    async def start(self) -> None:
        """Bind and serve; ConfigError if the address cannot be bound."""
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
                f"listeners: {self._listener} cannot listen on {self._endpoint}: the address is in use, or is not one "
                "of this machine; choose another port, or stop the process that holds it"
            )
        await self._server.start()
        self.connections.start()

    async def serving(self, is_serving: bool) -> None:
        """The answer of the health service, for the server ("") and each of its services."""
        known = health_pb2.HealthCheckResponse
        status = known.SERVING if is_serving else known.NOT_SERVING
        for service in ("", *self._services):
            await self._health.set(service, status)

    async def stop(self) -> None:
        await self.connections.stop()
        self._executor.shutdown(wait=False)
        await self._server.stop(STOP_GRACE_SECONDS)


def _options(limits: ListenerLimits) -> list[tuple[str, Any]]:
    return [
        ("grpc.so_reuseport", 0),  # else a second node on the same port would share it in silence
        ("grpc.max_receive_message_length", limits.message_bytes_max),
        ("grpc.max_send_message_length", limits.message_bytes_max + MESSAGE_BYTES_OVERHEAD),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS_MAX),
        ("grpc.max_connection_idle_ms", limits.idle_ms_max),
        ("grpc.max_concurrent_streams", CONNECTION_STREAMS_MAX),
        ("grpc.http2.bdp_probe", 0),  # else an unread stream may hold many MiB; a message under way widens its window
        ("grpc.http2.lookahead_bytes", SMALL_BYTES),
    ]


def broker_server(
    endpoint: Endpoint, limits: ListenerLimits, door: BrokerDoor, held: DoorLimits, clock: Clock, threads: Threads
) -> GrpcServer:
    server = GrpcServer("BROKER", endpoint, limits, door, clock, threads)
    server.add(BROKER_SERVICE, door, held.decoders, held.requests, door.busy)
    return server


def inter_broker_server(
    listener: str,
    endpoint: Endpoint,
    limits: ListenerLimits,
    door: BrokerDoor,
    held: DoorLimits,
    clock: Clock,
    threads: Threads,
) -> GrpcServer:
    server = GrpcServer(listener, endpoint, limits, door, clock, threads)
    server.add(REPLICATION_SERVICE, ReplicationDoor(door), held.decoders, held.node_requests, door.busy)
    return server


def controller_server(
    endpoint: Endpoint,
    limits: ListenerLimits,
    quorum: QuorumDoor,
    controller: ControllerDoor,
    clock: Clock,
    threads: Threads,
) -> GrpcServer:
    server = GrpcServer("CONTROLLER", endpoint, limits, NoStreams(), clock, threads)
    decoders, memory = RequestDecoders(limits.message_bytes_max), RequestMemory(limits.request_bytes_max)
    server.add(QUORUM_SERVICE, quorum, decoders, memory, BusyTime(clock.now_ns))  # raft counts its own
    server.add(CONTROLLER_SERVICE, controller, decoders, memory, BusyTime(clock.now_ns))
    return server
