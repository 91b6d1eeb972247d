"""TLS at listeners whose sockets are in our hands, by the standard library's ssl (OpenSSL).

TLS 1.2 and 1.3; of 1.2 only suites with forward secrecy and authenticated encryption, which are all that 1.3 has. No
session is resumed: a client whose certificate has ended, or whose CA is no longer trusted, is found out when it
connects next. No renegotiation, which costs a server more than a client.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from broker.config.keys.security_keys import ClientAuth
from broker.tls.material import ListenerCertificates, Material

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
_VERIFY: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


class ServerContexts:
    """The context of one listener with the certificates in force."""

    def __init__(self, certificates: ListenerCertificates) -> None:
        self._certificates = certificates
        self._made: tuple[int, ssl.SSLContext] | None = None

    def current(self) -> ssl.SSLContext:
        """The context of a new connection. Made anew after a change, which takes a millisecond."""
        material = self._certificates.current
        if self._made is None or self._made[0] != material.version:
            self._made = material.version, server_context(material, self._certificates.settings.client_auth)
        return self._made[1]

    def __repr__(self) -> str:
        return f"ServerContexts({self._certificates!r})"


def server_context(material: Material, client_auth: ClientAuth) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0
    with _as_file(material.keystore.key + material.keystore.chain) as path:
        context.load_cert_chain(path)
    context.verify_mode = _VERIFY[client_auth]
    if material.roots is not None and client_auth is not ClientAuth.NONE:
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # any CA of the truststore is an anchor, as in Kafka
        context.load_verify_locations(cadata=material.roots.decode("ascii"))
    return context


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """OpenSSL's interface in Python reads a key by its path. This one is in memory where the system can do that."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("keystore")
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile(prefix="keystore-") as file:  # of mode 600
        file.write(data)
        file.flush()
        yield file.name


def why_not(error: BaseException) -> str:
    """The reason of a handshake that failed, in words; "it" is the client."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused ({error.verify_message})"
    reason = str(getattr(error, "reason", None) or "")
    for part, words in _REASONS:
        if part in reason:
            return words
    if isinstance(error, ssl.SSLError):
        return f"its handshake is no good ({reason.lower().replace('_', ' ') or 'no reason given'})"
    if isinstance(error, ConnectionAbortedError | TimeoutError):
        return "its handshake takes too long"
    return "it left in the middle of the handshake"


_REASONS: Final = (
    ("HTTP", "it speaks plain HTTP"),
    ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "it shows no certificate"),
    ("UNKNOWN_CA", "it does not trust the CA of this node's certificate"),
    ("ALERT_CERTIFICATE", "it does not take this node's certificate"),
    ("ALERT_BAD_CERTIFICATE", "it does not take this node's certificate"),
    ("UNSUPPORTED_PROTOCOL", "it speaks no TLS from 1.2 on"),
    ("VERSION_TOO_LOW", "it speaks no TLS from 1.2 on"),
    ("NO_SHARED_CIPHER", "it has none of the suites"),
    ("UNEXPECTED_EOF", "it left in the middle of the handshake"),
    ("WRONG_VERSION", "it speaks plain text, not TLS"),
    ("UNKNOWN_PROTOCOL", "it speaks plain text, not TLS"),
    ("RECORD", "it speaks plain text, not TLS"),
    ("PACKET_LENGTH", "it speaks plain text, not TLS"),
)
