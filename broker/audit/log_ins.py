"""Audits log-ins, with user and host, and refusals. Many clients log in all the time, so lines are bounded.

The line of a refusal does not have the name that was given: somebody may have typed a password in its place.
"""

from __future__ import annotations

from broker.audit.audit_log import AuditKind, AuditLog
from broker.audit.shown import cut
from broker.network.request_channel import ANONYMOUS
from penstock.addresses import network_of
from penstock.errors import SaslAuthenticationFailedError
from penstock.types import Endpoint

API = "SaslAuthenticate"


class AuditedLogIns:
    """The log-ins of one node (`broker.authentication.logins.LogInWatch`)."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log

    def succeeded(self, principal: str, listener: str, mechanism: str, peer: Endpoint) -> None:
        def facts() -> dict[str, object]:
            return {**_from(principal, listener, peer), "mechanism": mechanism}

        self._log.bounded(AuditKind.LOG_IN, "logged in", (principal, listener, peer.host), facts)

    def refused(self, listener: str, mechanism: str, peer: Endpoint, why: str) -> None:
        error = SaslAuthenticationFailedError.kafka_name

        def facts() -> dict[str, object]:
            return {**_from(ANONYMOUS, listener, peer), "mechanism": mechanism, "error": error, "why": why}

        self._log.bounded(AuditKind.FAILED_LOG_IN, "not logged in", (listener, network_of(peer.host)), facts)

    def __repr__(self) -> str:
        return f"AuditedLogIns({self._log!r})"


def _from(principal: str, listener: str, peer: Endpoint) -> dict[str, object]:
    return {"principal": cut(principal), "host": peer.host, "port": peer.port, "listener": listener, "api": API}
