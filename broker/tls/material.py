"""Certificates as the listeners and the ways to other nodes know them: values, and the port that they come by.

Without cryptography, which a node loads only when a listener has TLS (certificates.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from broker.config.keys.security_keys import TlsSettings
from penstock.certs.node_identity import NodeIdentity
from penstock.config_keys import INT64_MAX
from penstock.lazy_dataclass import dataclass

FILE_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Keystore:
    """A key and the certificates that go with it, in the form in which libraries take them (PEM)."""

    key: bytes
    chain: bytes
    subject: str
    not_after_ms: int
    """The end of the certificate in the chain that ends first."""
    identity: NodeIdentity | None
    """The node whose certificate it is."""

    def __repr__(self) -> str:
        return f"Keystore({self.subject})"  # never the key


@dataclass(frozen=True, slots=True)
class Truststore:
    """Certificates of CAs (PEM)."""

    roots: bytes
    not_after_ms: int
    """The end of the one that ends last: nobody can be vouched for after that."""


@dataclass(frozen=True, slots=True)
class Material:
    """Key and certificates that a connection is made with. `version` rises with every change of a file."""

    version: int
    keystore: Keystore
    truststore: Truststore | None

    @property
    def roots(self) -> bytes | None:
        return None if self.truststore is None else self.truststore.roots


class Owner(NamedTuple):
    """The owner of a certificate that a client has shown."""

    principal: str | None
    """None if no rule of the listener fits its name: it is nobody."""
    node: NodeIdentity | None
    """The node of which it is the certificate."""
    not_before_ms: int = 0
    not_after_ms: int = INT64_MAX


@dataclass(frozen=True, slots=True)
class CertificateStatistics:
    """The certificates of one listener. The times are milliseconds since 1970."""

    listener: str
    keystore_not_after_ms: int
    truststore_not_after_ms: int | None
    refused: str
    """The reason why what is in a changed file does not work: the node goes on with what it had. Empty: it has what is
    there."""

    @property
    def is_refused(self) -> bool:
        return bool(self.refused)


class ListenerCertificates(Protocol):
    """The certificates at the listener of one name, here and on the other nodes. Safe to call from any thread."""

    @property
    def settings(self) -> TlsSettings: ...

    @property
    def current(self) -> Material: ...

    def owner(self, certificate: bytes) -> Owner:
        """The owner of a certificate that TLS has verified, in DER or PEM."""
        ...

    def why_not_now(self, certificate: bytes) -> str:
        """The reason why that certificate is not valid at this moment; "" if it is."""
        ...


class Certificates(Protocol):
    """The certificates of one node."""

    def of(self, listener: str) -> ListenerCertificates | None:
        """None for a listener without TLS."""
        ...

    def node(self, node_id: int) -> NodeIdentity | None:
        """Another node of this cluster; None before the cluster is known."""
        ...

    @property
    def reloads(self) -> int:
        """How often changed files were taken."""
        ...

    def statistics(self) -> Sequence[CertificateStatistics]: ...


class NoCertificates:
    """A node has none on whose listeners there is no TLS."""

    reloads = 0

    def of(self, listener: str) -> ListenerCertificates | None:
        return None

    def node(self, node_id: int) -> NodeIdentity | None:
        return None

    def statistics(self) -> Sequence[CertificateStatistics]:
        return ()

    def __repr__(self) -> str:
        return "NoCertificates()"


NO_CERTIFICATES = NoCertificates()
