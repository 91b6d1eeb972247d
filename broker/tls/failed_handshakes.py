"""Says why TLS with another node failed, in words and with the remedy, as seldom as a log can bear. Pure.

A node calls the others again and again; gRPC's library gives the reason in the text of each failed call, among much
else. Without a line in the log a node waits for ever, and nothing says that it is for a certificate.

    a reason that is new for the node     one line
    the same reason again                 another line after REPEAT_MS
    reasons that alternate                a line each CHANGE_MS at most

Not here: TLS itself (broker/grpc/credentials.py), and what a certificate must have (purpose.py).
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Final, NamedTuple

REPEAT_MS: Final = 60_000
CHANGE_MS: Final = 5_000
PEERS_MAX: Final = 1_000
"""Nodes whose last line is remembered; the one that was told of longest ago is forgotten."""
REASON_CHARACTERS_MAX: Final = 200

_UNVERIFIED: Final = re.compile(r"CERTIFICATE_VERIFY_FAILED:?\s*([^:\"]*)")
_CERTS: Final = "`penstock certs` does it right"
_OF_VERIFICATION: Final = (
    ("expired", "has expired; renew it there (`penstock certs renew`)"),
    ("not yet valid", "is not valid yet; look at the clocks of both machines"),
    ("purpose", f"is not for servers (extended key usage serverAuth is missing); issue it again there ({_CERTS})"),
    ("issuer certificate", "is of no CA in this node's truststore; put that CA there, or the one between at its end"),
    ("self", "is of no CA in this node's truststore; put the CA there"),
)
_OF_HANDSHAKES: Final = (
    ("Hostname Verification", "its certificate is that of another node or cluster; look at its keystore and address"),
    ("WRONG_VERSION_NUMBER", "it speaks no TLS there; give its listener SSL in listener.security.protocol.map"),
    ("UNKNOWN_CA", "it does not trust the CA of this node's certificate; look at its ssl.truststore.location"),
    ("CERTIFICATE_REQUIRED", "it wants a certificate and got none; look at this node's keystore"),
    ("ALERT", "it refuses this node's certificate; look at both nodes' certificates with `penstock node check`"),
    (
        "Socket closed",
        "it closed the connection in the handshake; it may not trust the CA of this node's certificate, or speaks no"
        " TLS there",
    ),
    ("andshake failed", "the handshake failed"),
)


_OPEN: Final = (
    "it closed the connection at once; if its listener has TLS, name the listener in listener.security.protocol.map"
    " here, too"
)


class _Logged(NamedTuple):
    reason: str
    at_ms: int


class FailedHandshakes:
    """The reasons that were told, by node."""

    def __init__(self) -> None:
        self._logged: OrderedDict[str, _Logged] = OrderedDict()

    def line(self, peer: str, details: str, has_tls: bool, now_ms: int) -> str:
        """The line for the log about a call to `peer` that failed so; "" where TLS is not the reason, or was told.
        `has_tls`: this node speaks TLS to others."""
        reason = reason_of(details) if has_tls else _OPEN if _is_cut_at_once(details) else ""
        if not reason:
            return ""
        before = self._logged.get(peer)
        if before is not None and now_ms - before.at_ms < (REPEAT_MS if before.reason == reason else CHANGE_MS):
            return ""
        self._logged[peer] = _Logged(reason, now_ms)
        self._logged.move_to_end(peer)
        if len(self._logged) > PEERS_MAX:
            self._logged.popitem(last=False)
        return f"no TLS with {peer}: {reason}"

    def __repr__(self) -> str:
        return f"FailedHandshakes({len(self._logged)} nodes)"


def _is_cut_at_once(details: str) -> bool:
    return "failed to connect" in details and "Socket closed" in details


def reason_of(details: str) -> str:
    """The reason in the text of a call that failed before its request was sent; "" if the reason is not TLS."""
    if "failed to connect" not in details:
        return ""  # the connection was there
    if (found := _UNVERIFIED.search(details)) is not None:
        why = found[1].strip()[:REASON_CHARACTERS_MAX]
        known = next((text for part, text in _OF_VERIFICATION if part in why), "cannot be verified")
        return f"its certificate {known} ({why or 'no reason given'})"
    return next((text for part, text in _OF_HANDSHAKES if part in details), "")
