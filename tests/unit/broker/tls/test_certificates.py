"""Certificates of a running node: read at the start, taken when they change, kept while a change is broken."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from broker.tls.certificates import LOOK_SECONDS, NodeCertificates
from broker.tls.material import Owner
from penstock.certs.node_identity import NodeIdentity
from penstock.clock import ManualClock, SystemClock
from penstock.errors import ConfigError
from tests.support.certificates import CLUSTER, Files, TestCa, key_and_chain, node_certificates, tls_config
from tests.support.virtual_time import run_virtual

CA, OTHER = TestCa(), TestCa("Other CA")
DAY_MS = 86_400_000


def files() -> Files:
    return Files(node=CA.node(1), ca=CA.pem)


def versions(certificates: NodeCertificates) -> set[int]:
    return {found.current.version for found in certificates._listeners.values()}


def refusal(given: Files, **changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        node_certificates(given, **changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_start_reads_each_listeners_files_and_a_listener_without_tls_has_none() -> None:
    given = files()
    given.put("public", CA.leaf("www", [x509.DNSName("www.example.com")]))
    found = node_certificates(
        given,
        listener_security_protocol_map="KAFKA:SSL,INTERNAL:SSL",
        listener_name_kafka_ssl_keystore_location="/tls/public",
    )
    assert found.of("BROKER") is None
    kafka, internal = found.of("KAFKA"), found.of("INTERNAL")
    assert kafka is not None and internal is not None
    assert kafka.current.keystore.subject == "CN=www" and internal.current.keystore.subject == "CN=node-1"
    assert [one.listener for one in found.statistics()] == ["INTERNAL", "KAFKA"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("node", FileNotFoundError(2, "No such file or directory"), "/tls/node: there is no such file"),
        ("ca", PermissionError(13, "Permission denied"), "/tls/ca: cannot be read (Permission denied); check owner"),
        ("node", IsADirectoryError(21, "Is a directory"), "/tls/node: is a directory; name the file itself"),
        ("node", b"", "/tls/node: is empty"),
        ("node", CA.node(1, days=-1), "/tls/node: the certificate CN=node-1 expired on"),
        ("ca", b"x", "/tls/ca: is not PEM"),
        (
            "node",
            CA.client("anna"),
            "/tls/node: the certificate CN=anna has no host among its names (subjectAltName), so every client",
        ),
    ],
)
def test_a_file_that_does_not_work_refuses_the_start(name: str, content: Any, says: str) -> None:
    given = files()
    given.put(name, content)
    assert says in refusal(given)


def test_rules_that_cannot_be_read_refuse_the_start() -> None:
    assert "ssl.principal.mapping.rules" in refusal(files(), ssl_principal_mapping_rules="RULE:a")


def test_another_nodes_certificate_is_refused_when_the_cluster_is_known() -> None:
    given = files()
    node_certificates(given).belong_to(CLUSTER)
    with pytest.raises(ConfigError, match=r"is that of node 1 of cluster .*, but this is node 1 of cluster AAAA"):
        node_certificates(given).belong_to("A" * 22)
    given.put("node", CA.node(2))
    with pytest.raises(ConfigError, match=r"/tls/node: its certificate is that of node 2 .*, but this is node 1 of"):
        node_certificates(given).belong_to(CLUSTER)


def test_a_listener_for_clients_shows_any_certificate() -> None:
    given = Files(node=CA.leaf("www", [x509.DNSName("www.example.com")]), ca=CA.pem)
    node_certificates(given, listener_security_protocol_map="KAFKA:SSL").belong_to(CLUSTER)


def look(certificates: NodeCertificates, given: Files) -> None:
    asyncio.run(certificates.look(given))


def test_a_changed_file_is_taken_once_for_every_listener() -> None:
    given = files()
    certificates = node_certificates(given)
    look(certificates, given)
    assert versions(certificates) == {1} and certificates.reloads == 0
    given.put("node", CA.node(1, days=60))
    look(certificates, given)
    look(certificates, given)
    assert versions(certificates) == {2} and certificates.reloads == 4
    given.put("ca", CA.pem + OTHER.pem)
    look(certificates, given)
    assert versions(certificates) == {3}


BROKEN = {
    "empty": b"",
    "half": CA.node(1)[:300],
    "gone": FileNotFoundError(2, "No such file or directory"),
    "disk": OSError(5, "Input/output error"),
    "expired": CA.node(1, days=-1),
    "another key": key_and_chain(CA.client("x"))[0] + key_and_chain(CA.node(1))[1],
    "another node": CA.node(2),
    "another cluster": CA.node(1, cluster_id="B" * 22),
    "no node": CA.client("anna"),
    "for servers alone": CA.node(1, uses=(ExtendedKeyUsageOID.SERVER_AUTH,)),
    "of a CA that nobody trusts": OTHER.node(1),
    "without the CA between": key_and_chain(TestCa("Between CA", CA).node(1))[0]
    + key_and_chain(TestCa("Between CA", CA).node(1))[1].partition(b"-----END CERTIFICATE-----\n")[0]
    + b"-----END CERTIFICATE-----\n",
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_not_taken_and_the_old_one_goes_on(case: str, caplog: pytest.LogCaptureFixture) -> None:
    given = files()
    certificates = node_certificates(given)
    certificates.belong_to(CLUSTER)
    given.put("node", BROKEN[case])  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR):
        look(certificates, given)
        look(certificates, given)
    logged = [line for line in caplog.messages if line.startswith("INTERNAL: changed certificates were not taken")]
    assert len(logged) == 1 and "/tls/node: " in logged[0], "once, however often it is looked at"
    refused = {one.listener: one.is_refused for one in certificates.statistics()}
    assert refused["INTERNAL"] and refused["CONTROLLER"] and versions(certificates) <= {1, 2}
    internal = certificates.of("INTERNAL")
    assert internal is not None and internal.current.version == 1
    given.put("node", CA.node(1))
    look(certificates, given)
    assert not any(one.is_refused for one in certificates.statistics())


def test_a_file_that_is_put_back_is_no_trouble_any_more() -> None:
    given = files()
    before = given.files["/tls/node"]
    certificates = node_certificates(given)
    given.put("node", b"broken")
    look(certificates, given)
    assert all(one.is_refused for one in certificates.statistics())
    given.files["/tls/node"] = before
    look(certificates, given)
    assert not any(one.is_refused for one in certificates.statistics()) and versions(certificates) == {1}


def test_a_mistake_of_a_library_stops_no_later_look(monkeypatch: pytest.MonkeyPatch) -> None:
    given = files()
    certificates = node_certificates(given)
    given.put("node", CA.node(1, days=60))
    with monkeypatch.context() as patch:
        patch.setattr("broker.tls.certificates.read_keystore", lambda data, now: 1 / 0)
        look(certificates, given)
    assert versions(certificates) == {1} and all(one.is_refused for one in certificates.statistics())
    look(certificates, given)
    assert versions(certificates) == {2}


def test_files_are_looked_at_again_and_again() -> None:
    given = files()
    certificates = node_certificates(given)

    async def story() -> None:
        serving = asyncio.create_task(certificates.serve(given))
        await asyncio.sleep(LOOK_SECONDS + 1)
        assert versions(certificates) == {1}
        given.put("node", CA.node(1, days=60))
        await asyncio.sleep(LOOK_SECONDS)
        assert versions(certificates) == {2}
        serving.cancel()

    run_virtual(story())


def test_a_look_that_waits_for_a_disk_is_known() -> None:
    class Hangs:
        async def read_start(self, path: str, bytes_max: int) -> bytes:
            await asyncio.sleep(1_000_000)
            return b""

    certificates = node_certificates(files())

    async def story() -> None:
        looking = asyncio.create_task(certificates.look(Hangs()))
        await asyncio.sleep(0)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        assert certificates.is_reading, "a thread waits still, and the stop of the process must not wait for it"

    asyncio.run(story())


def test_what_ends_soon_is_told_once_a_day(caplog: pytest.LogCaptureFixture) -> None:
    given = Files(node=CA.node(1, days=10.5), ca=CA.pem)
    clock = ManualClock(0, SystemClock().wall_ms())
    config = tls_config(listener_security_protocol_map="INTERNAL:SSL")
    certificates = NodeCertificates(config, clock.wall_ms, given.read)
    for _ in range(3):
        look(certificates, given)
    line = "INTERNAL: certificates in /tls/node end in 10 days; renew them (penstock certs renew)"
    assert [text for text in caplog.messages if "end in" in text] == [line]
    clock.advance(DAY_MS)
    look(certificates, given)
    assert [text for text in caplog.messages if "end in" in text] == [line, line.replace("10 days", "9 days")]
    assert certificates.statistics()[0].keystore_not_after_ms > clock.wall_ms()


def test_the_owner_of_a_clients_certificate_by_the_rules_of_the_listener() -> None:
    rule = "RULE:^CN=([a-z]+)$/$1/"
    kafka = node_certificates(files(), listener_name_kafka_ssl_principal_mapping_rules=rule).of("KAFKA")
    assert kafka is not None
    certificate = key_and_chain(CA.client("anna"))[1]
    assert kafka.owner(certificate)[:2] == Owner("User:anna", None)[:2]
    assert kafka.owner(key_and_chain(CA.node(2))[1])[:2] == Owner(None, NodeIdentity(CLUSTER, 2))[:2]
