"""A TLS session that gRPC's library resumes is worth no more than its certificate is now, over real connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.connections.listener_limits import ListenerLimits
from broker.grpc.callers import Callers, CertifiedCallers, NodeCallers
from broker.grpc.servers import add_controller_apis, controller_server
from broker.network.listeners import ControllerService
from broker.tls.certificates import NodeCertificates
from penstock.clock import SystemClock
from penstock.pb import quorum_pb2
from penstock.testing.ports import free_ports
from penstock.types import Endpoint
from raft.messages import VoteResponse
from tests.support.certificates import CLUSTER, Files, TestCa, tls_config
from tests.support.machine import THREADS

CA = TestCa()
LIMITS = ListenerLimits(1 << 20, 1 << 20, 60_000, 10, 10, 60_000)
DAY_MS = 86_400_000
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
VOTE = quorum_pb2.VoteRequest(cluster_id=CLUSTER, candidate_id=2).SerializeToString()
HEADS = (
    (b":method", b"POST"),
    (b":scheme", b"https"),
    (b":path", b"/penstock.v1.Quorum/Vote"),
    (b":authority", b"x"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
)


def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def literal(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


class Bench:
    """A listener, and one client of it whose calendar nobody asks; the node's is `ahead_ms` ahead."""

    def __init__(self, endpoint: Endpoint, keystore: Path) -> None:
        self.endpoint, self.ahead_ms, self.handled = endpoint, 0, 0
        self.context = ssl.create_default_context(cadata=CA.pem.decode())
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.context.set_alpn_protocols(["h2"])
        self.context.load_cert_chain(keystore)

    def wall_ms(self) -> int:
        return SystemClock().wall_ms() + self.ahead_ms

    async def answer(self, request: Any) -> Any:
        self.handled += 1
        return VoteResponse(1, 1, True)

    async def call(self, session: ssl.SSLSession | None = None) -> tuple[bool, ssl.SSLSession | None]:
        """True if a vote was answered over a connection with that session; and the connection's own."""
        handled = self.handled
        found = await asyncio.to_thread(self._call, session)
        return self.handled > handled, found

    def _call(self, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
        heads = b"".join(literal(*pair) for pair in HEADS)
        message = frame(0, 1, 1, b"\0" + struct.pack(">I", len(VOTE)) + VOTE)
        with (
            socket.create_connection(self.endpoint, timeout=60) as plain,
            self.context.wrap_socket(plain, server_hostname="localhost", session=session) as secured,
        ):
            assert bool(secured.session_reused) is (session is not None)
            secured.sendall(PREFACE + frame(4, 0, 0, b"") + frame(1, 4, 1, heads) + message)
            received = b""
            with contextlib.suppress(OSError):
                while b"grpc-status" not in received and (more := secured.recv(65_536)):
                    received += more
            return secured.session


def run(
    tmp_path: Path,
    keystore: bytes,
    callers_of: Callable[[NodeCertificates], Callers],
    story: Callable[[Bench], Awaitable[None]],
) -> None:
    async def main() -> None:
        path = tmp_path / "client.pem"
        path.write_bytes(keystore)
        bench = Bench(Endpoint("127.0.0.1", free_ports(1)[0][0]), path)
        certificates = NodeCertificates(tls_config(1), bench.wall_ms, Files(node=CA.node(1), ca=CA.pem).read)
        callers = callers_of(certificates)
        server = controller_server(bench.endpoint, LIMITS, SystemClock(), THREADS, certificates, callers)
        service = ControllerService(
            quorum=bench.answer, controller=bench.answer, connections_max=10, cluster_id=CLUSTER
        )
        add_controller_apis(server, LIMITS, service, SystemClock(), callers)
        await server.start()
        try:
            async with asyncio.timeout(60):
                await story(bench)
        finally:
            await server.stop()

    asyncio.run(main())


def of_nodes(certificates: NodeCertificates) -> Callers:
    return NodeCallers("CONTROLLER", CLUSTER, certificates.of("CONTROLLER"))


def of_clients(certificates: NodeCertificates) -> Callers:
    listener = certificates.of("CONTROLLER")
    assert listener is not None
    return CertifiedCallers("CONTROLLER", listener)


@pytest.mark.parametrize(
    ("keystore", "callers_of"), [(CA.node(2), of_nodes), (CA.client("anna"), of_clients)], ids=["a node", "a client"]
)
@pytest.mark.parametrize("days", [60, -60], ids=["ended", "not yet valid"])
def test_a_resumed_session_is_served_while_its_certificate_is_valid_and_no_longer(
    keystore: bytes,
    callers_of: Callable[[NodeCertificates], Callers],
    days: int,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(bench: Bench) -> None:
        was_answered, session = await bench.call()
        assert was_answered and session is not None and (await bench.call(session))[0]
        bench.ahead_ms = days * DAY_MS
        assert not (await bench.call(session))[0]
        assert (await bench.call())[0], (
            "TLS has judged this one, by the machine's calendar: it keeps what it began with"
        )
        bench.ahead_ms = 0
        assert (await bench.call(session))[0], "the calendar is right again"

    run(tmp_path, keystore, callers_of, story)
    lines = [record.getMessage() for record in caplog.records if "cut the connection" in record.getMessage()]
    why = "expired on" if days > 0 else "is not valid before"
    assert len(lines) == 1 and why in lines[0] and "penstock certs renew" in lines[0]
