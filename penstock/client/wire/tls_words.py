"""A TLS connection that failed, in one plain line with the remedy, whichever library told it. Pure.

BoringSSL (gRPC) and OpenSSL (Python, in forked children) word the same failures in their own ways. A peer that closes a
connection at once says nothing: it may speak TLS where the client does not, or want a certificate. Not here: making
connections.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.types import Endpoint

TLS_FAILED = "TLS failed"
"""Words in the text of an error that retrying does not mend: a bad certificate, or no TLS where it is expected."""
PEER_SPEAKS_TLS = "the peer speaks TLS"
"""The words of http2_connection.py for what a TLS listener sends to a client without TLS."""

BEFORE_A_WORD = "before the peer said anything"
"""The words of http2_connection.py for a connection that was closed at once."""


class _Trouble(NamedTuple):
    signs: tuple[str, ...]
    sentence: str


_TROUBLES = (
    _Trouble(
        ("certificate has expired", "CERTIFICATE_EXPIRED"),
        "the broker's certificate has expired: renew it (penstock certs renew), or mend a clock that is wrong",
    ),
    _Trouble(
        ("certificate is not yet valid",), "the broker's certificate is not valid yet: mend the clock that is wrong"
    ),
    _Trouble(
        ("Hostname Verification Check failed", "Hostname mismatch", "IP address mismatch"),
        "the broker's certificate is not for {host}: connect by a name that it has, issue it for this one too, or give"
        " the name that it has as tls_server_name",
    ),
    _Trouble(
        ("local issuer certificate", "self signed", "self-signed", "signature failure", "unable to get issuer"),
        "no authority in tls_ca has issued the broker's certificate: give the cluster's CA certificate as tls_ca",
    ),
    _Trouble(
        ("WRONG_VERSION_NUMBER", "wrong version number", "HTTP_REQUEST", "record layer failure"),
        "no TLS is spoken there: give the port of a TLS listener, or leave the tls options out",
    ),
    _Trouble(
        ("UNSUPPORTED_PROTOCOL", "PROTOCOL_VERSION", "unsupported protocol"),
        "the broker speaks no version of TLS from 1.2 on",
    ),
)
_ALERTS = ("CERTIFICATE_REQUIRED", "UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "HANDSHAKE_FAILURE")
"""The answers of a broker to a client's certificate that it does not take, or to none."""
_CLIENT_CERTIFICATE = (
    "the broker wants a certificate of this client that it trusts: give tls_cert and tls_key of an authority in its"
    " ssl.truststore.location, not expired"
)
_CONNECTING = ("failed to connect", BEFORE_A_WORD)
_CLOSED = (
    "Socket closed",
    "Connection reset",
    "connection reset",
    "Broken pipe",
    "Endpoint closing",
    "the peer closed it",
    "EOF",
)
_OTHERS = ("Tls handshake failed", "Ssl handshake failed", "[SSL", "SSL:", "certificate verify failed")


def tls_trouble(details: str, endpoint: Endpoint, is_tls: bool) -> str:
    """The sentence for what a library said of a connection; "" where TLS may not be the matter."""
    if PEER_SPEAKS_TLS in details:
        return f"{TLS_FAILED}: {PEER_SPEAKS_TLS}: give tls_ca (or tls=True)"
    if not is_tls:
        return ""
    for signs, sentence in _TROUBLES:
        if any(sign in details for sign in signs):
            return f"{TLS_FAILED}: {sentence.format(host=endpoint.host)}"
    words = details.replace(" ", "_").upper()
    if any(sign in details for sign in _OTHERS):
        if any(alert in words for alert in _ALERTS):
            return f"{TLS_FAILED}: {_CLIENT_CERTIFICATE}"
        return f"{TLS_FAILED}: {details}"
    return ""


def closed_at_once(details: str, is_tls: bool) -> str:
    """A remedy for a connection that was closed before anything was said; "" where that is not how it ended."""
    if not any(words in details for words in _CONNECTING) or not any(words in details for words in _CLOSED):
        return ""
    if is_tls:
        return f"; if the listener asks for certificates (ssl.client.auth), {_CLIENT_CERTIFICATE}"
    return "; if it is a TLS listener, give tls_ca (or tls=True)"
