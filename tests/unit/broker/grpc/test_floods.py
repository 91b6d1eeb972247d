"""A client sends frames without an end: its connection is cut, and others are served, before a log-in and after it."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any, cast

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from broker.authentication.sessions import CallerPlace, Sessions
from broker.connections.connection_watch import NoStreams
from broker.connections.listener_limits import ListenerLimits
from broker.connections.under_way import Shares
from broker.grpc.access import ListenerAccess
from broker.grpc.broker_listeners import ServedListener
from broker.grpc.callers import SessionCallers
from broker.grpc.servers import CONNECTION_STREAMS_MAX, broker_server
from penstock.clock import SystemClock
from penstock.testing.ports import free_ports
from penstock.types import Endpoint
from tests.support.machine import THREADS
from tests.support.waiting import wait_until

CLOCK = SystemClock()
MIB = 1 << 20
LIMITS = ListenerLimits(1 << 20, 1 << 20, 60_000, 10, 10, 60_000)
ELSEWHERE = "127.0.0.4"
BYTES_MAX = 16 << 30
SECONDS_MAX, QUIET_SECONDS = 60, 1
HEADERS, SETTINGS, CONTINUATION = 1, 4, 9
CONCURRENT_STREAMS = 3
"""The setting of that number (RFC 9113, 6.5.2)."""


def frame(kind: int, stream: int, body: bytes) -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes([kind, 0]) + struct.pack(">I", stream) + body


def literal(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def flood(port: int, connected: Callable[[Endpoint], object], is_cut: Callable[[], bool]) -> int:
    """The bytes of one header block that are taken until the connection is cut. What its network sends is dropped then,
    so the flooder itself may hear nothing more."""
    head = literal(b":method", b"POST") + literal(b":path", b"/penstock.v1.Broker/Metadata")
    more = frame(CONTINUATION, 1, literal(b"x", b"v" * 50) * 100)
    sent, quiet = 0, 0
    with socket.create_connection(("127.0.0.1", port), QUIET_SECONDS, (ELSEWHERE, 0)) as one:
        connected(Endpoint(*one.getsockname()))
        one.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, b"") + frame(HEADERS, 1, head))
        while sent < BYTES_MAX and quiet < SECONDS_MAX:
            try:
                sent += one.send(more[sent % len(more) :])
            except TimeoutError:
                if is_cut():
                    break
                quiet += QUIET_SECONDS
            except OSError:
                break
    wait_until(is_cut)  # a connection is shut down BEFORE it is counted
    return sent


@pytest.mark.parametrize("is_logged_in", [False, True], ids=["a stranger", "a user"])
@pytest.mark.skipif(sys.platform != "linux", reason="connections are looked at by /proc")
def test_a_header_block_without_an_end_is_cut_and_others_are_served(is_logged_in: bool) -> None:
    async def main() -> None:
        sessions = Sessions(10, iter("ab").__next__)
        access = ListenerAccess("OUT", "INTERNAL", SessionCallers("OUT", sessions, CLOCK.now_ms))
        here = Endpoint("127.0.0.1", free_ports(1)[0][0])
        held = cast(Any, None)
        served = ServedListener(
            name="OUT",
            endpoint=here,
            limits=LIMITS,
            guard=LIMITS.guard("OUT"),
            held=held,
            access=access,
            handlers=cast(Any, NoStreams()),
            shares=Shares(MIB, MIB),
        )
        server = broker_server(served, CLOCK, THREADS)
        await server.start()
        try:

            def connected(peer: Endpoint) -> None:
                if is_logged_in:
                    sessions.begin(CallerPlace("OUT", peer), "User:anna", 0, CLOCK.now_ms())

            def is_cut() -> bool:
                return server.connections.statistics().closed_for_bytes == 1

            sent = await asyncio.to_thread(flood, here.port, connected, is_cut)
            assert sent < BYTES_MAX
            async with grpc.aio.insecure_channel(str(here)) as channel:
                asked = health_pb2_grpc.HealthStub(channel).Check
                await asked(health_pb2.HealthCheckRequest(), timeout=SECONDS_MAX)
        finally:
            await server.stop()

    asyncio.run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="connections are looked at by /proc")
def test_where_nobody_logs_in_a_header_block_without_an_end_is_cut_as_before_a_log_in() -> None:
    async def main() -> None:
        access, here = ListenerAccess("OUT", "INTERNAL"), Endpoint("127.0.0.1", free_ports(1)[0][0])
        streams = cast(Any, NoStreams())
        shares = Shares(MIB, MIB)
        served = ServedListener(
            name="OUT",
            endpoint=here,
            limits=LIMITS,
            guard=LIMITS.guard("OUT"),
            held=cast(Any, None),
            access=access,
            handlers=streams,
            shares=shares,
        )
        server = broker_server(served, CLOCK, THREADS)
        await server.start()
        try:

            def is_cut() -> bool:
                return server.connections.statistics().closed_for_bytes == 1

            sent = await asyncio.to_thread(flood, here.port, lambda peer: None, is_cut)
            assert sent < BYTES_MAX
        finally:
            await server.stop()

    asyncio.run(main())


def settings_of(port: int) -> dict[int, int]:
    """The numbers that the server's first SETTINGS frame has."""
    with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as link:
        link.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, b""))
        read = link.makefile("rb").read
        head = read(9)
        assert head[3] == SETTINGS
        return dict(struct.iter_unpack(">HI", read(int.from_bytes(head[:3], "big"))))


def test_a_connection_may_have_few_calls_at_a_time() -> None:
    """They are ahead of everybody's next call, and a client holds back what is above them."""

    async def main() -> None:
        here = Endpoint("127.0.0.1", free_ports(1)[0][0])
        served = ServedListener(
            name="OUT",
            endpoint=here,
            limits=LIMITS,
            guard=LIMITS.guard("OUT"),
            held=cast(Any, None),
            access=ListenerAccess("OUT", "INTERNAL"),
            handlers=cast(Any, NoStreams()),
            shares=Shares(MIB, MIB),
        )
        server = broker_server(served, CLOCK, THREADS)
        await server.start()
        try:
            settings = await asyncio.to_thread(settings_of, here.port)
        finally:
            await server.stop()
        assert settings[CONCURRENT_STREAMS] == CONNECTION_STREAMS_MAX == 100

    asyncio.run(main())
