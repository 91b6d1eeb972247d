"""Tells who makes a call: the far end of its connection, and what proves its name. An edge.

    PLAINTEXT                    nothing does: User:ANONYMOUS
    SSL, between nodes           the certificate, which must be of a node of this cluster
    SSL, for clients             the certificate, if one was shown
    SASL_PLAINTEXT, SASL_SSL     the session whose token comes with the call

A TLS session that was resumed was not judged by gRPC's library: its certificate may have ended since. So it is judged
here, at each call and each stream that is opened, and its connection ends with its certificate. A connection whose
handshake verified the certificate keeps what it began with, as at KAFKA: a calendar that jumps cuts none.

Not here: what the caller may do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Protocol

import grpc.aio

from broker.authentication.authentication import Authentication
from broker.authentication.senders import Senders
from broker.authentication.sessions import CallerPlace, Sessions
from broker.config.node_config import NodeConfig
from broker.connections.accepted_sockets import peer_of
from broker.connections.proven_connections import ProvenConnections
from broker.grpc.refused_calls import EndsConnection
from broker.network.request_channel import Caller
from broker.tls.material import NO_CERTIFICATES, Certificates, ListenerCertificates
from penstock.errors import (
    AuthenticationRequiredError,
    InvalidRequestError,
    InvariantViolation,
    SaslAuthenticationFailedError,
)
from penstock.messages.api import Api
from penstock.types import Endpoint

URIS: Final = "peer_uri"
"""The property of a connection that has the URIs of its certificate, in gRPC's words."""
CERTIFICATE: Final = "x509_pem_cert"
RESUMED: Final = "ssl_session_reused"
AUTHORIZATION: Final = "authorization"
"""The key of metadata that has the token, as in HTTP."""
BEARER: Final = "Bearer "
METADATA_MAX: Final = 1_000
"""gRPC's limits hold for each frame of a call's headers and not for all of them together: a call may bring a hundred
thousand, of which the library makes Python objects on the event loop."""


class Callers(Protocol):
    """The callers of one listener."""

    def caller(self, context: grpc.aio.ServicerContext, api: Api[Any, Any]) -> Caller:
        """The caller that makes this call, or opens this stream; a typed error if it may not."""
        ...

    def check_sender(self, api: Api[Any, Any], request: Any, caller: Caller) -> None:
        """ClusterAuthorizationFailedError for a request in the name of another node than the caller."""
        ...

    def is_known(self, peer: Endpoint) -> bool:
        """False if callers of that connection have still to log in."""
        ...

    def proven(self) -> Mapping[Endpoint, str]:
        """The connections by which somebody has proved an identity, and whose it is."""
        ...

    def looked(self, connected: Collection[Endpoint], began_ms: int) -> None:
        """These connections of the listener were open after that time (monotonic)."""
        ...


class AnonymousCallers:
    """Nobody says who it is."""

    def __init__(self, listener: str) -> None:
        self._listener = listener

    def caller(self, context: grpc.aio.ServicerContext, api: Api[Any, Any]) -> Caller:
        return Caller(peer_of(context.peer()), self._listener)

    def check_sender(self, api: Api[Any, Any], request: Any, caller: Caller) -> None:
        """Every node is believed."""

    def is_known(self, peer: Endpoint) -> bool:
        return True

    def proven(self) -> Mapping[Endpoint, str]:
        return {}

    def looked(self, connected: Collection[Endpoint], began_ms: int) -> None:
        """Nothing is kept for a connection."""

    def __repr__(self) -> str:
        return f"AnonymousCallers({self._listener})"


class NodeCallers:
    """The nodes of one cluster, by their certificates; gRPC has verified these."""

    def __init__(self, listener: str, cluster_id: str, certificates: ListenerCertificates | None = None) -> None:
        """Judges no session without `certificates`."""
        self._listener, self._senders = listener, Senders(listener, cluster_id)
        self._certificates, self._proven = certificates, ProvenConnections()

    def caller(self, context: grpc.aio.ServicerContext, api: Api[Any, Any]) -> Caller:
        uris = [raw.decode("utf-8", "replace") for raw in context.auth_context().get(URIS, ())]
        peer = peer_of(context.peer())
        if self._certificates is not None:
            _judge_resumed(self._listener, context, self._certificates)
        node_id = self._senders.certified(uris, peer)
        self._proven.note(peer, f"node {node_id}")
        return Caller(peer, self._listener, node_id=node_id)

    def check_sender(self, api: Api[Any, Any], request: Any, caller: Caller) -> None:
        if caller.node_id is not None:
            self._senders.check(api, request, caller.node_id, caller.peer)

    def is_known(self, peer: Endpoint) -> bool:
        return True

    def proven(self) -> Mapping[Endpoint, str]:
        return self._proven.all()

    def looked(self, connected: Collection[Endpoint], began_ms: int) -> None:
        self._proven.looked(connected)

    def __repr__(self) -> str:
        return f"NodeCallers({self._senders!r})"


class CertifiedCallers:
    """Clients, by the names in their certificates where they have shown one; gRPC has verified these."""

    def __init__(self, listener: str, certificates: ListenerCertificates) -> None:
        self._listener, self._certificates = listener, certificates
        self._proven = ProvenConnections()

    def caller(self, context: grpc.aio.ServicerContext, api: Api[Any, Any]) -> Caller:
        peer, shown = peer_of(context.peer()), context.auth_context().get(CERTIFICATE, ())
        if not shown:
            return Caller(peer, self._listener)
        _judge_resumed(self._listener, context, self._certificates)
        principal = self._principal_of(shown[0])
        self._proven.note(peer, principal)
        return Caller(peer, self._listener, principal)

    def _principal_of(self, pem: bytes) -> str:
        principal = self._certificates.owner(pem).principal
        if principal is None:
            raise SaslAuthenticationFailedError(
                f"{self._listener}: no rule of ssl.principal.mapping.rules fits the name in the client's certificate"
            )
        return principal

    def check_sender(self, api: Api[Any, Any], request: Any, caller: Caller) -> None:
        """No node calls here."""

    def is_known(self, peer: Endpoint) -> bool:
        return True

    def proven(self) -> Mapping[Endpoint, str]:
        return self._proven.all()

    def looked(self, connected: Collection[Endpoint], began_ms: int) -> None:
        self._proven.looked(connected)

    def __repr__(self) -> str:
        return f"CertifiedCallers({self._listener})"


class SessionCallers:
    """Users who have logged in, by the token that comes with each call."""

    def __init__(self, listener: str, sessions: Sessions, now_ms: Callable[[], int]) -> None:
        self._listener, self._sessions, self._now_ms = listener, sessions, now_ms

    def caller(self, context: grpc.aio.ServicerContext, api: Api[Any, Any]) -> Caller:
        at = CallerPlace(self._listener, peer_of(context.peer()))
        is_known = self.is_known(at.peer)
        token = self._token(context, at.peer) if is_known else ""  # else none counts, and the metadata is not looked at
        principal = self._sessions.principal_of(at, token, self._now_ms()) if token else None
        if principal is not None:
            return Caller(at.peer, self._listener, principal)
        if api.before_authentication:
            return Caller(at.peer, self._listener)
        known = "has none" if not token else "has one that does not count here or is over"
        raise self._required(known if is_known else "has none of one that is open here")

    def _token(self, context: grpc.aio.ServicerContext, peer: Endpoint) -> str:
        """The token that comes with a call; "" if the call has no token. Ends the connection for metadata beyond
        reason."""
        metadata = context.invocation_metadata() or ()
        if len(metadata) > METADATA_MAX:
            raise EndsConnection(
                InvalidRequestError(f"{self._listener}: a call has {len(metadata)} metadata; at most {METADATA_MAX}")
            )
        return _bearer(metadata)

    def check_sender(self, api: Api[Any, Any], request: Any, caller: Caller) -> None:
        """No node calls here."""

    def is_known(self, peer: Endpoint) -> bool:
        return self._sessions.has_one(CallerPlace(self._listener, peer), self._now_ms())

    def check_still(self, caller: Caller) -> None:
        """AuthenticationRequiredError if who has opened a stream is not logged in any more."""
        at = CallerPlace(self._listener, caller.peer)
        if not self._sessions.is_logged_in(at, caller.principal, self._now_ms()):
            raise self._required("belongs to one that is over")

    def proven(self) -> Mapping[Endpoint, str]:
        return self._sessions.principals(self._listener, self._now_ms())

    def looked(self, connected: Collection[Endpoint], began_ms: int) -> None:
        self._sessions.look(self._listener, connected, began_ms)

    def _required(self, why: str) -> AuthenticationRequiredError:
        return AuthenticationRequiredError(
            f"{self._listener} wants a session of its callers, and this call {why}: give the client a user and a "
            "password (username, password); a client of your own calls SaslAuthenticate and sends its token with each "
            "call"
        )

    def __repr__(self) -> str:
        return f"SessionCallers({self._listener}, {self._sessions!r})"


def _bearer(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    for key, value in metadata:
        if key == AUTHORIZATION and isinstance(value, str) and value.startswith(BEARER):
            return value.removeprefix(BEARER)
    return ""


def _judge_resumed(listener: str, context: grpc.aio.ServicerContext, certificates: ListenerCertificates) -> None:
    """Ends the connection if it has resumed the TLS session of a certificate that is not valid now."""
    auth = context.auth_context()
    if auth.get(RESUMED) == [b"false"]:
        return
    for shown in auth.get(CERTIFICATE, ()):
        if why := certificates.why_not_now(shown):
            raise EndsConnection(
                SaslAuthenticationFailedError(
                    f"{listener}: the certificate of this connection {why}, and a TLS session that began before is not "
                    "resumed; connect with a certificate that is valid now (`penstock certs renew`)"
                )
            )


def node_callers(
    config: NodeConfig, listener: str, cluster_id: str, certificates: Certificates = NO_CERTIFICATES
) -> Callers:
    """The callers of a listener between the nodes of the cluster."""
    is_tls = config.security_protocol(listener).is_tls
    return NodeCallers(listener, cluster_id, certificates.of(listener)) if is_tls else AnonymousCallers(listener)


def client_callers(
    config: NodeConfig,
    listener: str,
    certificates: Certificates,
    authentication: Authentication | None,
    now_ms: Callable[[], int],
) -> Callers:
    """The callers of a listener for clients. `now_ms` is monotonic."""
    protocol, of_listener = config.security_protocol(listener), certificates.of(listener)
    if not protocol.is_sasl and not protocol.is_tls:
        return AnonymousCallers(listener)
    if protocol.is_sasl and authentication is not None:
        return SessionCallers(listener, authentication.sessions, now_ms)
    if not protocol.is_sasl and of_listener is not None:
        return CertifiedCallers(listener, of_listener)
    raise InvariantViolation(f"{listener} has {protocol}, and nothing tells who calls there")
