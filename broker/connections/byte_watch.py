"""Decides which connections are cut for the bytes that they send before anybody has logged in by them. Pure.

Before a log-in a connection has little to say: TLS's handshake, the log-in, health checks. gRPC's library takes more
without a word, and for some frames without an end (a header block in CONTINUATION frames, which no limit of the library
ends): they become no call that a node could refuse. So the kernel's count of received bytes is looked at:

    of a connection     CONNECTION_BYTES_MAX at once, then CONNECTION_BYTES_A_SECOND
    of a network        NETWORK_BYTES_MAX at once, then NETWORK_BYTES_A_SECOND; an address of IPv4, 64 bits of IPv6

Above the first the connection is cut, above the second each connection of the network that has sent more than a log-in
takes since the last look. Bytes from before the end of a log-in that is over now do not count. Not here: reading the
counts (accepted_sockets.py), how often (byte_watcher.py), and messages that are read before a log-in (lobby.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from metadata.addresses import network_of
from penstock.types import Endpoint

CONNECTION_BYTES_MAX: Final = 1 << 18
CONNECTION_BYTES_A_SECOND: Final = 16_384
NETWORK_BYTES_MAX: Final = 4 << 20
NETWORK_BYTES_A_SECOND: Final = 1 << 18
LOG_IN_BYTES: Final = 16_384
"""A handshake with a chain of certificates, and a log-in: however many clients behind one address come at once, none is
cut for that."""


class _Bucket:
    """The bytes that count now; they leak away."""

    __slots__ = ("level",)

    def __init__(self) -> None:
        self.level = 0.0

    def add(self, count: int) -> None:
        self.level += count

    def leak(self, count: float) -> None:
        self.level = max(self.level - count, 0.0)


class ByteWatch:
    """The connections of one listener, as they were at the last look."""

    def __init__(self) -> None:
        self._received: dict[Endpoint, int] = {}
        self._buckets: dict[Endpoint, _Bucket] = {}
        self._networks: dict[str, _Bucket] = {}
        self._at_ms: int | None = None
        self._logged_in: set[Endpoint] = set()
        """The connections by which somebody is or was logged in."""

    def look(self, received: Mapping[Endpoint, int], connected: Collection[Endpoint], now_ms: int) -> set[Endpoint]:
        """The connections that are cut. `received` has all bytes of each connection without a log-in, `connected` are
        all connections."""
        self._leak(now_ms)
        more = {peer: self._more(peer, count) for peer, count in received.items()}
        self._logged_in = {peer for peer in self._logged_in if peer in connected}
        self._logged_in.update(peer for peer in connected if peer not in received)
        self._received = dict(received)
        self._buckets = {peer: self._buckets.get(peer) or _Bucket() for peer in received}
        for peer, count in more.items():
            self._buckets[peer].add(count)
            self._networks.setdefault(network_of(peer.host), _Bucket()).add(count)
        return {
            peer
            for peer, count in more.items()
            if self._buckets[peer].level > CONNECTION_BYTES_MAX
            or (count > LOG_IN_BYTES and self._networks[network_of(peer.host)].level > NETWORK_BYTES_MAX)
        }

    def _more(self, peer: Endpoint, count: int) -> int:
        """The bytes since the last look."""
        if peer in self._logged_in and peer not in self._received:
            return 0
        return max(count - self._received.get(peer, 0), 0)

    def _leak(self, now_ms: int) -> None:
        passed_s = 0.0 if self._at_ms is None else max(now_ms - self._at_ms, 0) / 1000
        self._at_ms = now_ms
        for bucket in self._buckets.values():
            bucket.leak(passed_s * CONNECTION_BYTES_A_SECOND)
        for bucket in self._networks.values():
            bucket.leak(passed_s * NETWORK_BYTES_A_SECOND)
        self._networks = {network: bucket for network, bucket in self._networks.items() if bucket.level}

    def __repr__(self) -> str:
        return f"ByteWatch({len(self._received)} connections without a log-in)"
