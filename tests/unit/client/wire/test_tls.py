"""TLS of both transports: who is trusted, and the one line for each way in which it can fail."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.client.wire.channel import GrpcTransport
from penstock.client.wire.http2_channel import Http2Transport
from penstock.client.wire.tls_files import TlsOptions, tls_of
from penstock.client.wire.tls_words import BEFORE_A_WORD, TLS_FAILED, closed_at_once
from penstock.client.wire.transport import ClientTransport
from penstock.errors import ConfigError, NetworkError
from penstock.types import Endpoint
from tests.support.certificates import TestCa, key_and_chain, key_of, pem_of
from tests.support.fake_network import ServedStream
from tests.support.grpc_service import serve, server_credentials

CALL = "/penstock.v1.Test/Call"
CA, OTHERS = TestCa(), TestCa("Another CA")
TRANSPORTS = pytest.mark.parametrize("transport", [GrpcTransport(), Http2Transport()], ids=["grpc", "http2"])


class Answers:
    def is_stream(self, method: str) -> bool:
        return False

    async def call(self, method: str, request: bytes) -> bytes:
        return request

    async def stream(self, method: str, stream: ServedStream) -> None:
        raise NotImplementedError


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    path.write_bytes(CA.pem)
    return path


def written(keystore: bytes, directory: Path, name: str) -> tuple[Path, Path]:
    """The paths of the certificate and of the key."""
    cert, key = directory / f"{name}.pem", directory / f"{name}.key"
    key_bytes, chain = key_and_chain(keystore)
    cert.write_bytes(chain)
    key.write_bytes(key_bytes)
    return cert, key


def asked(transport: ClientTransport, credentials: Any, options: TlsOptions | None, host: str = "127.0.0.1") -> bytes:
    async def run() -> bytes:
        server, port = await serve(Answers(), 0, credentials)
        channel = transport.connect(Endpoint(host, port), None if options is None else tls_of(options))
        try:
            return await channel.call(CALL, b"ok", 5_000)
        finally:
            await channel.close()
            await server.stop(None)

    return asyncio.run(run())


@TRANSPORTS
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_broker_of_a_trusted_authority_is_asked_by_address_and_by_name(
    transport: ClientTransport, ca: Path, host: str
) -> None:
    assert asked(transport, server_credentials(CA.node(1)), TlsOptions(ca), host) == b"ok"


@TRANSPORTS
def test_a_certificate_may_have_another_name_than_the_address(transport: ClientTransport, ca: Path) -> None:
    credentials = server_credentials(CA.node(1, hosts=["broker-1"]))
    assert asked(transport, credentials, TlsOptions(ca, server_name="broker-1")) == b"ok"


@TRANSPORTS
@pytest.mark.parametrize("files", ["two", "one"])
def test_a_broker_that_asks_for_certificates_gets_the_clients(
    transport: ClientTransport, ca: Path, tmp_path: Path, files: str
) -> None:
    credentials = server_credentials(CA.node(1), CA.pem)
    cert, key = written(CA.client("alice"), tmp_path, "alice")
    if files == "one":
        cert.write_bytes(key.read_bytes() + cert.read_bytes())
    options = TlsOptions(ca, cert, key if files == "two" else None)
    assert asked(transport, credentials, options) == b"ok"


BROKERS: dict[str, tuple[bytes | None, str]] = {
    "expired": (CA.node(1, days=-1), "has expired: renew it"),
    "wrong name": (CA.node(1, hosts=["elsewhere"]), "is not for 127.0.0.1: connect by a name that it has"),
    "unknown authority": (OTHERS.node(1), "no authority in tls_ca has issued"),
    "no TLS": (None, "no TLS is spoken there: give the port of a TLS listener"),
}


@TRANSPORTS
@pytest.mark.parametrize("case", list(BROKERS))
def test_a_broker_that_is_not_trusted_is_refused_in_one_plain_line(
    transport: ClientTransport, ca: Path, case: str
) -> None:
    keystore, says = BROKERS[case]
    with pytest.raises(NetworkError, match=says) as raised:
        asked(transport, None if keystore is None else server_credentials(keystore), TlsOptions(ca))
    text = str(raised.value)
    assert TLS_FAILED in text
    assert "SSL_" not in text and "OPENSSL" not in text and "_ssl.c" not in text


@TRANSPORTS
def test_a_client_without_tls_is_told_that_the_listener_may_want_it(transport: ClientTransport) -> None:
    with pytest.raises(NetworkError, match=r"give tls_ca \(or tls=True\)"):
        asked(transport, server_credentials(CA.node(1)), None)


@TRANSPORTS
@pytest.mark.parametrize("own", ["none", "unknown authority", "expired"])
def test_a_client_whose_certificate_is_not_taken_is_told_so(
    transport: ClientTransport, ca: Path, tmp_path: Path, own: str
) -> None:
    credentials = server_credentials(CA.node(1), CA.pem)
    options = TlsOptions(ca)
    if own != "none":
        keystore = OTHERS.client("alice") if own == "unknown authority" else CA.client("alice", days=-1)
        cert, key = written(keystore, tmp_path, "alice")
        options = replace(options, cert=cert, key=key)
    with pytest.raises(NetworkError, match=r"certificate .*give tls_cert and tls_key"):
        asked(transport, credentials, options)


def test_files_that_cannot_be_used_are_named(ca: Path, tmp_path: Path) -> None:
    cert, key = written(CA.client("alice"), tmp_path, "alice")
    _, other_key = written(CA.client("bob"), tmp_path, "bob")
    empty, missing = tmp_path / "empty.pem", tmp_path / "missing.pem"
    empty.write_bytes(b"")
    encrypted = tmp_path / "encrypted.key"
    encrypted.write_bytes(pem_of(key_of("leaf alice"), b"a password"))
    for options, says in (
        (TlsOptions(missing), f"tls_ca='{missing}' cannot be read: No such file"),
        (TlsOptions(tmp_path), "cannot be read: Is a directory"),
        (TlsOptions(empty), f"tls_ca='{empty}' has no certificates in PEM form"),
        (TlsOptions(key), f"tls_ca='{key}' has no certificates in PEM form"),
        (TlsOptions(ca, missing, key), f"tls_cert='{missing}' cannot be read"),
        (TlsOptions(ca, cert, missing), f"tls_key='{missing}' cannot be read"),
        (TlsOptions(ca, cert), f"tls_cert='{cert}' has no certificate and private key"),
        (TlsOptions(ca, cert, empty), f"tls_key='{empty}' has no private key"),
        (TlsOptions(ca, cert, other_key), f"tls_key='{other_key}' is not the private key of tls_cert='{cert}'"),
        (TlsOptions(ca, cert, encrypted), f"tls_key='{encrypted}' is encrypted"),
    ):
        with pytest.raises(ConfigError) as raised:
            pytest.fail(f"{says}: {tls_of(options)}")
        assert says in str(raised.value)
        assert "BEGIN" not in str(raised.value)


@pytest.mark.parametrize("how", ["[Errno 32] Broken pipe", "[Errno 104] Connection reset by peer"])
def test_a_connection_that_ends_at_once_may_want_a_certificate(how: str) -> None:
    """The broker's alert may be lost to what the client writes meanwhile."""
    said = closed_at_once(f"the connection ended {BEFORE_A_WORD}: {how}", is_tls=True)
    assert "give tls_cert and tls_key" in said
    assert "give tls_ca" in closed_at_once(f"the connection ended {BEFORE_A_WORD}: {how}", is_tls=False)
