"""Decides which connections are cut for the bytes that they send before anybody has logged in by them. Pure.

Before a log-in a connection has little to say: TLS's handshake, the log-in, health checks. Where nobody logs in it is
the same before the first call: no message is read until then. gRPC's library takes more without a word, and for some
frames without an end (a header block in CONTINUATION frames, which no limit of the library ends): they become no call
that a node could refuse. So the kernel's count of received bytes is looked at:

    of a connection     CONNECTION_BYTES_MAX at once, then CONNECTION_BYTES_A_SECOND
    of a network        NETWORK_BYTES_MAX at once, then NETWORK_BYTES_A_SECOND; an address of IPv4, 64 bits of IPv6

Above the first the connection is cut. The second counts what each connection sends above LOG_IN_BYTES, or where nobody
logs in above FIRST_CALL_BYTES, so however many clients of one address begin at once, they count for nothing. Above it
the network's connections that go on sending are cut, and it is shut out: it begins no new one (shut_out.py) until
enough of its bytes have leaked away, which takes a minute at most. What somebody has logged in by goes on. Bytes under
a log-in that is over do not count.

Connections that were cut for refused calls count against their network, too, as bytes of a kind of their own, and so
do those that end without a log-in (LEFT_BYTES): gRPC's library accepts thousands a second, and each costs it 0.1 ms.
They alone shut out no network from which somebody is logged in now: a stranger there keeps none of its neighbours from
a log-in. Its connections that go on sending are cut nevertheless.

After a log-in, or a call, a connection may send as much as it likes, as long as messages come of it (under_way.py).

Not here: reading the counts (accepted_sockets.py), how often (byte_watcher.py), and messages that are read before a
log-in (early_reads.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import Final, NamedTuple

from penstock.addresses import network_of
from penstock.types import Endpoint

CONNECTION_BYTES_MAX: Final = 1 << 18
CONNECTION_BYTES_A_SECOND: Final = 16_384
NETWORK_BYTES_MAX: Final = 4 << 20
NETWORK_BYTES_KEPT_MAX: Final = 16 << 20
"""The most bytes that count against a network, however much it has sent."""
NETWORK_BYTES_A_SECOND: Final = 1 << 18
LOG_IN_BYTES: Final = 16_384
"""A handshake with a chain of certificates, and a log-in."""
LEFT_BYTES: Final = 4 * 1024
"""A connection that has ended without a log-in, or a call, counts for as much: a network may have 1,000 of these at
once, and 64 a second. A probe that only connects is borne."""
FIRST_CALL_BYTES: Final = 1 << 17
"""A window of HTTP/2 may be full before the node has heard of the first call; and as much again for its headers."""


class ByteVerdict(NamedTuple):
    """The connections that are cut now, and the networks that begin none."""

    cut: Set[Endpoint]
    shut_out: Set[str]


class _Connection:
    """One without a log-in."""

    __slots__ = ("level", "received", "sent")

    def __init__(self, received: int) -> None:
        self.received = received
        """All bytes, at the last look."""
        self.sent = 0
        """The bytes without a log-in."""
        self.level = 0.0
        """The bytes without a log-in that have not leaked away."""

    def more(self, received: int, free_bytes: int) -> int:
        """Counts what came since the last look; how much of that is above what is free."""
        count = max(received - self.received, 0)
        above = max(self.sent + count - max(self.sent, free_bytes), 0)
        self.received, self.sent, self.level = received, self.sent + count, self.level + count
        return above


class ByteWatch:
    """The connections of one listener, as they were at the last look."""

    def __init__(self, free_bytes: int = LOG_IN_BYTES) -> None:
        """`free_bytes` of each connection do not count against its network."""
        self._free_bytes = free_bytes
        self._of: dict[Endpoint, _Connection] = {}
        self._networks: dict[str, float] = {}
        """The bytes that count against each."""
        self._refused: dict[str, float] = {}
        """The bytes that count against each network for calls that were refused, and connections that left."""
        self._logged_in: set[Endpoint] = set()
        """The connections by which somebody is or was logged in."""
        self._at_ms: int | None = None

    def look(self, received: Mapping[Endpoint, int], connected: Collection[Endpoint], now_ms: int) -> ByteVerdict:
        """`received` has all bytes of each connection without a log-in, `connected` are all whose bytes are known."""
        self._leak(now_ms)
        before, self._of = self._of, {}
        above: dict[Endpoint, int] = {}
        for peer, count in received.items():
            known = before.get(peer) or _Connection(count if peer in self._logged_in else 0)
            above[peer], self._of[peer] = known.more(count, self._free_bytes), known
            if above[peer]:
                network = network_of(peer.host)
                level = self._networks.get(network, 0.0) + above[peer]
                self._networks[network] = min(level, NETWORK_BYTES_KEPT_MAX)
        there = set(connected)
        for peer in before.keys() - there:
            self.charge(peer.host, LEFT_BYTES)
        self._logged_in &= there
        known_now = [peer for peer in connected if peer not in received]
        self._logged_in.update(known_now)
        over = {network for network in (*self._networks, *self._refused) if self._level(network) > NETWORK_BYTES_MAX}
        cut = {peer for peer, known in self._of.items() if known.level > CONNECTION_BYTES_MAX}
        cut |= {peer for peer, count in above.items() if count and network_of(peer.host) in over}
        homes = {network_of(peer.host) for peer in known_now} if over else set()
        return ByteVerdict(
            cut, {one for one in over if one not in homes or self._networks.get(one, 0.0) > NETWORK_BYTES_MAX}
        )

    def _level(self, network: str) -> float:
        return self._networks.get(network, 0.0) + self._refused.get(network, 0.0)

    def charge(self, host: str, count: int) -> None:
        """Counts `count` bytes against the network of a host, for calls that were refused or connections that left."""
        network = network_of(host)
        self._refused[network] = min(self._refused.get(network, 0.0) + count, NETWORK_BYTES_KEPT_MAX)

    def _leak(self, now_ms: int) -> None:
        passed_s = 0.0 if self._at_ms is None else max(now_ms - self._at_ms, 0) / 1000
        self._at_ms = now_ms
        for known in self._of.values():
            known.level = max(known.level - passed_s * CONNECTION_BYTES_A_SECOND, 0.0)
        leaked = passed_s * NETWORK_BYTES_A_SECOND
        self._networks = _leaked(self._networks, leaked)
        self._refused = _leaked(self._refused, leaked)

    def __repr__(self) -> str:
        return f"ByteWatch({len(self._of)} connections without a log-in)"


def _leaked(levels: dict[str, float], leaked: float) -> dict[str, float]:
    return {network: level - leaked for network, level in levels.items() if level > leaked}
