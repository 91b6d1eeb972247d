"""Reads the two PEM files of a node: its key with its certificates (keystore), and the CAs that it trusts (truststore).

    keystore     PRIVATE KEY (PKCS#8, PKCS#1 or SEC 1, not encrypted), then CERTIFICATE of the node, then those of the
                 CAs between it and the root
    truststore   CERTIFICATE of each CA

A file that would not work is refused here, in words that say what to do about it: the two libraries that use it later
would say little, or fail only when somebody connects. Pure. Not here: the files themselves (certificates.py).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from broker.tls.material import FILE_BYTES_MAX, Keystore, Truststore
from penstock.certs.node_identity import NodeIdentity
from penstock.certs.node_identity import parse as parse_identity
from penstock.errors import ConfigError

_Extension = TypeVar("_Extension", bound=x509.ExtensionType)

CERTIFICATES_MAX: Final = 500
RSA_BITS_MIN: Final = 2_048
CURVES: Final = ("secp256r1", "secp384r1")
"""The curves that every TLS library of today takes without being asked."""

_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----.*?-----END \1-----", re.DOTALL)
_KEYS: Final = (b"PRIVATE KEY", b"EC PRIVATE KEY", b"RSA PRIVATE KEY")
_CERTIFICATES: Final = (b"CERTIFICATE", b"X509 CERTIFICATE", b"TRUSTED CERTIFICATE")


def read_keystore(data: bytes, now_ms: int) -> Keystore:
    """ConfigError for one that cannot be used now."""
    blocks = _blocks(data)
    if any(kind == b"ENCRYPTED PRIVATE KEY" or b"Proc-Type: 4,ENCRYPTED" in block for kind, block in blocks):
        raise ConfigError(
            "its private key is encrypted; write it without a password (`openssl pkey -in FILE -out NEW`) and let only "
            "the node's user read it"
        )
    keys = [block for kind, block in blocks if kind in _KEYS]
    if len(keys) != 1:
        raise ConfigError(f"has {len(keys) or 'no'} private key{'s' * (len(keys) > 1)}; it must have one")
    chain = _certificates(blocks)
    if not chain:
        raise ConfigError("has no certificate; put the node's after its key, then those of the CAs up to the root")
    _check_key(keys[0], chain[0])
    _check_chain(chain)
    for certificate in chain:
        _check_time(certificate, now_ms)
    pem = b"".join(certificate.public_bytes(Encoding.PEM) for certificate in chain)
    return Keystore(
        keys[0] + b"\n",
        pem,
        subject_of(chain[0]),
        min(ms_of(certificate.not_valid_after_utc) for certificate in chain),
        identity_of(chain[0]),
    )


def read_truststore(data: bytes, now_ms: int) -> Truststore:
    """ConfigError for one that vouches for nobody now."""
    certificates = _certificates(_blocks(data))
    if not certificates:
        raise ConfigError("has no certificate; put those of the CAs there")
    for certificate in certificates:
        if why := why_not_a_signer(certificate):
            raise ConfigError(f"{subject_of(certificate)} vouches for nobody: {why}; put that of its issuer there")
    last = max(certificates, key=lambda certificate: certificate.not_valid_after_utc)
    _check_time(last, now_ms)
    pem = b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)
    return Truststore(pem, ms_of(last.not_valid_after_utc))


def identity_of(certificate: x509.Certificate) -> NodeIdentity | None:
    """The node whose certificate it is; None for anybody else's, and for one that names several."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return None
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    found = [identity for identity in map(parse_identity, uris) if identity is not None]
    return found[0] if len(found) == 1 else None


def subject_of(certificate: x509.Certificate) -> str:
    """The name of the owner for people; as a principal it is written by principals.py."""
    return certificate.subject.rfc4514_string() or f"serial number {certificate.serial_number:x}"


def _blocks(data: bytes) -> list[tuple[bytes, bytes]]:
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"larger than {FILE_BYTES_MAX} bytes; this is no file of certificates")
    found = [(match[1], match[0]) for match in _BLOCK.finditer(data)]
    if not found:
        what = "is empty" if not data.strip() else "is not PEM"
        raise ConfigError(f"{what}; it must have blocks like -----BEGIN CERTIFICATE-----")
    return found


def _certificates(blocks: Sequence[tuple[bytes, bytes]]) -> list[x509.Certificate]:
    found: list[x509.Certificate] = []
    for kind, block in blocks:
        if kind in _CERTIFICATES:
            try:
                found.append(x509.load_pem_x509_certificate(block))
            except ValueError as error:
                raise ConfigError(f"certificate {len(found) + 1} in it is damaged ({_line(error)})") from None
    if len(found) > CERTIFICATES_MAX:
        raise ConfigError(f"has {len(found)} certificates; {CERTIFICATES_MAX} at most")
    return found


def _check_key(pem: bytes, certificate: x509.Certificate) -> None:
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"its private key is damaged ({_line(error)})") from None
    public = key.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        if public.key_size < RSA_BITS_MIN:
            raise ConfigError(f"its RSA key has {public.key_size} bits; use {RSA_BITS_MIN} or more, or a curve")
    elif not isinstance(public, ec.EllipticCurvePublicKey) or public.curve.name not in CURVES:
        raise ConfigError(f"its key is of a kind that not every client takes; use RSA, or {' or '.join(CURVES)}")
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if public.public_bytes(*form) != certificate.public_key().public_bytes(*form):
        raise ConfigError(
            f"its private key is not that of its first certificate, {subject_of(certificate)}; put the node's own "
            "certificate first, or its key there"
        )


def _check_chain(chain: Sequence[x509.Certificate]) -> None:
    """Each is signed by the next one: libraries do not put them in order."""
    for signed, issuer in itertools.pairwise(chain):
        try:
            signed.verify_directly_issued_by(issuer)
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            raise ConfigError(
                f"{subject_of(signed)} is followed by {subject_of(issuer)}, which did not sign it; put the certificate "
                f"of {signed.issuer.rfc4514_string()} there"
            ) from None


def _check_time(certificate: x509.Certificate, now_ms: int) -> None:
    subject = subject_of(certificate)
    if now_ms >= ms_of(certificate.not_valid_after_utc):
        raise ConfigError(
            f"the certificate {subject} expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC; put a new one "
            "there (`penstock certs renew`)"
        )
    if now_ms < ms_of(certificate.not_valid_before_utc):
        raise ConfigError(
            f"the certificate {subject} is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; "
            "check the clock of this machine"
        )


def why_not_a_signer(certificate: x509.Certificate) -> str:
    """The reason why a certificate vouches for no other one; "" for that of a CA. A certificate of the first version
    does not say."""
    constraints = extension_of(certificate, x509.BasicConstraints)
    if not (certificate.issuer == certificate.subject if constraints is None else constraints.ca):
        return "it is not the certificate of a CA"
    usage = extension_of(certificate, x509.KeyUsage)
    if usage is not None and not usage.key_cert_sign:
        return "it lacks the key usage keyCertSign"
    return ""


def extension_of(certificate: x509.Certificate, kind: type[_Extension]) -> _Extension | None:
    """None if it has none of that kind; ConfigError if they cannot be read."""
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise ConfigError(f"the extensions of {subject_of(certificate)} cannot be read ({_line(error)})") from None


def ms_of(moment: datetime) -> int:
    """The milliseconds since 1970."""
    return int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 1000


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
