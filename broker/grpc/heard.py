"""Counts what came of the bytes that each connection of a gRPC listener has sent: calls, messages, and their bytes.

The event loop counts; a thread compares that with the kernel's counts (connections/byte_watcher.py). Not here: which
connections are cut (connections/byte_watch.py, connections/under_way.py).
"""

from __future__ import annotations

from collections.abc import Collection

from broker.connections.under_way import HeardCounts
from broker.network.parties import party
from broker.network.request_channel import ANONYMOUS, Caller
from penstock.types import Endpoint


class _Connection:
    __slots__ = ("calls", "message_bytes", "principal")

    def __init__(self) -> None:
        self.calls = self.message_bytes = 0
        self.principal = ANONYMOUS
        """The last one that has proved who it is there. A call without a token makes no stranger of it: it would pass
        what is under way on to its network."""


class HeardConnections:
    """The connections of one listener. `of` and `party_of` are safe to call from any thread."""

    def __init__(self) -> None:
        self._of: dict[Endpoint, _Connection] = {}
        self._missing: set[Endpoint] = set()
        """Connections that the last look did not find: it may have been before they came."""

    def asked(self, caller: Caller) -> None:
        """A call has begun, or a message of a stream has come."""
        heard = self._of.get(caller.peer)
        if heard is None:
            heard = self._of[caller.peer] = _Connection()
        heard.calls += 1
        if caller.principal != ANONYMOUS:
            heard.principal = caller.principal

    def delivered(self, caller: Caller, size: int) -> None:
        """Counts a message of `size` bytes that has come whole."""
        heard = self._of.get(caller.peer)
        if heard is not None:
            heard.message_bytes += size

    def of(self, peer: Endpoint) -> HeardCounts | None:
        """None if no call came there."""
        heard = self._of.get(peer)
        return None if heard is None else HeardCounts(heard.calls, heard.message_bytes)

    def party_of(self, peer: Endpoint) -> str:
        """The party that pays for what the connection sends."""
        heard = self._of.get(peer)
        return party(ANONYMOUS if heard is None else heard.principal, peer.host)

    def looked(self, connected: Collection[Endpoint]) -> None:
        """These connections are open."""
        gone = self._of.keys() - set(connected)
        for peer in gone & self._missing:
            del self._of[peer]
        self._missing = gone - self._missing

    def __repr__(self) -> str:
        return f"HeardConnections({len(self._of)})"
