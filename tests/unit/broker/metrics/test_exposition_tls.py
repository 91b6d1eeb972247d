"""The operators' pages over TLS: who is answered, by which certificate, and what the log says of the others."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge

from broker.config.keys.security_keys import METRICS_LISTENER
from broker.metrics.exposition import serve_pages
from broker.metrics.page_server import PageLimits
from broker.tls.certificates import NodeCertificates
from broker.tls.ssl_contexts import ServerContexts
from penstock.testing.ports import HOST, free_ports
from penstock.types import Endpoint
from tests.support.certificates import Files, TestCa, node_certificates

CA = TestCa()
MAP = "listener.security.protocol.map"
Served = Callable[..., tuple[Endpoint, NodeCertificates, Files]]


@pytest.fixture
def served() -> Iterator[Served]:
    stops = []

    def serve(client_auth: str = "none") -> tuple[Endpoint, NodeCertificates, Files]:
        endpoint = Endpoint(HOST, free_ports(1)[0].metrics)
        files = Files(node=CA.node(1), ca=CA.pem)
        changes = {
            "metrics.listener": str(endpoint),
            MAP: "METRICS:SSL",
            "listener.name.metrics.ssl.client.auth": client_auth,
        }
        certificates = node_certificates(files, **changes)
        own = certificates.of(METRICS_LISTENER)
        assert own is not None
        registry = CollectorRegistry()
        Gauge("one", "It is one.", registry=registry).set(1)
        stops.append(serve_pages(endpoint, registry, {}, ServerContexts(own), PageLimits(logged_every_s=0)))
        return endpoint, certificates, files

    yield serve
    for stop in stops:
        stop()


def context(tmp_path: Path, keystore: bytes = b"") -> ssl.SSLContext:
    made = ssl.create_default_context(cadata=CA.pem.decode())
    if keystore:
        (tmp_path / "client.pem").write_bytes(keystore)
        made.load_cert_chain(tmp_path / "client.pem")
    return made


def scraped(endpoint: Endpoint, trust: ssl.SSLContext) -> str:
    with urllib.request.urlopen(f"https://{endpoint}/metrics", timeout=60, context=trust) as answer:
        return str(answer.read().decode())


def serial(endpoint: Endpoint, trust: ssl.SSLContext) -> object:
    with (
        socket.create_connection(endpoint, timeout=60) as plain,
        trust.wrap_socket(plain, server_hostname=HOST) as secured,
    ):
        return (secured.getpeercert() or {})["serialNumber"]


def test_a_scrape_that_trusts_the_ca_is_answered(served: Served, tmp_path: Path) -> None:
    endpoint, _, _ = served()
    assert "\none 1.0\n" in scraped(endpoint, context(tmp_path))


def test_who_does_not_trust_the_ca_or_speaks_plain_http_is_not_and_the_log_says_why(
    served: Served, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    endpoint, _, _ = served()
    with caplog.at_level(logging.WARNING), pytest.raises(urllib.error.URLError):
        scraped(endpoint, ssl.create_default_context())
    with caplog.at_level(logging.WARNING), pytest.raises((OSError, urllib.error.URLError)):
        urllib.request.urlopen(f"http://{endpoint}/metrics", timeout=60)
    scraped(endpoint, context(tmp_path))
    said = sorted(record.getMessage() for record in caplog.records)
    assert said == [
        f"metrics.listener: no TLS with {HOST}: it does not trust the CA of this node's certificate",
        f"metrics.listener: no TLS with {HOST}: it speaks plain HTTP",
    ]


def test_a_listener_that_asks_for_certificates_answers_those_who_have_one(served: Served, tmp_path: Path) -> None:
    endpoint, _, _ = served("required")
    assert "\none 1.0\n" in scraped(endpoint, context(tmp_path, CA.client("prometheus")))
    for keystore in (b"", TestCa("A stranger's CA").client("prometheus")):
        with pytest.raises(OSError):
            scraped(endpoint, context(tmp_path, keystore))


def test_a_new_certificate_is_shown_from_the_next_connection_on(served: Served, tmp_path: Path) -> None:
    endpoint, certificates, files = served()
    before = serial(endpoint, context(tmp_path))
    files.put("node", CA.node(1, days=20))
    asyncio.run(certificates.look(files))
    assert serial(endpoint, context(tmp_path)) != before


def test_half_a_handshake_holds_up_nobody(served: Served, tmp_path: Path) -> None:
    endpoint, _, _ = served()
    with socket.create_connection(endpoint, timeout=60) as silent:
        silent.sendall(b"\x16\x03\x01\x02\x00")
        assert "\none 1.0\n" in scraped(endpoint, context(tmp_path))
