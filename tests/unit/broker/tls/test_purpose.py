"""A certificate is judged for its use before a start: a way in which nobody could connect is refused or warned of."""

from __future__ import annotations

import time

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from broker.tls.pem import read_keystore, read_truststore
from broker.tls.purpose import Purpose, check_purpose, client_warnings
from penstock.certs.authority import Authority
from penstock.certs.node_identity import NodeIdentity
from penstock.errors import ConfigError
from tests.support.certificates import CLUSTER, TestCa, general_name, key_and_chain

NOW_MS = time.time_ns() // 1_000_000
SERVER, CLIENT, ANY = (
    ExtendedKeyUsageOID.SERVER_AUTH,
    ExtendedKeyUsageOID.CLIENT_AUTH,
    ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
)
CA, OTHER = TestCa(), TestCa("Other CA")
BETWEEN = TestCa("Between CA", CA)
GONE = TestCa("Gone CA", days=-1)
OF_NODES, OF_CLIENTS = Purpose("INTERNAL", True), Purpose("KAFKA", False, ("localhost",))


def usage(*, signs: bool = False, vouches: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(signs, False, True, False, False, vouches, False, False, False)


def leaf_alone(keystore: bytes) -> bytes:
    """Without the certificates of the CAs."""
    key, chain = key_and_chain(keystore)
    end = b"-----END CERTIFICATE-----\n"
    return key + chain[: chain.index(end) + len(end)]


def judge(keystore: bytes, truststore: bytes = CA.pem, purpose: Purpose = OF_NODES) -> str:
    """The refusal; "" for none."""
    try:
        trusted = read_truststore(truststore, NOW_MS) if truststore else None
        check_purpose(read_keystore(keystore, NOW_MS), trusted, purpose, NOW_MS)
    except ConfigError as error:
        assert "\n" not in str(error)
        return str(error)
    return ""


def warnings(keystore: bytes, truststore: bytes = CA.pem, purpose: Purpose = OF_CLIENTS) -> list[str]:
    return list(client_warnings(read_keystore(keystore, NOW_MS), read_truststore(truststore, NOW_MS), purpose))


@pytest.mark.parametrize("purpose", [OF_NODES, OF_CLIENTS])
def test_certificates_that_work_are_taken_without_a_word(purpose: Purpose) -> None:
    for keystore in (CA.node(1), CA.node(1, uses=()), CA.node(1, usage=usage(signs=True)), BETWEEN.node(1)):
        assert judge(keystore, CA.pem, purpose) == "" and warnings(keystore, CA.pem, purpose) == []
    renewed = CA.pem + OTHER.pem
    assert judge(OTHER.node(1), renewed, purpose) == judge(CA.node(1), renewed, purpose) == ""


def test_penstock_certs_makes_right_ones(tmp_path: object) -> None:
    authority = Authority.create(f"{tmp_path}/ca", CLUSTER)
    keystore = authority.node(1, ["localhost"]).read_bytes()
    truststore = (authority.directory / "ca.pem").read_bytes()
    for purpose in (OF_NODES, OF_CLIENTS):
        assert judge(keystore, truststore, purpose) == "" and warnings(keystore, truststore, purpose) == []


@pytest.mark.parametrize(
    ("uses", "of_nodes", "of_clients"),
    [
        ((SERVER,), "lacks the extended key usage clientAuth, which INTERNAL needs, because nodes show it when", ""),
        ((CLIENT,), "lacks the extended key usage serverAuth, which INTERNAL needs", "serverAuth, which KAFKA needs"),
        ((ANY,), "serverAuth, which INTERNAL needs", "lacks the extended key usage serverAuth, which KAFKA needs"),
    ],
)
def test_a_use_that_is_missing_is_named(
    uses: tuple[x509.ObjectIdentifier, ...], of_nodes: str, of_clients: str
) -> None:
    keystore = CA.node(1, uses=uses)
    found = judge(keystore)
    assert of_nodes in found and found.endswith("with serverAuth and clientAuth")
    assert of_clients in judge(keystore, CA.pem, OF_CLIENTS) and bool(of_clients) == bool(
        judge(keystore, CA.pem, OF_CLIENTS)
    )


@pytest.mark.parametrize("purpose", [OF_NODES, OF_CLIENTS])
def test_a_certificate_that_signs_no_connection_is_refused(purpose: Purpose) -> None:
    assert "lacks the key usage digitalSignature" in judge(CA.node(1, usage=usage()), CA.pem, purpose)


def test_a_certificate_without_a_host_is_refused() -> None:
    assert "has no host among its names (subjectAltName)" in judge(CA.leaf("localhost"), CA.pem, OF_CLIENTS)
    uri = [x509.UniformResourceIdentifier(NodeIdentity(CLUSTER, 1).uri)]
    assert "has no host among its names" in judge(CA.leaf("a", uri), CA.pem, OF_CLIENTS)


def test_a_node_needs_the_name_by_which_nodes_know_it() -> None:
    names = [x509.UniformResourceIdentifier(NodeIdentity(CLUSTER, 1).uri), general_name("127.0.0.1")]
    assert "lacks the DNS name node-1." in judge(CA.leaf("a", names))


def test_a_ca_between_that_is_missing_is_named_with_its_place() -> None:
    found = judge(leaf_alone(BETWEEN.node(1)))
    assert "CN=Between CA has signed CN=node-1, and is neither in the keystore nor in the truststore" in found
    assert judge(leaf_alone(BETWEEN.node(1)), CA.pem + BETWEEN.pem) == "", "the nodes have it in the truststore"
    assert judge(BETWEEN.node(1), BETWEEN.pem) == "", "any CA of the truststore is an anchor"
    assert "is refused by the other nodes: CN=Other CA" in judge(OTHER.node(1))


def test_clients_that_have_the_root_alone_miss_the_ca_between() -> None:
    (line,) = warnings(leaf_alone(BETWEEN.node(1)), CA.pem + BETWEEN.pem)
    assert line.startswith("KAFKA does not show the certificate of CN=Between CA, which is no root")
    assert warnings(OTHER.node(1)) == [], "a public certificate, of a CA that only clients trust"


def test_a_ca_that_has_ended_vouches_for_nobody() -> None:
    assert "whose own certificate in the truststore is not valid now" in judge(GONE.node(1), CA.pem + GONE.pem)


def test_what_may_not_sign_has_signed_nothing() -> None:
    cannot = TestCa("Weak CA", CA, usage=usage(signs=True))
    assert "CN=Weak CA has signed another one, but it lacks the key usage keyCertSign" in judge(cannot.node(1))
    with pytest.raises(ConfigError, match="vouches for nobody: it lacks the key usage keyCertSign"):
        read_truststore(TestCa("Weak root", usage=usage(signs=True)).pem, NOW_MS)


def test_a_listener_that_is_advertised_by_another_name_is_warned_of() -> None:
    def warnings_of(host: str, *names: str) -> list[str]:
        return warnings(CA.leaf("a", list(map(general_name, names))), CA.pem, Purpose("KAFKA", False, (host,)))

    (line,) = warnings_of("broker-1.example.com", "localhost", "10.0.0.1")
    assert line.startswith("KAFKA is advertised as broker-1.example.com, which is not among the names of its certific")
    assert "--host broker-1.example.com" in line
    assert warnings_of("broker-1.example.com", "*.example.com") == warnings_of("B.example.com", "b.EXAMPLE.com") == []
    assert warnings_of("10.0.0.1", "10.0.0.1") == warnings_of("::1", "0:0::1") == []
    assert warnings_of("a.b.example.com", "*.example.com") and warnings_of("10.0.0.2", "10.0.0.1")
