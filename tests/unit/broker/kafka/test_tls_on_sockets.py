"""Promises of a listener of Kafka's protocol with TLS, over real sockets, on the loop of a node and on Python's."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
import uvloop

from broker.kafka.api_row import ApiRow
from broker.kafka.connection import tls_handshake
from broker.kafka.connection.bound_sockets import BoundSockets
from broker.kafka.connection.tls_handshake import TlsHandshake
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from broker.network.request_channel import Request
from broker.tls import certificates
from broker.tls.certificates import NodeCertificates
from penstock.types import Endpoint
from tests.support.certificates import Files, TestCa, node_certificates
from tests.support.kafka_listener import LIMITS, METADATA, VERSION, ListenerBench, frame, metadata
from tests.unit.broker.kafka.test_listeners_on_sockets import MIB, Client, Port, until

CA, OTHER = TestCa(), TestCa("Other CA")
LOOPS = pytest.mark.parametrize("loop_factory", [uvloop.new_event_loop, asyncio.new_event_loop])
Scenario = Callable[["Tls", Port], Awaitable[None]]


class Tls:
    """A listener with certificates, and clients of it."""

    def __init__(self, bench: ListenerBench, files: Files, certificates: NodeCertificates, callers: list[str]) -> None:
        self.bench, self.files, self.certificates, self.callers = bench, files, certificates, callers

    async def answer(self, port: Port, **options: Any) -> tuple[int, str | None]:
        client = await secure(port, **options)
        try:
            client.writer.write(metadata(1, "a"))
            return await client.answer()
        finally:
            client.close()

    async def logged(self, caplog: pytest.LogCaptureFixture) -> str:
        await until(lambda: self.bench.listener._unsecured)
        self.bench.listener.sweep(self.bench.clock.now_ms())
        return caplog.messages[-1]


def client_context(ca: TestCa = CA, keystore: bytes = b"") -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=ca.pem.decode())
    if keystore:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "client.pem")
            path.write_bytes(keystore)
            context.load_cert_chain(path)
    return context


async def secure(port: Port, context: ssl.SSLContext | None = None, host: str = "localhost") -> Client:
    opened = asyncio.open_connection("127.0.0.1", port.number, ssl=context or client_context(), server_hostname=host)
    return Client(*await opened)


def run(
    scenario: Scenario,
    loop_factory: Any = uvloop.new_event_loop,
    limits: Any = LIMITS,
    rows: Sequence[ApiRow] = (),
    **keys: Any,
) -> None:
    callers: list[str] = []

    def handle(request: Request) -> None:
        callers.append(request.caller.principal)
        request.complete(request.body)

    async def main() -> None:
        port, files = Port(), Files(node=CA.node(1), ca=CA.pem)
        certificates = node_certificates(files, **keys)
        bench = ListenerBench(handle, limits, rows, bind=port.bind, certificates=certificates.of("KAFKA"))
        bench.listener._endpoint = Endpoint("127.0.0.1", 0)
        bench.dispatcher.start()
        await bench.listener.start()
        bench.listener.open()
        address = bench.listener._address
        assert isinstance(address, BoundSockets)
        port.number = address._sockets[0].getsockname()[1]
        await until(lambda: address._accepting)
        try:
            async with asyncio.timeout(20):
                await scenario(Tls(bench, files, certificates, callers), port)
        finally:
            await bench.listener.stop()
            await bench.dispatcher.stop()
        await until(lambda: not bench.listener._shaking and not bench.listener._open)
        bench.check_all_is_given_back()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())


@LOOPS
def test_requests_of_any_size_are_answered_in_order(loop_factory: Any) -> None:
    async def scenario(tls: Tls, port: Port) -> None:
        clients = [await secure(port) for _ in range(3)]
        name = "x" * 30_000
        for client in clients:
            topics = [MetadataRequestTopic(name=name) for _ in range(8)]
            large = frame(MetadataRequest(topics=topics), VERSION, 2)
            client.writer.write(metadata(1, "first") + large + metadata(3) + large[:5])
            await client.writer.drain()
            client.writer.write(large[5:])
        for client in clients:
            assert [await client.answer() for _ in range(4)] == [(1, "first"), (2, name), (3, "none"), (2, name)]
            found = client.writer.get_extra_info("ssl_object")
            assert found.version() == "TLSv1.3" and not found.session_reused
            client.close()
        assert set(tls.callers) == {"User:ANONYMOUS"}

    run(scenario, loop_factory, replace(LIMITS, message_bytes_max=4 * MIB))


@LOOPS
def test_the_principal_is_the_name_in_the_clients_certificate(loop_factory: Any) -> None:
    async def scenario(tls: Tls, port: Port) -> None:
        context = client_context(keystore=CA.client("anna"))
        assert await tls.answer(port, context=context) == (1, "a")
        assert tls.callers == ["User:anna"]

    rule = "RULE:^CN=([a-z]*)$/$1/"
    run(scenario, loop_factory, ssl_client_auth="none", **_at_kafka("required", rule))


def _at_kafka(client_auth: str, rule: str = "DEFAULT") -> dict[str, Any]:
    prefix = "listener_name_kafka_ssl"
    return {f"{prefix}_client_auth": client_auth, f"{prefix}_principal_mapping_rules": rule}


def test_who_shows_no_certificate_where_one_is_requested_is_anonymous() -> None:
    async def scenario(tls: Tls, port: Port) -> None:
        await tls.answer(port)
        await tls.answer(port, context=client_context(keystore=CA.client("anna")))
        assert tls.callers == ["User:ANONYMOUS", "User:CN=anna"]

    run(scenario, **_at_kafka("requested"))


REFUSED = {
    "none": (b"", "it shows no certificate"),
    "another CA": (OTHER.client("anna"), "its certificate is refused (unable to get local issuer certificate)"),
    "expired": (CA.client("bert", days=-1), "its certificate is refused (certificate has expired)"),
    "no rule": (CA.client("Über"), "no rule of ssl.principal.mapping.rules fits the name in its certificate"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_certificate_that_does_not_do_ends_the_connection(case: str, caplog: pytest.LogCaptureFixture) -> None:
    keystore, why = REFUSED[case]

    async def scenario(tls: Tls, port: Port) -> None:
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await tls.answer(port, context=client_context(keystore=keystore))
        assert await tls.logged(caplog) == f"KAFKA: closed 1 connections without TLS: {why}; from 127.0.0.1"
        assert tls.callers == [] and tls.bench.listener.statistics().closed_for_handshake == 1

    run(scenario, **_at_kafka("required", "RULE:^CN=([a-z]*)$/$1/"))


def test_a_certificate_whose_owner_cannot_be_read_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(certificate: bytes) -> Any:
        raise ValueError("error parsing asn1 value")

    monkeypatch.setattr(certificates, "owner_of", fails)

    async def scenario(tls: Tls, port: Port) -> None:
        for _ in range(3):
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await tls.answer(port, context=client_context(keystore=CA.client("anna")))
        await until(lambda: tls.bench.listener.statistics().closed_for_handshake == 3)
        assert tls.callers == [] and tls.bench.listener.statistics().open == 0

    run(scenario, **_at_kafka("required"))


@LOOPS
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (metadata(1), "it speaks plain text, not TLS"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "it speaks plain HTTP"),
        (b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03" + b"\xff" * 50, "handshake"),
        (b"\xff" * 100, "it speaks plain text, not TLS"),
    ],
)
def test_what_is_no_handshake_is_told_in_one_line(
    data: bytes, why: str, loop_factory: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(tls: Tls, port: Port) -> None:
        for _ in range(3):
            client = Client(*await asyncio.open_connection("127.0.0.1", port.number))
            client.writer.write(data)
            await client.reader.read()
            client.close()
        await until(lambda: sum(tls.bench.listener._unsecured.values()) == 3)
        with caplog.at_level(logging.WARNING):
            line = await tls.logged(caplog)
        assert line.startswith("KAFKA: closed 3 connections without TLS: ") and why in line
        assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
        assert await tls.answer(port) == (1, "a"), "others are not held up"

    run(scenario, loop_factory)


@LOOPS
def test_half_a_handshake_is_counted_as_a_connection_and_ends(
    loop_factory: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls_handshake, "HANDSHAKE_SECONDS", 0.3)

    async def scenario(tls: Tls, port: Port) -> None:
        silent = [Client(*await asyncio.open_connection("127.0.0.1", port.number)) for _ in range(2)]
        silent[0].writer.write(b"\x16\x03\x01\x02\x00\x01")
        await until(lambda: tls.bench.listener.statistics().open == 2)
        third = Client(*await asyncio.open_connection("127.0.0.1", port.number))
        assert await third.over(), "the address has no more room"
        assert tls.bench.listener.statistics().cut_over_limit == 1
        for client in silent:
            assert await client.over()
        assert await tls.logged(caplog) == (
            "KAFKA: closed 2 connections without TLS: its handshake takes too long; from 127.0.0.1"
        )
        assert await tls.answer(port) == (1, "a")

    run(scenario, loop_factory, replace(LIMITS, connections_max_per_ip=2))


def test_a_handshake_that_is_cut_before_it_began_closes_its_socket() -> None:
    class Listener:
        heard: ClassVar[list[str]] = []

        def failed(self, handshake: TlsHandshake, why: str) -> None:
            self.heard.append(why)

    async def scenario() -> None:
        near, far = socket.socketpair()
        with near, far:
            handshake = TlsHandshake(Listener(), near, ("127.0.0.1", 1))
            handshake.begin(cast(Any, None), cast(Any, None))
            handshake.abort()
            await asyncio.sleep(0)
            assert near.fileno() == -1, "nobody else closes it"
            assert Listener.heard == [""]

    asyncio.run(scenario())


@LOOPS
def test_a_stop_ends_handshakes_that_are_under_way(loop_factory: Any) -> None:
    async def scenario(tls: Tls, port: Port) -> None:
        half = Client(*await asyncio.open_connection("127.0.0.1", port.number))
        half.writer.write(b"\x16\x03\x01\x02\x00\x01")
        await until(lambda: tls.bench.listener._shaking)
        await tls.bench.listener.stop()
        assert await half.over()

    run(scenario, loop_factory)


def test_old_versions_and_weak_suites_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(tls: Tls, port: Port) -> None:
        old = client_context()
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises(OSError):
            await tls.answer(port, context=old)
        assert "it speaks no TLS from 1.2 on" in await tls.logged(caplog)
        weak = client_context()
        weak.maximum_version = ssl.TLSVersion.TLSv1_2
        weak.set_ciphers("ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")
        with pytest.raises(OSError):
            await tls.answer(port, context=weak)
        assert "it has none of the suites" in await tls.logged(caplog)
        sound = client_context()
        sound.maximum_version = ssl.TLSVersion.TLSv1_2
        assert await tls.answer(port, context=sound) == (1, "a")

    run(scenario)


def test_a_client_checks_the_name_of_the_host_and_the_ca() -> None:
    async def scenario(tls: Tls, port: Port) -> None:
        for host in ("localhost", "127.0.0.1"):
            assert await tls.answer(port, host=host) == (1, "a")
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            await tls.answer(port, host="other.example")
        with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
            await tls.answer(port, context=client_context(OTHER))

    run(scenario)


def test_new_certificates_count_for_the_next_connection_and_the_old_one_goes_on() -> None:
    async def scenario(tls: Tls, port: Port) -> None:
        before = await secure(port)
        tls.files.put("node", OTHER.node(1))
        tls.files.put("ca", OTHER.pem)
        await tls.certificates.look(tls.files)
        assert await tls.answer(port, context=client_context(OTHER)) == (1, "a")
        with pytest.raises(ssl.SSLCertVerificationError):
            await tls.answer(port)
        tls.files.put("node", b"broken")
        await tls.certificates.look(tls.files)
        assert await tls.answer(port, context=client_context(OTHER)) == (1, "a")
        before.writer.write(metadata(1, "a"))
        assert await before.answer() == (1, "a")
        before.close()

    run(scenario)


def test_a_client_that_never_reads_stops_its_own_connection_alone() -> None:
    async def scenario(tls: Tls, port: Port) -> None:
        bench = tls.bench
        greedy, other = await secure(port), await secure(port)
        greedy.reader._transport.pause_reading()  # type: ignore[attr-defined]
        greedy.writer.write(metadata(1, "x" * 32_000) * 2_000)
        other.writer.write(metadata(1, "a"))
        assert await other.answer() == (1, "a")
        await until(lambda: any(served.stands_since_ms(1) for served in bench.listener._open.values()))
        bench.clock.advance(LIMITS.write_stall_ms_max)
        bench.listener.sweep(bench.clock.now_ms())
        bench.clock.advance(LIMITS.write_stall_ms_max + 1)
        bench.listener.sweep(bench.clock.now_ms())
        await until(lambda: bench.listener.statistics().open == 1)
        assert bench.listener.statistics().cut_stalled == 1
        assert len(bench.sent) < 1_500, "most of it was not read"
        for client in (greedy, other):
            client.close()

    run(scenario)


@LOOPS
def test_a_client_that_leaves_at_any_time_leaves_nothing(loop_factory: Any) -> None:
    async def scenario(tls: Tls, port: Port) -> None:
        for data in (b"", b"\x16\x03\x01\x02\x00\x01"):
            half = Client(*await asyncio.open_connection("127.0.0.1", port.number))
            half.writer.write(data)
            half.close()
        for data in (b"", metadata(1)[:6], metadata(1), metadata(1) * 50):
            client = await secure(port)
            client.writer.write(data)
            client.close()
        reset = await secure(port)
        reset.writer.write(metadata(1) * 50)
        reset.writer.transport.abort()
        await until(lambda: not tls.bench.listener._open and not tls.bench.listener._shaking)

    run(scenario, loop_factory)


@LOOPS
def test_an_answer_that_nobody_reads_is_counted_until_its_connection_is_cut(loop_factory: Any) -> None:
    """TLS hands down what it is given and tells nobody; so an answer goes out in pieces."""
    topic = MetadataResponseTopic(name="x" * 30_000)

    def plan(asked: Asked, body: MetadataRequest) -> Plan:
        yield Ask("Metadata", "")
        return MetadataResponse(cluster_id="a", topics=[topic] * 1_000 if body.topics else [])

    async def scenario(tls: Tls, port: Port) -> None:
        answers, listener, clock = tls.bench.memory.answers, tls.bench.listener, tls.bench.clock
        silent, reading = await secure(port), await secure(port)
        silent.writer.write(metadata(1, "large"))
        await until(lambda: answers.statistics().used_bytes)
        assert answers.statistics().used_bytes > 2 * 30 * 1_000_000, "its parts, and those that wait for the socket"
        (unwritten,) = [size for one in listener._open.values() if (size := one.connection.unwritten)]
        assert unwritten > 15 * 1_000_000
        reading.writer.write(metadata(1))  # of the same party, whose share is full
        listener.sweep(clock.now_ms())
        clock.advance(LIMITS.write_stall_ms_max + 1)
        listener.sweep(clock.now_ms())
        await until(lambda: not answers.statistics().used_bytes)
        assert listener.statistics().cut_stalled == 1
        assert await reading.answer() == (1, "a")
        silent.close()
        reading.close()

    run(scenario, loop_factory, rows=[replace(METADATA, plan=plan)])


@LOOPS
def test_a_connection_that_was_closed_is_read_no_further_however_much_its_client_sends(
    loop_factory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client neither reads the farewell nor says its own."""
    monkeypatch.setattr(tls_handshake, "HANDSHAKE_SECONDS", 3_600.0)

    async def scenario(tls: Tls, port: Port) -> None:
        def send() -> None:
            opened, until_s = socket.create_connection(("127.0.0.1", port.number)), time.monotonic() + 5
            with client_context().wrap_socket(opened, server_hostname="localhost") as client:
                client.sendall((1 << 30).to_bytes(4, "big"))
                while time.monotonic() < until_s:
                    client.sendall(bytes(MIB))

        with pytest.raises((ConnectionError, ssl.SSLError)):
            await asyncio.get_running_loop().run_in_executor(None, send)

    run(scenario, loop_factory)
