"""Judges a node's certificate for its use at one listener before anybody connects: it must serve, call and be verified.

A certificate can be in order and still be of no use: issued for servers alone, though nodes call each other; without a
name by which clients look for it; signed by a CA that nobody can find. A start would say "ready", and no connection
would come about. What the nodes' own connections need is refused (`check_purpose`), because their truststores are the
one that is here. What depends on the clients' truststores is warned of (`client_warnings`).

The rules are those of RFC 5280 that OpenSSL and BoringSSL go by, which every client but Java's has. Pure. Not here:
keys, order and time of the certificates (pem.py).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.x509.oid import ExtendedKeyUsageOID

from broker.tls.material import Keystore, Truststore
from broker.tls.pem import extension_of, ms_of, subject_of, why_not_a_signer
from penstock.errors import ConfigError

WEAK_HASHES: Final = ("md5", "sha1")
"""TLS libraries of today take no signature with them."""
_USES: Final = {ExtendedKeyUsageOID.SERVER_AUTH: "serverAuth", ExtendedKeyUsageOID.CLIENT_AUTH: "clientAuth"}
_ISSUE: Final = "issue it again (`penstock certs` does it right)"


class Purpose(NamedTuple):
    """The use of a certificate at one listener."""

    listener: str
    is_of_nodes: bool
    """The other nodes verify it by their truststores, and it is shown to them by this node's calls, too."""
    hosts: tuple[str, ...] = ()
    """The names by which clients are told to connect; none is known of metrics.listener."""


def check_purpose(keystore: Keystore, truststore: Truststore | None, purpose: Purpose, now_ms: int) -> None:
    """ConfigError for a certificate that cannot be used at the listener."""
    chain = x509.load_pem_x509_certificates(keystore.chain)
    _check_leaf(chain[0], purpose)
    _check_signers(chain)
    if purpose.is_of_nodes and truststore is not None:
        if keystore.identity is not None and not _is_for(chain[0], keystore.identity.dns_name):
            raise ConfigError(
                f"the certificate {keystore.subject} lacks the DNS name {keystore.identity.dns_name}, by which the"
                f" other nodes know {keystore.identity}; {_ISSUE}"
            )
        _check_vouched_for(chain, truststore, now_ms)


def client_warnings(keystore: Keystore, truststore: Truststore | None, purpose: Purpose) -> Iterator[str]:
    """A line for each thing by which clients may fail to verify the certificate."""
    chain = x509.load_pem_x509_certificates(keystore.chain)
    for host in purpose.hosts:
        if not _is_for(chain[0], host):
            yield (
                f"{purpose.listener} is advertised as {host}, which is not among the names of its certificate: clients"
                f" that connect there refuse it; issue it again with `--host {host}`, or advertise a name that it has"
            )
    if purpose.is_of_nodes or truststore is None or _is_root(chain[-1]):
        return
    cas = x509.load_pem_x509_certificates(truststore.roots)
    if not any(_has_signed(ca, chain[-1]) for ca in cas if _is_root(ca)) and any(
        _has_signed(ca, chain[-1]) for ca in cas
    ):
        issuer = chain[-1].issuer.rfc4514_string()
        yield (
            f"{purpose.listener} does not show the certificate of {issuer}, which is no root: clients that trust the"
            " root alone cannot connect; put it after the node's certificate in the keystore"
        )


def _check_leaf(certificate: x509.Certificate, purpose: Purpose) -> None:
    subject = subject_of(certificate)
    extended = extension_of(certificate, x509.ExtendedKeyUsage)
    wanted = (ExtendedKeyUsageOID.SERVER_AUTH, *([ExtendedKeyUsageOID.CLIENT_AUTH] * purpose.is_of_nodes))
    for use in wanted:
        if extended is not None and use not in extended:
            why = (
                "nodes show it when they call each other"
                if use != ExtendedKeyUsageOID.SERVER_AUTH
                else "it serves there"
            )
            raise ConfigError(
                f"the certificate {subject} lacks the extended key usage {_USES[use]}, which {purpose.listener} needs,"
                f" because {why}; {_ISSUE}, with {' and '.join(_USES[one] for one in wanted)}"
            )
    usage = extension_of(certificate, x509.KeyUsage)
    if usage is not None and not usage.digital_signature:
        raise ConfigError(
            f"the certificate {subject} lacks the key usage digitalSignature, without which no TLS of today can be"
            f" spoken; {_ISSUE}"
        )
    names = extension_of(certificate, x509.SubjectAlternativeName)
    if names is None or not any(isinstance(name, x509.DNSName | x509.IPAddress) for name in names):
        raise ConfigError(
            f"the certificate {subject} has no host among its names (subjectAltName), so every client refuses it; issue"
            " it again with the names and addresses by which clients connect (`penstock certs node ID --host HOST`)"
        )


def _check_signers(chain: Sequence[x509.Certificate]) -> None:
    """The CAs between the node's certificate and the root may sign, and may sign so deep."""
    for depth, certificate in enumerate(chain):
        hash_used = certificate.signature_hash_algorithm
        if hash_used is not None and hash_used.name in WEAK_HASHES and not _is_root(certificate):
            raise ConfigError(
                f"the certificate {subject_of(certificate)} is signed with {hash_used.name.upper()}, which nobody"
                " trusts any more; issue it again with SHA-256"
            )
        if depth and (why := why_not_a_signer(certificate)):
            raise ConfigError(f"the certificate {subject_of(certificate)} has signed another one, but {why}; {_ISSUE}")
        constraints = extension_of(certificate, x509.BasicConstraints)
        limit = None if constraints is None else constraints.path_length
        if depth and limit is not None and depth - 1 > limit:
            raise ConfigError(
                f"the certificate {subject_of(certificate)} allows {limit} CAs below it, and there are {depth - 1};"
                " issue the node's certificate by a CA that is nearer to it"
            )


def _check_vouched_for(chain: Sequence[x509.Certificate], truststore: Truststore, now_ms: int) -> None:
    cas = x509.load_pem_x509_certificates(truststore.roots)
    in_time = [ca for ca in cas if _is_in_time(ca, now_ms)]
    if any(certificate in in_time for certificate in chain[1:]) or any(_has_signed(ca, chain[-1]) for ca in in_time):
        return
    subject, issuer = subject_of(chain[0]), chain[-1].issuer.rfc4514_string()
    if any(_has_signed(ca, chain[-1]) for ca in cas) or any(certificate in cas for certificate in chain[1:]):
        raise ConfigError(
            f"the certificate {subject} is vouched for by {issuer}, whose own certificate in the truststore is not"
            " valid now; put its new one there"
        )
    raise ConfigError(
        f"the certificate {subject} is refused by the other nodes: {issuer} has signed {subject_of(chain[-1])}, and is"
        " neither in the keystore nor in the truststore; put its certificate at the end of the keystore if it is a CA"
        " between, or into the truststore of every node if it is the root"
    )


def _is_for(certificate: x509.Certificate, host: str) -> bool:
    names = extension_of(certificate, x509.SubjectAlternativeName)
    if names is None:
        return False
    try:
        return ipaddress.ip_address(host) in names.get_values_for_type(x509.IPAddress)
    except ValueError:
        pass
    wanted = host.lower().removesuffix(".")
    for name in names.get_values_for_type(x509.DNSName):
        pattern = name.lower().removesuffix(".")
        if pattern == wanted or (pattern.startswith("*.") and pattern[2:] == wanted.partition(".")[2]):
            return True
    return False


def _has_signed(ca: x509.Certificate, certificate: x509.Certificate) -> bool:
    if ca.subject != certificate.issuer:
        return False
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _is_root(certificate: x509.Certificate) -> bool:
    return certificate.issuer == certificate.subject


def _is_in_time(certificate: x509.Certificate, now_ms: int) -> bool:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return ms_of(begin) <= now_ms < ms_of(end)
