"""Certificates for tests: a CA, and what it signs, good or wrong in one way."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from broker.config.config import parse_config
from broker.config.node_config import NodeConfig
from broker.tls.certificates import NodeCertificates
from penstock.certs.node_identity import NodeIdentity
from penstock.clock import SystemClock
from tests.support.named_listeners import all_named

CLUSTER = "WuRhsPT0Qm-S_0lqnVZ80A"
HOSTS = ("localhost", "127.0.0.1", "::1")
DAY = timedelta(days=1)
CA_USAGE = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
"""As a strict verification wants it (RFC 5280, 4.2.1.3), which is Python's own from 3.13 on."""


@cache
def key_of(name: str) -> ec.EllipticCurvePrivateKey:
    """One key for each name: making them takes time."""
    return ec.generate_private_key(ec.SECP256R1())


def name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def pem_of(key: Any, password: bytes = b"") -> bytes:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))


class TestCa:
    """A root, or the CA that another one vouches for."""

    __test__ = False

    def __init__(
        self,
        subject: str = "Test CA",
        issuer: TestCa | None = None,
        days: float = 3_650,
        *,
        usage: x509.KeyUsage | None = None,
    ) -> None:
        self.issuer = issuer
        self.key = key_of(subject)
        builder = x509.CertificateBuilder()
        builder = builder.add_extension(usage or CA_USAGE, True)
        self.certificate = self._sign(builder, name(subject), self.key, days, issuer or self, True)

    @classmethod
    def of_files(cls, certificate: Path, key: Path) -> TestCa:
        """A root that there is already."""
        made = cls.__new__(cls)
        made.issuer, made.key = None, load_pem_private_key(key.read_bytes(), None)
        made.certificate = x509.load_pem_x509_certificate(certificate.read_bytes())
        return made

    def _sign(
        self, builder: x509.CertificateBuilder, subject: x509.Name, key: Any, days: float, issuer: TestCa, is_ca: bool
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        by = subject if issuer is self and is_ca else issuer.certificate.subject
        return (
            builder.subject_name(subject)
            .issuer_name(by)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, now + days * DAY) - DAY)
            .not_valid_after(now + days * DAY)
            .add_extension(x509.BasicConstraints(is_ca, None), True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key()), False)
            .sign(issuer.key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def chain(self) -> bytes:
        """Its own certificate and those above it, but the root's."""
        return b"" if self.issuer is None else self.pem + self.issuer.chain

    def leaf(
        self,
        subject: str | x509.Name,
        sans: Sequence[x509.GeneralName] = (),
        days: float = 30,
        *,
        key: Any = None,
        uses: Sequence[x509.ObjectIdentifier] = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
        usage: x509.KeyUsage | None = None,
    ) -> bytes:
        """The PEM of a keystore."""
        key = key or key_of(f"leaf {subject}")
        builder = x509.CertificateBuilder()
        if uses:
            builder = builder.add_extension(x509.ExtendedKeyUsage(uses), False)
        if usage is not None:
            builder = builder.add_extension(usage, True)
        if sans:
            builder = builder.add_extension(x509.SubjectAlternativeName(sans), False)
        written = name(subject) if isinstance(subject, str) else subject
        certificate = self._sign(builder, written, key, days, self, False)
        return pem_of(key) + certificate.public_bytes(Encoding.PEM) + self.chain

    def node(
        self,
        node_id: int,
        days: float = 30,
        cluster_id: str = CLUSTER,
        hosts: Sequence[str] = HOSTS,
        **more: Any,
    ) -> bytes:
        identity = NodeIdentity(cluster_id, node_id)
        names = [
            x509.UniformResourceIdentifier(identity.uri),
            x509.DNSName(identity.dns_name),
            *map(general_name, hosts),
        ]
        return self.leaf(f"node-{node_id}", names, days, **more)

    def client(self, user: str, days: float = 30) -> bytes:
        return self.leaf(user, (), days)


def general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def key_and_chain(keystore: bytes) -> tuple[bytes, bytes]:
    at = keystore.index(b"-----BEGIN CERTIFICATE")
    return keystore[:at], keystore[at:]


class Files:
    """The files of certificates of one node, in memory; NodeCertificates reads them by the two methods."""

    def __init__(self, **files: bytes) -> None:
        self.files: dict[str, bytes | OSError] = {f"/tls/{name}": data for name, data in files.items()}

    def put(self, name: str, data: bytes | OSError) -> None:
        self.files[f"/tls/{name}"] = data

    def read(self, path: str) -> bytes:
        found = self.files.get(path, FileNotFoundError(2, "No such file or directory"))
        if isinstance(found, OSError):
            raise found
        return found

    async def read_start(self, path: str, bytes_max: int) -> bytes:
        return self.read(path)[:bytes_max]


def tls_config(node_id: int = 1, **changes: object) -> NodeConfig:
    """A node with TLS at all of its listeners; `changes` have underscores for dots."""
    values: dict[str, object] = {
        "node.id": node_id,
        "process.roles": "broker,controller",
        "listeners": "BROKER://127.0.0.1:9192,INTERNAL://127.0.0.1:9194,CONTROLLER://127.0.0.1:9193,"
        "KAFKA://127.0.0.1:9092",
        "controller.quorum.voters": f"{node_id}@127.0.0.1:9193",
        "log.dirs": "/nowhere/a",
        "listener.security.protocol.map": "BROKER:SSL,INTERNAL:SSL,CONTROLLER:SSL,KAFKA:SSL",
        "ssl.keystore.location": "/tls/node",
        "ssl.truststore.location": "/tls/ca",
    }
    return parse_config(all_named(values | {name.replace("_", "."): value for name, value in changes.items()}))


def node_certificates(files: Files, node_id: int = 1, **changes: Any) -> NodeCertificates:
    return NodeCertificates(tls_config(node_id, **changes), SystemClock().wall_ms, files.read)
