"""Looks at the bytes that a listener's connections have received, and cuts those that byte_watch.py and under_way.py
name. An edge.

It has a thread of its own: gRPC's library may take what a client sends on the thread of the event loop, and that stands
still as long as more comes. A look reads two numbers of each connection. With many connections there is more time
between two looks, and less while a party is about to have its share. Not here: which connections are cut, and the
limits on their number (connection_watch.py).
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Set
from typing import NamedTuple, Protocol

from broker.connections.accepted_sockets import AcceptedSockets
from broker.connections.byte_watch import ByteWatch
from broker.connections.connection_watch import hosts_shown
from broker.connections.under_way import Carried, HeardCounts, Shares, UnderWayWatch, over_share
from penstock.clock import Clock
from penstock.threads import Thread, Threads
from penstock.throttled_lines import ThrottledLines
from penstock.types import Endpoint

_log = logging.getLogger(__name__)

LOOK_SECONDS, CONNECTION_SECONDS = 0.1, 120e-6
"""The time between two looks: the longer one of these, the second for each connection. One costs some 6 µs, so looks
take 1/20 of a core at most. Not measured by a clock: a thread that waits for its turn is not busy."""
QUICK_SHARE = 4
"""Divides a party's share, and the pause between two looks: while a party has more than one QUICK_SHAREth of its share,
looks come QUICK_SHARE times as often. A machine on the same network sends the rest within a tenth of a second."""
REFUSED_BYTES, REFUSED_TOGETHER_BYTES, CHARGED_MAX = 1 << 20, 4 * 1024, 1_000
"""The bytes that a connection cut for refused calls counts for, once, against its network. One client that asks without
a session in a loop is borne, and some that do nothing else are shut out. REFUSED_TOGETHER_BYTES, which is much less,
counts where the network has had too many refused calls, and the connection itself has not: after a restart of the
broker a thousand clients of one address may come back with their old sessions."""
LOOKS_FOR_NEWCOMERS = 5
"""The looks between two searches for connections while the number of descriptors stays the same. After a cut the next
look searches, because other connections may have come in their places."""


class HeardOf(Protocol):
    """The calls and messages of a listener's connections. Called in the thread."""

    def of(self, peer: Endpoint) -> HeardCounts | None:
        """None if no call came there."""
        ...

    def party_of(self, peer: Endpoint) -> str:
        """The party that pays for what the connection sends."""
        ...


class Watched(NamedTuple):
    """A listener's connections, and how much may come before they are known."""

    is_known: Callable[[Endpoint], bool]
    """True if somebody has logged in there; where nobody does, if a call has come. Called in the thread."""
    heard: HeardOf
    shares: Shares
    """The node's."""
    free_bytes: int
    """See ByteWatch."""


class ByteWatcher:
    """Watches the bytes of one listener, from `start` to `stop`."""

    def __init__(
        self,
        listener: str,
        sockets: AcceptedSockets,
        watched: Watched,
        on_cut: Callable[[int], None],
        clock: Clock,
        threads: Threads,
    ) -> None:
        """`sockets` are its own. `on_cut` hears how many were cut, in the thread."""
        self._listener, self._sockets, self._watched, self._on_cut = listener, sockets, watched, on_cut
        self._clock, self._threads = clock, threads
        self._watch, self._under_way = ByteWatch(watched.free_bytes), UnderWayWatch()
        self._lines = ThrottledLines(clock.now_ms)
        self._connected: list[Endpoint] = []
        self._descriptors, self._looks = -1, 0
        self._shut_out: Set[str] = frozenset()
        self._charged: deque[tuple[str, int]] = deque(maxlen=CHARGED_MAX)
        self._ending: set[Endpoint] = set()
        """Connections that were cut, and are not closed yet."""
        self._is_pressed = False
        self._stopped = threads.event()
        self._thread: Thread | None = None

    def start(self) -> None:
        self._thread = self._threads.start(f"bytes-{self._listener}", self._run, daemon=True)

    def refused_too_much(self, peer: Endpoint, is_one: bool) -> None:
        """A connection was cut for the calls that were refused there or, without `is_one`, for those of its network.
        Safe to call from any thread."""
        self._charged.append((peer.host, REFUSED_BYTES if is_one else REFUSED_TOGETHER_BYTES))

    def stop(self) -> None:
        """The thread ends by itself, within a look."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._pause_s()):
            try:
                self.look()
            except OSError as error:  # no descriptor to look with: the next look may find one
                self._tell("no descriptor", f"received bytes could not be counted: {error}")

    def _pause_s(self) -> float:
        pause_s = max(LOOK_SECONDS, CONNECTION_SECONDS * len(self._connected))
        return pause_s / QUICK_SHARE if self._is_pressed else pause_s

    def look(self) -> None:
        """Look once."""
        descriptors = self._sockets.descriptors()
        if descriptors != self._descriptors or self._looks % LOOKS_FOR_NEWCOMERS == 0:
            self._connected, self._descriptors = self._sockets.peers(), descriptors
            self._ending &= set(self._connected)
        self._looks += 1
        heard = {peer: self._watched.heard.of(peer) for peer in self._connected}
        carried = self._sockets.carried(self._connected) if self._connected else {}
        # AFTER the bytes are counted: a message that comes meanwhile makes no stranger of its sender. What was heard is
        # counted BEFORE them (under_way.py).
        strangers = {peer for peer in self._connected if not self._watched.is_known(peer)}
        # One without a count is closed. It must NOT pass for one with a log-in, because another may come from there.
        found = [peer for peer in self._connected if peer in carried]
        self._look_at_strangers({peer: carried[peer].received for peer in strangers if peer in carried}, found)
        self._look_at_known(heard, {peer: counts for peer, counts in carried.items() if peer not in strangers})

    def _look_at_strangers(self, received: Mapping[Endpoint, int], connected: Collection[Endpoint]) -> None:
        while self._charged:
            self._watch.charge(*self._charged.popleft())
        verdict = self._watch.look(received, connected, self._clock.now_ms())
        if verdict.shut_out != self._shut_out:
            self._shut_out = verdict.shut_out
            self._sockets.shut_out(verdict.shut_out)
            self._tell("shut out", f"networks that begin no connection for now: {self._shown()}")
        self._cut(verdict.cut, "they sent too much before a log-in or a call")

    def _look_at_known(self, heard: Mapping[Endpoint, HeardCounts | None], carried: Mapping[Endpoint, Carried]) -> None:
        now_ms, shares, party_of = self._clock.now_ms(), self._watched.shares, self._watched.heard.party_of
        here = self._under_way.look(heard, carried, now_ms)
        of_parties: Counter[str] = Counter()
        for peer, under_way in here.items():
            of_parties[party_of(peer)] += under_way.size
        shares.note(self._listener, of_parties)
        self._is_pressed = max(of_parties.values(), default=0) > shares.party_max // QUICK_SHARE
        if here:
            over = over_share(here, party_of, shares.elsewhere(self._listener), shares, now_ms)
            self._cut(over, "more was under way there than their parties may have")

    def _cut(self, over: Collection[Endpoint], why: str) -> None:
        if over:
            self._sockets.cut(over)
            self._on_cut(len(set(over) - self._ending))
            self._ending |= set(over)
            self._descriptors = -1
            self._tell(why, f"cut {len(over)} connections from {hosts_shown(sorted({p.host for p in over}))}: {why}")

    def _tell(self, subject: str, text: str) -> None:
        if (more := self._lines.due(subject)) is not None:
            _log.warning("%s: %s%s", self._listener, text, more)

    def _shown(self) -> str:
        return hosts_shown(sorted(self._shut_out)) or "none"

    def __repr__(self) -> str:
        return f"ByteWatcher({self._listener}, {self._watch!r})"
