"""TLS at a node's gRPC listeners and between nodes, over real connections: who gets in, and as which node."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from broker.connections.listener_limits import ListenerLimits
from broker.grpc import outgoing_calls, servers
from broker.grpc.callers import NodeCallers
from broker.grpc.outgoing_calls import Peers
from broker.grpc.servers import add_controller_apis, controller_server
from broker.network.listeners import ControllerService
from broker.tls.certificates import NodeCertificates
from broker.tls.material import NO_CERTIFICATES
from penstock.clock import SystemClock
from penstock.errors import ApiError, NetworkError
from penstock.testing.ports import free_ports
from penstock.types import Endpoint
from raft.messages import VoteRequest, VoteResponse
from tests.support.certificates import CLUSTER, Files, TestCa, key_and_chain, node_certificates
from tests.support.machine import THREADS

CA, OTHER = TestCa(), TestCa("Other CA")
LIMITS = ListenerLimits(1 << 20, 1 << 20, 60_000, 10, 10, 60_000)
VOTE = VoteRequest(CLUSTER, 1, 2, 1, 0, 0, True)
ANSWER = VoteResponse(1, 1, True)


OF_OTHER_CA = node_certificates(Files(node=OTHER.node(2), ca=OTHER.pem + CA.pem), node_id=2)
OF_OTHER_CA.belong_to(CLUSTER)


class Stage:
    """Node 1's controller listener, and what node 2 is given to reach it."""

    def __init__(self, endpoint: Endpoint, files: Files, certificates: NodeCertificates) -> None:
        self.endpoint, self.files, self.certificates = endpoint, files, certificates

    async def vote(self, certificates: Any, node_id: int = 1) -> Any:
        peers = Peers({node_id: self.endpoint}.get, lambda broker_id: None, 1 << 20, certificates)
        try:
            return await peers.send(node_id, VOTE, 5_000)
        finally:
            await peers.close()

    def handshake(self, context: ssl.SSLContext, host: str = "localhost") -> Any:
        """The server's certificate and the version; what is refused after the client's end of it shows by a read."""
        context.set_alpn_protocols(["h2"])
        with (
            socket.create_connection((self.endpoint.host, self.endpoint.port), 5) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            if not secure.recv(9):
                raise ConnectionError("closed")
            return secure.getpeercert(), secure.version()


def node(node_id: int, ca: TestCa = CA, cluster_id: str = CLUSTER, days: float = 30) -> NodeCertificates:
    found = node_certificates(Files(node=ca.node(node_id, days, cluster_id), ca=ca.pem), node_id=node_id)
    found.belong_to(cluster_id)
    return found


def run(story: Callable[[Stage], Awaitable[None]], serving: NodeCertificates | None = None) -> None:
    async def answers(request: Any) -> Any:
        return ANSWER

    async def main() -> None:
        files = Files(node=CA.node(1), ca=CA.pem)
        certificates = serving or node_certificates(files)
        certificates.belong_to(certificates.of("CONTROLLER").current.keystore.identity.cluster_id)  # type: ignore
        endpoint = Endpoint("127.0.0.1", free_ports(1)[0][0])
        service, callers = (
            ControllerService(quorum=answers, controller=answers, connections_max=10, cluster_id=CLUSTER),
            NodeCallers("CONTROLLER", CLUSTER),
        )
        server = controller_server(endpoint, LIMITS, SystemClock(), THREADS, certificates, callers)
        add_controller_apis(server, LIMITS, service, SystemClock(), callers)
        await server.start()
        try:
            async with asyncio.timeout(60):
                await story(Stage(endpoint, files, certificates))
        finally:
            await server.stop()

    asyncio.run(main())


def client_context(keystore: bytes, tmp_path: Any, ca: TestCa = CA) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=ca.pem.decode())
    (tmp_path / "client.pem").write_bytes(keystore)
    context.load_cert_chain(tmp_path / "client.pem")
    return context


def test_nodes_of_one_cluster_reach_each_other_by_any_host() -> None:
    hostless = Files(node=CA.node(1, hosts=()), ca=CA.pem)

    async def story(stage: Stage) -> None:
        assert await stage.vote(node(2)) == ANSWER

    run(story)
    run(story, node_certificates(hostless))


STRANGERS = {
    "plain text": NO_CERTIFICATES,
    "a node of another CA": node(2, OTHER),
}


@pytest.mark.parametrize("case", STRANGERS)
def test_who_has_no_certificate_of_the_ca_does_not_get_in(case: str) -> None:
    async def story(stage: Stage) -> None:
        with pytest.raises(NetworkError, match="controller 1 at"):
            await stage.vote(STRANGERS[case])
        assert await stage.vote(node(2)) == ANSWER

    run(story)


def test_a_client_without_a_certificate_or_with_an_expired_one_is_refused(tmp_path: Any) -> None:
    async def story(stage: Stage) -> None:
        for context in (
            ssl.create_default_context(cadata=CA.pem.decode()),
            client_context(CA.node(2, days=-1), tmp_path),
            client_context(OTHER.node(2), tmp_path),
        ):
            with pytest.raises(OSError):
                await asyncio.to_thread(stage.handshake, context)
        certificate, version = await asyncio.to_thread(stage.handshake, client_context(CA.node(2), tmp_path))
        assert version == "TLSv1.3" and ("DNS", "localhost") in certificate["subjectAltName"]

    run(story)


def test_a_node_speaks_to_the_node_that_it_means_and_to_no_other() -> None:
    """Node 3's address leads to node 1, as it does after a wrong line in the DNS."""

    async def story(stage: Stage) -> None:
        with pytest.raises(NetworkError, match="controller 3 at"):
            await stage.vote(node(2), node_id=3)

    run(story)


def test_a_node_of_another_cluster_with_the_same_ca_is_not_spoken_to() -> None:
    async def story(stage: Stage) -> None:
        with pytest.raises(NetworkError):
            await stage.vote(node(2, cluster_id="B" * 22))

    run(story)


def test_a_peer_that_speaks_plain_text_is_an_error_and_not_a_downgrade() -> None:
    async def main() -> None:
        async def says_something(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"hello\r\n")
            writer.close()

        server = await asyncio.start_server(says_something, "127.0.0.1", 0)
        endpoint = Endpoint(*server.sockets[0].getsockname())
        peers = Peers({1: endpoint}.get, lambda broker_id: None, 1 << 20, node(2))
        with pytest.raises(ApiError, match="controller 1 at"):
            await peers.send(1, VOTE, 2_000)
        await peers.close()
        server.close()

    asyncio.run(main())


REASONS = {
    "another CA there": (node(2, OTHER), 1, "its certificate is of no CA in this node's truststore; put that CA there"),
    "another node there": (node(2), 3, "its certificate is that of another node or cluster"),
    "another CA here": (OF_OTHER_CA, 1, "it may not trust the CA of this node's certificate"),
    "no TLS here": (NO_CERTIFICATES, 1, "if its listener has TLS, name the listener in listener.security.protocol.map"),
}


@pytest.mark.parametrize("case", REASONS)
def test_the_log_says_once_why_a_handshake_with_another_node_failed(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    certificates, node_id, says = REASONS[case]

    async def story(stage: Stage) -> None:
        peers = Peers({node_id: stage.endpoint}.get, lambda broker_id: None, 1 << 20, certificates)
        for _ in range(3):
            with pytest.raises(NetworkError):
                await peers.send(node_id, VOTE, 5_000)
        await peers.close()
        logged = [
            line for line in caplog.messages if line.startswith(f"no TLS with controller {node_id} at 127.0.0.1:")
        ]
        assert len(logged) == 1 and says in logged[0]

    run(story)


def test_old_versions_and_weak_suites_are_refused(tmp_path: Any) -> None:
    async def story(stage: Stage) -> None:
        for suite in ("ECDHE-ECDSA-AES128-SHA", "AES128-GCM-SHA256"):
            weak = client_context(CA.node(2), tmp_path)
            weak.maximum_version = ssl.TLSVersion.TLSv1_2
            weak.set_ciphers(f"{suite}:@SECLEVEL=0")
            with pytest.raises(OSError):
                await asyncio.to_thread(stage.handshake, weak)
        sound = client_context(CA.node(2), tmp_path)
        sound.maximum_version = ssl.TLSVersion.TLSv1_2
        assert (await asyncio.to_thread(stage.handshake, sound))[1] == "TLSv1.2"

    run(story)


def test_half_a_handshake_ends_and_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "HANDSHAKE_MS_MAX", 500)

    def ends(endpoint: Endpoint, data: bytes) -> bool:
        with socket.create_connection((endpoint.host, endpoint.port), 10) as half:
            half.settimeout(60)
            half.sendall(data)
            try:
                while half.recv(4_096):
                    continue
            except ConnectionResetError:
                return True
        return True

    async def story(stage: Stage) -> None:
        sent = (b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100)
        ending = [asyncio.create_task(asyncio.to_thread(ends, stage.endpoint, data)) for data in sent]
        assert await stage.vote(node(2)) == ANSWER
        assert all(await asyncio.gather(*ending))

    run(story)


def test_new_certificates_count_for_the_next_handshake(tmp_path: Any) -> None:
    async def story(stage: Stage) -> None:
        peers = Peers({1: stage.endpoint}.get, lambda broker_id: None, 1 << 20, node(2))
        assert await peers.send(1, VOTE, 5_000) == ANSWER
        for ca in (OTHER, CA, OTHER):
            stage.files.put("node", ca.node(1))
            stage.files.put("ca", ca.pem)
            await stage.certificates.look(stage.files)
            context = client_context(ca.node(2), tmp_path, ca)
            assert (await asyncio.to_thread(stage.handshake, context))[1] == "TLSv1.3"
        assert await peers.send(1, VOTE, 5_000) == ANSWER, "a connection that stands goes on"
        await peers.close()
        with pytest.raises(NetworkError):
            await stage.vote(node(2))
        assert await stage.vote(node(2, OTHER)) == ANSWER

    run(story)


def test_a_node_connects_anew_with_its_new_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing_calls, "RETIRED_SECONDS", 0.1)

    async def story(stage: Stage) -> None:
        files = Files(node=CA.node(2), ca=CA.pem)
        own = node_certificates(files, node_id=2)
        own.belong_to(CLUSTER)
        peers = Peers({1: stage.endpoint}.get, lambda broker_id: None, 1 << 20, own)
        assert await peers.send(1, VOTE, 5_000) == ANSWER
        first = peers._controller(1)[0]
        assert peers._controller(1)[0] is first
        files.put("node", CA.node(2, days=60))
        await own.look(files)
        assert await peers.send(1, VOTE, 5_000) == ANSWER
        assert peers._controller(1)[0] is not first
        async with asyncio.timeout(60):
            while peers._closing:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        with pytest.raises((grpc.aio.UsageError, grpc.aio.AioRpcError, asyncio.CancelledError)):
            await first.unary_unary("/penstock.v1.Quorum/Vote")(b"", timeout=1)
        await peers.close()

    run(story)


def test_a_private_key_is_in_no_text(caplog: pytest.LogCaptureFixture) -> None:
    certificates = node(1)
    found = certificates.of("CONTROLLER")
    assert found is not None
    key = key_and_chain(CA.node(1))[0].splitlines()[1].decode()
    assert key not in repr(certificates) + repr(found) + repr(found.current) + repr(found.current.keystore)
