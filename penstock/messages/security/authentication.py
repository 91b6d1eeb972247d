"""SaslAuthenticate: the dialogue in which a client proves who it is."""

from __future__ import annotations

from dataclasses import field

from penstock.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SaslAuthenticateRequest:
    """A step of a dialogue; a connection has one under way at most."""

    mechanism: str
    """Begins a dialogue; empty: goes on with the one under way."""
    auth_bytes: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SaslAuthenticateResponse:
    """The answer to a step; one that refuses is an error."""

    auth_bytes: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    """The session's token, given with the last step. The client sends it with each call and stream of this connection
    from then on."""
    session_lifetime_ms: int = 0
    """The lifetime of the session, given with the last step; 0: the session ends with the connection."""
