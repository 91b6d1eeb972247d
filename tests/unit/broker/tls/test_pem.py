"""PEM files of a node: what works is read, and what would not work is refused with the remedy."""

from __future__ import annotations

import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from broker.tls.material import FILE_BYTES_MAX
from broker.tls.pem import read_keystore, read_truststore
from penstock.certs.node_identity import NodeIdentity
from penstock.errors import ConfigError
from tests.support.certificates import CLUSTER, TestCa, key_and_chain, key_of, pem_of

CA, OTHER, PAST, FUTURE = TestCa(), TestCa("Other CA"), TestCa("Past CA", days=-10), TestCa("Next CA", days=4_000)
BETWEEN = TestCa("Between CA", CA)
NOW_MS = time.time_ns() // 1_000_000
DAY_MS = 86_400_000
NODE = CA.node(1)
KEY, CHAIN = key_and_chain(NODE)


def test_a_keystore_has_a_key_its_certificate_and_those_above_it() -> None:
    found = read_keystore(NODE, NOW_MS)
    assert found.key == KEY and found.chain == CHAIN and found.subject == "CN=node-1"
    assert found.identity == NodeIdentity(CLUSTER, 1)
    assert abs(found.not_after_ms - NOW_MS - 30 * DAY_MS) < DAY_MS
    assert "PRIVATE" not in repr(found)


def test_the_chain_goes_up_to_the_root_and_ends_with_the_first_that_ends() -> None:
    short = TestCa("Short CA", BETWEEN, days=5)
    found = read_keystore(short.leaf("a"), NOW_MS)
    assert found.chain.count(b"BEGIN CERTIFICATE") == 3
    assert abs(found.not_after_ms - NOW_MS - 5 * DAY_MS) < DAY_MS and found.identity is None


@pytest.mark.parametrize(
    "key",
    [
        rsa.generate_private_key(65_537, 2_048),
        ec.generate_private_key(ec.SECP384R1()),
    ],
)
def test_keys_of_every_common_kind_and_form_are_read(key: Any) -> None:
    pem = CA.leaf("a", key=key)
    older = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    for data in (pem, older + key_and_chain(pem)[1], b"some text\r\n" + pem.replace(b"\n", b"\r\n") + b"more text"):
        assert read_keystore(data, NOW_MS).subject == "CN=a"


def _other_key(kind: Any) -> bytes:
    return CA.leaf("a", key=kind)


BAD_KEYSTORES = {
    "empty": (b" \n", "is empty; it must have blocks like"),
    "no pem": (b"\x30\x82" * 50, "is not PEM"),
    "java's": (b"\xfe\xed\xfe\xed\x00\x00", "is not PEM"),
    "large": (b"x" * (FILE_BYTES_MAX + 1), "larger than"),
    "no key": (CHAIN, "has no private key; it must have one"),
    "two keys": (KEY + NODE, "has 2 private keys; it must have one"),
    "no certificate": (KEY, "has no certificate; put the node's after its key"),
    "a request": (KEY + CHAIN.replace(b"CERTIFICATE", b"CERTIFICATE REQUEST"), "has no certificate"),
    "encrypted": (pem_of(key_of("leaf node-1"), b"secret") + CHAIN, "its private key is encrypted; write it without"),
    "damaged key": (KEY[:60] + b"AAAA" + KEY[64:] + CHAIN, "its private key is damaged"),
    "damaged certificate": (KEY + CHAIN[:28] + b"AAAA" + CHAIN[32:], "certificate 1 in it is damaged"),
    "cut": (NODE[:-40], "has no certificate"),
    "another's key": (pem_of(key_of("x")) + CHAIN, "its private key is not that of its first certificate, CN=node-1"),
    "CA first": (KEY + BETWEEN.pem + CHAIN, "its private key is not that of its first certificate, CN=Between CA"),
    "wrong order": (BETWEEN.leaf("a") + OTHER.pem, "CN=Between CA is followed by CN=Other CA, which did not sign it"),
    "expired": (CA.node(1, days=-1), "the certificate CN=node-1 expired on 20"),
    "its CA expired": (TestCa("Gone CA", CA, days=-1).leaf("a"), "the certificate CN=Gone CA expired on"),
    "short RSA": (_other_key(rsa.generate_private_key(65_537, 1_024)), "its RSA key has 1024 bits; use 2048 or more"),
    "odd curve": (_other_key(ec.generate_private_key(ec.SECP521R1())), "its key is of a kind that not every client"),
}


@pytest.mark.parametrize("case", BAD_KEYSTORES)
def test_a_keystore_that_would_not_work_is_refused(case: str) -> None:
    data, says = BAD_KEYSTORES[case]
    with pytest.raises(ConfigError) as caught:
        read_keystore(data, NOW_MS)
    assert says in str(caught.value) and "\n" not in str(caught.value) and "PRIVATE KEY-----" not in str(caught.value)


def test_a_certificate_of_the_future_is_refused_for_the_clock() -> None:
    with pytest.raises(ConfigError, match=r"CN=node-1 is not valid before .*; check the clock of this machine"):
        read_keystore(NODE, NOW_MS - 10 * DAY_MS)
    with pytest.raises(ConfigError, match="expired on"):
        read_keystore(NODE, NOW_MS + 31 * DAY_MS)


def test_a_truststore_lasts_as_long_as_one_of_its_cas() -> None:
    found = read_truststore(PAST.pem + CA.pem + FUTURE.pem, NOW_MS)
    assert found.roots.count(b"BEGIN CERTIFICATE") == 3
    assert abs(found.not_after_ms - NOW_MS - 4_000 * DAY_MS) < DAY_MS


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (KEY, "has no certificate; put those of the CAs there"),
        (PAST.pem, "the certificate CN=Past CA expired on"),
        (CA.pem + CHAIN, "it is not the certificate of a CA; put that of its issuer there"),
        (CA.pem[:28] + b"AAAA" + CA.pem[32:], "certificate 1 in it is damaged"),
    ],
)
def test_a_truststore_that_vouches_for_nobody_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_truststore(data, NOW_MS)
    assert says in str(caught.value)


def test_a_key_of_ed25519_is_refused_because_grpcs_library_does_not_take_it() -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    with pytest.raises(ConfigError, match="its key is of a kind that not every client takes"):
        read_keystore(CA.leaf("a", key=key), NOW_MS)
