"""Remembers the connections of one listener by which a certificate has proved somebody's identity. Pure.

gRPC tells of a connection's certificate only with its calls. So a connection is proven from its first call on, and
until a look at the listener's connections (connection_watch.py) does not find it any more. Not here: log-ins with a
password or a token (authentication/sessions.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.types import Endpoint


class ProvenConnections:
    """The principals, or the nodes, by their connections."""

    def __init__(self) -> None:
        self._seen: dict[Endpoint, str] = {}
        self._new: dict[Endpoint, str] = {}
        """Noted since the last look, which may have come before the connection did."""

    def note(self, peer: Endpoint, party: str) -> None:
        """A certificate came with a call."""
        if peer not in self._seen:
            self._new[peer] = party

    def looked(self, connected: Collection[Endpoint]) -> None:
        """These connections are open; those that are not are forgotten, at the second look at the latest."""
        self._seen = {peer: party for peer, party in self._seen.items() if peer in connected} | self._new
        self._new = {}

    def all(self) -> Mapping[Endpoint, str]:
        return self._seen | self._new

    def __repr__(self) -> str:
        return f"ProvenConnections({len(self._seen) + len(self._new)})"
