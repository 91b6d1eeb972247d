"""Makes the node's gRPC servers: one for each listener, with health and reflection, on a port of their own. An edge."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from broker.connections.accepted_sockets import AcceptedSockets
from broker.connections.byte_watch import FIRST_CALL_BYTES, LOG_IN_BYTES
from broker.connections.byte_watcher import ByteWatcher, Watched
from broker.connections.connection_guard import ConnectionGuard
from broker.connections.connection_watch import ConnectionWatch, NoStreams, StreamsView
from broker.connections.cuts import Cuts
from broker.connections.listener_limits import ListenerLimits
from broker.grpc.broker_listeners import ServedListener
from broker.grpc.callers import Callers
from broker.grpc.callers_that_left import quieten
from broker.grpc.client_calls import broker_calls, client_calls
from broker.grpc.controller_calls import controller_calls, quorum_calls
from broker.grpc.credentials import server_credentials
from broker.grpc.handlers import Service, add_calls
from broker.grpc.incoming.call_intake import make_server
from broker.grpc.incoming.early_reads import EarlyReads
from broker.grpc.incoming.request_decoder import RequestDecoders
from broker.grpc.open_services import OpenServices
from broker.grpc.outgoing_calls import MESSAGE_BYTES_OVERHEAD
from broker.grpc.refused_calls import RefusedCalls, UnknownCalls
from broker.grpc.unread_answers import UnreadAnswers, WithCalls
from broker.load.busy_time import BusyTime
from broker.network.listeners import ControllerService
from broker.network.request_channel import SMALL_BYTES, RequestChannel
from broker.network.request_memory import RequestMemory
from broker.tls.material import NO_CERTIFICATES, Certificates
from penstock.clock import Clock
from penstock.errors import ConfigError
from penstock.pb import broker_pb2, controller_pb2, quorum_pb2, replication_pb2
from penstock.threads import Threads
from penstock.types import Endpoint

BROKER_SERVICE = broker_pb2.DESCRIPTOR.services_by_name["Broker"].full_name
REPLICATION_SERVICE = replication_pb2.DESCRIPTOR.services_by_name["Replication"].full_name
QUORUM_SERVICE = quorum_pb2.DESCRIPTOR.services_by_name["Quorum"].full_name
CONTROLLER_SERVICE = controller_pb2.DESCRIPTOR.services_by_name["Controller"].full_name
STOP_GRACE_SECONDS = 0.5
HANDSHAKE_MS_MAX = 5_000
"""A connection that has not begun to speak HTTP/2 by then is closed (gRPC: 120 s)."""
UNCOMPRESSED = 1 << 0
"""gRPC's numbers of algorithms are bits. Its library would make a message a thousand times as large as the bytes that
came, before anybody is asked: no count of received bytes would see it. Batches have compression of their own."""
CONNECTION_STREAMS_MAX = 100
"""Streams and calls of one connection at a time; a client waits with the next (gRPC: no limit; RFC 9113, 6.5.2: not
below 100). All begin when they come (call_intake.py): each takes memory of the event loop until it has been read."""


class GrpcServer:
    """One listener. Health is NOT_SERVING until `serving` says otherwise. `streams` are those that are open at it."""

    def __init__(
        self,
        listener: str,
        endpoint: Endpoint,
        *,
        limits: ListenerLimits,
        guard: ConnectionGuard,
        streams: StreamsView,
        clock: Clock,
        threads: Threads,
        certificates: Certificates = NO_CERTIFICATES,
        is_known: Callable[[Endpoint], bool] | None = None,
        watched: Watched | None = None,
    ) -> None:
        """`is_known`: see early_reads.py; None where nobody logs in by a call. `watched`: None where only nodes
        call."""
        self._listener, self._certificates = listener, certificates.of(listener)
        self._executor = threads.executor(f"connections-{listener}", 1)
        self._endpoint = endpoint
        quieten()
        self._server = make_server(server_options(limits))
        self._sockets = sockets = AcceptedSockets((endpoint.port,), endpoint.host)
        self._unread = UnreadAnswers(clock.now_ms)
        view = WithCalls(streams, self._unread)
        self.connections = ConnectionWatch(listener, sockets, guard, view, clock, self._executor, time.thread_time)
        self._early_reads = EarlyReads(listener, is_known or (lambda peer: True))
        self._bytes = None
        if watched is not None:
            own = AcceptedSockets((endpoint.port,), endpoint.host)
            self._bytes = ByteWatcher(listener, own, watched, guard.cut_for_bytes, clock, threads)
        is_proven = is_known or (lambda peer: peer in streams.proven())
        self._refusals = RefusedCalls(listener, Cuts(self._cut).cut, clock.now_ms, self._refused_too_much, is_proven)
        self._health = health.aio.HealthServicer()
        self._services: list[str] = []

    def _refused_too_much(self, peer: Endpoint, is_one: bool) -> None:
        if self._bytes is not None:
            self._bytes.refused_too_much(peer, is_one)

    def add(self, service: Service) -> None:
        """Serves the APIs of a service; their requests pass their limits before they are parsed."""
        add_calls(
            self._server, service, read_unproven=self._early_reads.read, refuses=self._refusals, unread=self._unread
        )
        self._services.append(service.name)

    async def start(self) -> None:
        """Bind and serve; ConfigError if the address cannot be bound."""
        names, opened = (
            (*self._services, health.SERVICE_NAME, reflection.SERVICE_NAME),
            OpenServices(self._server, self._early_reads.read),
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, opened)
        servicer = reflection.aio.ReflectionServicer(names)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, opened)
        self._server.add_generic_rpc_handlers((UnknownCalls(self._refusals),))  # AFTER all others
        await self.serving(False)
        try:
            bound = self._bind(str(self._endpoint))
        except RuntimeError:
            bound = 0
        if bound == 0:
            raise ConfigError(
                f"listeners: {self._listener} cannot listen on {self._endpoint}: the address is in use, or is not one "
                "of this machine; choose another port, or stop the process that holds it"
            )
        await self._server.start()
        self.connections.start()
        if self._bytes is not None:
            self._bytes.start()

    async def _cut(self, peers: Collection[Endpoint]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, self._sockets.cut, peers)

    def _bind(self, address: str) -> int:
        if self._certificates is None:
            return int(self._server.add_insecure_port(address))
        return int(self._server.add_secure_port(address, server_credentials(self._certificates)))

    async def serving(self, is_serving: bool) -> None:
        """The answer of the health service, for the server ("") and each of its services."""
        known = health_pb2.HealthCheckResponse
        status = known.SERVING if is_serving else known.NOT_SERVING
        for service in ("", *self._services):
            await self._health.set(service, status)

    async def stop(self) -> None:
        await self.connections.stop()
        if self._bytes is not None:
            self._bytes.stop()
        self._executor.shutdown(wait=False)
        await self._server.stop(STOP_GRACE_SECONDS)


def server_options(limits: ListenerLimits) -> list[tuple[str, Any]]:
    """Options of every server."""
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
        ("grpc.compression_enabled_algorithms_bitset", UNCOMPRESSED),
    ]


class ServesCalls(Protocol):
    """The half of a server that is given the APIs that it serves."""

    def add(self, service: Service) -> None: ...


def add_client_apis(server: ServesCalls, served: ServedListener, channel: RequestChannel) -> None:
    """Adds the calls and streams of a listener for clients."""
    held = served.held
    service = Service(
        name=BROKER_SERVICE,
        calls=client_calls(channel, served.access, held.quotas, held.requests, served.handlers.prepare),
        streams=served.handlers.streams,
        decoders=held.decoders,
        memory=held.requests,
        log_ins=held.log_ins,
        busy=served.handlers.busy,
        caller_of=served.access.caller,
        delivered=served.access.heard.delivered,
        work=channel.long_work,
    )
    server.add(service)


def add_broker_apis(server: ServesCalls, served: ServedListener, channel: RequestChannel) -> None:
    """Adds the calls and streams of the inter-broker listener."""
    service = Service(
        name=REPLICATION_SERVICE,
        calls=broker_calls(channel, served.access, served.handlers.prepare),
        streams=served.handlers.replica_streams,
        decoders=served.held.decoders,
        memory=served.held.node_requests,
        busy=served.handlers.busy,
        caller_of=served.access.caller,
    )
    server.add(service)


def add_controller_apis(
    server: ServesCalls, limits: ListenerLimits, controller: ControllerService, clock: Clock, callers: Callers
) -> None:
    """Adds the calls of the controller listener."""
    decoders, memory = RequestDecoders(limits.message_bytes_max), RequestMemory(limits.request_bytes_max)
    for name, calls in (
        (QUORUM_SERVICE, quorum_calls(controller.quorum, callers)),
        (CONTROLLER_SERVICE, controller_calls(controller.controller, callers)),
    ):
        service = Service(
            name=name,
            calls=calls,
            streams={},
            decoders=decoders,
            memory=memory,
            busy=BusyTime(clock.now_ns),  # raft counts its own
            caller_of=callers.caller,
        )
        server.add(service)


def broker_server(
    served: ServedListener, clock: Clock, threads: Threads, certificates: Certificates = NO_CERTIFICATES
) -> GrpcServer:
    """The server of a broker's listener, without what it serves."""
    access, watched = served.access, None
    log_ins = access.is_known if access.has_log_ins else None
    if served.shares is not None:
        free_bytes = FIRST_CALL_BYTES if log_ins is None else LOG_IN_BYTES
        watched = Watched(log_ins or access.has_asked, access.heard, served.shares, free_bytes)
    return GrpcServer(
        served.name,
        served.endpoint,
        limits=served.limits,
        guard=served.guard,
        streams=served.handlers,
        clock=clock,
        threads=threads,
        certificates=certificates,
        is_known=log_ins,
        watched=watched,
    )


class _CallersOnly(NoStreams):
    """A listener without streams, whose callers prove who they are."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    def looked(self, connected: Collection[Endpoint], began_ms: int) -> None:
        self._callers.looked(connected, began_ms)

    def proven(self) -> Mapping[Endpoint, str]:
        return self._callers.proven()


def controller_server(
    endpoint: Endpoint,
    limits: ListenerLimits,
    clock: Clock,
    threads: Threads,
    certificates: Certificates,
    callers: Callers,
) -> GrpcServer:
    """The server of the controller listener, without what it serves."""
    return GrpcServer(
        "CONTROLLER",
        endpoint,
        limits=limits,
        guard=limits.guard("CONTROLLER"),
        streams=_CallersOnly(callers),
        clock=clock,
        threads=threads,
        certificates=certificates,
    )
