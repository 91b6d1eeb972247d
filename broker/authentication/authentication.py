"""Everything by which the callers of a node log in: what both protocols, and the handler of SaslAuthenticate, are
given."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.authentication.authentication_counts import AuthenticationCounts
from broker.authentication.logins import Dialogue, LoginListener, Logins
from broker.authentication.sessions import Sessions
from penstock.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Authentication:
    """The log-in parts of a node. There is one per node; without SASL it is not used."""

    listeners: Mapping[str, LoginListener]
    """The listeners with SASL, of both protocols, by name."""
    lifetime_ms: Callable[[Dialogue], int]
    """How long the log-in of a dialogue that is done counts: as long as what has proved the user, and no longer than
    the listener's `connections.max.reauth.ms`; 0 for as long as its connection."""
    logins: Logins
    sessions: Sessions
    """The log-ins at gRPC's listener; at Kafka's a connection itself is logged in."""
    counts: AuthenticationCounts
