"""Decides which connections are cut for bytes under way: those that were received, and of which no message has come.

gRPC's library collects a message before anybody sees it. It has no limit but the size of one message, times the streams
that are read, and no hook. So the kernel's count of received bytes is compared with the bytes of the messages that were
handed over. What is left is under way, above CONNECTION_BYTES for windows and handshakes, and:

    of a party      half of queued.max.request.bytes, or PARTY_BYTES_MIN; more by one connection alone, which may have
                    one message of socket.request.max.bytes
    of the node     twice as much as one party at most

Above the first the party loses connections, above the second the party that has most: first those whose bytes have been
under way for longer than MESSAGE_MS, so that nobody holds the place of others; then the youngest, so that the message
that came first gets through.

Not all bytes are of messages. A call has headers, a record of TLS and a frame of HTTP/2 have theirs, a receiver says
how much more it takes, and a ping has an answer. Each of these is estimated, generously, and forgotten. What is
estimated and does not come hides as many bytes: those of a call until its message is late (grpc/handlers.py).

Pure. Not here: the counts (accepted_sockets.py, heard.py), how often they are read (byte_watcher.py), and bytes of a
connection by which no call has come (byte_watch.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set
from typing import Final, NamedTuple

from penstock.types import Endpoint

PARTY_SHARE: Final = 2
PARTY_BYTES_MIN: Final = 16 << 20
NODE_SHARES: Final = 2
CONNECTION_BYTES: Final = 1 << 17
"""Two windows of HTTP/2."""
MESSAGE_MS: Final = 60_000
CALL_BYTES: Final = 1_024
"""The headers of a call, or of a message of a stream."""
NEXT_CALL_BYTES: Final = 256
"""The headers of a call on a connection with many calls: HTTP/2 sends a header that was sent before as one byte."""
CALLS_A_SECOND, CALLS_AT_ONCE = 100, 1_000
"""The calls that have CALL_BYTES: each second, and at once. Without these limits 1,000 small calls a second would hide
1 MB of a message that never ends."""
FRAME_SHARE: Final = 32
"""Divides a message: its frames and records of TLS have less than such a part of it."""
ANSWER_SHARE: Final = 256
"""Divides the bytes that were sent: to take them costs a client less than such a part."""
PING_BYTES_A_SECOND: Final = 16


class Carried(NamedTuple):
    """The kernel's counts of one connection, since its beginning."""

    received: int
    acknowledged: int
    """Sent, and received by the far end."""


class HeardCounts(NamedTuple):
    """The calls and messages of one connection. Both numbers grow."""

    calls: int = 0
    """Calls, and messages of streams."""
    message_bytes: int = 0
    """The bytes of the messages that were handed over."""


class UnderWay(NamedTuple):
    """The bytes of a connection."""

    size: int
    since_ms: int
    """They have been more than none since then."""


class Shares:
    """The bytes that each party has under way at each listener of a node. Listeners write from threads of their own."""

    def __init__(self, request_bytes_max: int, message_bytes_max: int) -> None:
        self.party_max = max(request_bytes_max // PARTY_SHARE, PARTY_BYTES_MIN)
        self.alone_max = max(self.party_max, message_bytes_max + message_bytes_max // FRAME_SHARE)
        """The most bytes of one connection whose party has no other."""
        self.node_max = NODE_SHARES * self.alone_max
        self._of: dict[str, Mapping[str, int]] = {}

    def note(self, listener: str, of_parties: Mapping[str, int]) -> None:
        """Notes how many bytes of each party are under way at the listener now."""
        self._of[listener] = of_parties

    def elsewhere(self, listener: str) -> Counter[str]:
        """The bytes of parties at other listeners."""
        found: Counter[str] = Counter()
        for name, of_parties in tuple(self._of.items()):
            if name != listener:
                found.update(of_parties)
        return found

    def __repr__(self) -> str:
        return f"Shares({self.party_max} bytes for each party)"


def over_share(
    here: Mapping[Endpoint, UnderWay],
    party_of: Callable[[Endpoint], str],
    elsewhere: Mapping[str, int],
    shares: Shares,
    now_ms: int,
) -> Set[Endpoint]:
    """The connections that are cut. `elsewhere` has what parties have at other listeners, which cut theirs."""
    parties: dict[str, list[Endpoint]] = {}
    for peer in sorted(here, key=lambda peer: _order(here[peer], now_ms)):
        parties.setdefault(party_of(peer), []).append(peer)
    sizes = Counter(elsewhere)
    for party, peers in parties.items():
        sizes[party] += sum(here[peer].size for peer in peers)
    gone: set[Endpoint] = set()

    def lose_one(party: str) -> bool:
        if not parties.get(party):
            return False
        peer = parties[party].pop()
        gone.add(peer)
        sizes[party] -= here[peer].size
        return True

    for party, peers in parties.items():
        while sizes[party] > _allowed(sizes[party], here[peers[0]].size, shares) and lose_one(party) and peers:
            pass
    while sizes.total() > shares.node_max and lose_one(max(sizes, key=sizes.__getitem__)):
        pass
    return gone


def _allowed(has: int, first: int, shares: Shares) -> int:
    """The bytes that a party may have, if it has `has` and the first of its connections here has `first`."""
    return shares.alone_max if has == first else shares.party_max


def _order(under_way: UnderWay, now_ms: int) -> tuple[bool, int]:
    """The last one is cut first."""
    return now_ms - under_way.since_ms > MESSAGE_MS, under_way.since_ms


class _Connection:
    __slots__ = ("acknowledged", "calls", "level", "message_bytes", "new_calls", "received", "since_ms")

    def __init__(self) -> None:
        self.received = self.acknowledged = self.calls = self.message_bytes = 0
        self.level = 0.0
        """Bytes under way, those of a connection that is allowed some too."""
        self.since_ms: int | None = None
        self.new_calls = float(CALLS_AT_ONCE)
        """The new calls that may have CALL_BYTES now."""

    def count(self, carried: Carried, heard: HeardCounts, passed_s: float, now_ms: int) -> UnderWay | None:
        if heard.calls < self.calls:  # it had been forgotten, and is heard again
            self.calls = self.message_bytes = 0
        came = heard.message_bytes - self.message_bytes
        besides = self._bytes_of(heard.calls - self.calls, passed_s)
        besides += came // FRAME_SHARE + passed_s * PING_BYTES_A_SECOND
        besides += (carried.acknowledged - self.acknowledged) / ANSWER_SHARE
        self.level = max(self.level + carried.received - self.received - came - besides, 0.0)
        self.received, self.acknowledged = carried
        self.calls, self.message_bytes = heard
        size = int(self.level) - CONNECTION_BYTES
        if size <= 0:
            self.since_ms = None
            return None
        self.since_ms = now_ms if self.since_ms is None else self.since_ms
        return UnderWay(size, self.since_ms)

    def _bytes_of(self, calls: int, passed_s: float) -> float:
        """The bytes of `calls` calls beside their messages."""
        self.new_calls = min(self.new_calls + passed_s * CALLS_A_SECOND, CALLS_AT_ONCE)
        new = min(self.new_calls, calls)
        self.new_calls -= new
        return new * CALL_BYTES + (calls - new) * NEXT_CALL_BYTES


class UnderWayWatch:
    """The connections of one listener, as they were at the last look."""

    def __init__(self) -> None:
        self._of: dict[Endpoint, _Connection] = {}
        self._at_ms: int | None = None

    def look(
        self, heard: Mapping[Endpoint, HeardCounts | None], carried: Mapping[Endpoint, Carried], now_ms: int
    ) -> dict[Endpoint, UnderWay]:
        """The connections that have bytes under way. `heard` was counted BEFORE `carried`: else messages would count
        whose bytes do not yet."""
        before, self._of = self._of, {}
        passed_s = 0.0 if self._at_ms is None else max(now_ms - self._at_ms, 0) / 1000
        self._at_ms = now_ms
        found: dict[Endpoint, UnderWay] = {}
        for peer, counts in carried.items():
            known = before.get(peer)
            if known is None or counts.received < known.received:  # a new connection, maybe from where one was
                known = _Connection()
            self._of[peer] = known
            under_way = known.count(counts, heard.get(peer) or HeardCounts(), passed_s, now_ms)
            if under_way is not None:
                found[peer] = under_way
        return found

    def __repr__(self) -> str:
        return f"UnderWayWatch({len(self._of)} connections)"
