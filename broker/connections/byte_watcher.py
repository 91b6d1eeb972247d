"""Looks at the bytes that a listener's connections have received, and cuts those that byte_watch.py names. An edge.

It has a thread of its own: gRPC's library may take what a client sends on the thread of the event loop, and that stands
still as long as more comes. A look that finds nothing new reads one number of each connection without a log-in; it
takes BUSY_SHARE of a core at most. Not here: which connections are cut, and the limits on their number
(connection_watch.py).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Set
from typing import NamedTuple

from broker.connections.accepted_sockets import AcceptedSockets
from broker.connections.byte_watch import ByteWatch, HeardWatch
from broker.connections.connection_watch import BUSY_SHARE, hosts_shown
from broker.replication.throttled_lines import ThrottledLines
from penstock.clock import Clock
from penstock.threads import Thread, Threads
from penstock.types import Endpoint

_log = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
REFUSED_BYTES, CHARGED_MAX = 1 << 20, 1_000
"""A connection that is cut for refused calls counts against its network as if it had sent so much: one client that asks
without a session in a loop is borne, and some that do nothing else are shut out."""
LOOKS_FOR_NEWCOMERS = 20
"""With as many descriptors as before, connections are looked for in every twentieth look only, and those by which
somebody has logged in are looked at."""


class HeardOf(NamedTuple):
    """Tells what came over the connections by which somebody is logged in."""

    count: Callable[[Endpoint], int]
    """The calls and messages of one; called in the thread."""
    unheard_max: int
    """The bytes that may come without any."""


class ByteWatcher:
    """The one of a listener, from `start` to `stop`."""

    def __init__(
        self,
        listener: str,
        sockets: AcceptedSockets,
        is_known: Callable[[Endpoint], bool],
        heard: HeardOf,
        on_cut: Callable[[int], None],
        clock: Clock,
        threads: Threads,
    ) -> None:
        """`sockets` are its own. `is_known` tells whether somebody has logged in by a connection, and `on_cut` hears
        how many were cut; all are called in the thread."""
        self._heard, self._unheard = heard.count, HeardWatch(heard.unheard_max)
        self._listener, self._sockets, self._is_known, self._on_cut = listener, sockets, is_known, on_cut
        self._clock, self._threads = clock, threads
        self._watch, self._lines = ByteWatch(), ThrottledLines(clock.now_ms)
        self._connected: list[Endpoint] = []
        self._descriptors, self._looks = -1, 0
        self._shut_out: Set[str] = frozenset()
        self._charged: deque[str] = deque(maxlen=CHARGED_MAX)
        self._stopped = threads.event()
        self._thread: Thread | None = None

    def start(self) -> None:
        self._thread = self._threads.start(f"bytes-{self._listener}", self._run, daemon=True)

    def refused_too_much(self, peer: Endpoint) -> None:
        """A connection was cut for the calls that were refused there. Safe to call from any thread."""
        self._charged.append(peer.host)

    def stop(self) -> None:
        """The thread ends by itself, within a look."""
        self._stopped.set()

    def _run(self) -> None:
        pause_s = LOOK_SECONDS
        while not self._stopped.wait(pause_s):
            began_ms = self._clock.now_ms()
            try:
                self.look()
            except OSError as error:  # no descriptor to look with: the next look may find one
                self._tell("no descriptor", f"received bytes could not be counted: {error}")
            pause_s = max(LOOK_SECONDS, BUSY_SHARE * (self._clock.now_ms() - began_ms) / 1000)

    def look(self) -> None:
        """Look once."""
        descriptors = self._sockets.descriptors()
        is_thorough = self._looks % LOOKS_FOR_NEWCOMERS == 0
        if descriptors != self._descriptors or is_thorough:
            self._connected, self._descriptors = self._sockets.peers(), descriptors
        self._looks += 1
        strangers = {peer for peer in self._connected if not self._is_known(peer)}
        received = self._sockets.received(strangers) if strangers else {}
        while self._charged:
            self._watch.charge(self._charged.popleft(), REFUSED_BYTES)
        verdict = self._watch.look(received, self._connected, self._clock.now_ms())
        if verdict.shut_out != self._shut_out:
            self._shut_out = verdict.shut_out
            self._sockets.shut_out(verdict.shut_out)
            self._tell("shut out", f"networks that begin no connection for now: {self._shown()}")
        if over := verdict.cut:
            self._on_cut(len(over))
            self._sockets.cut(over)
            hosts = hosts_shown(sorted({peer.host for peer in over}))
            self._tell("cut", f"cut {len(over)} connections that sent too much before a log-in, from {hosts}")
        if is_thorough:
            self._look_at_known(strangers)

    def _look_at_known(self, strangers: Collection[Endpoint]) -> None:
        """The connections by which somebody is logged in."""
        received = self._sockets.received([peer for peer in self._connected if peer not in strangers])
        if over := self._unheard.look(received, self._heard):
            self._on_cut(len(over))
            self._sockets.cut(over)
            hosts = hosts_shown(sorted({peer.host for peer in over}))
            self._tell("unheard", f"cut {len(over)} connections: no call or message came of it all, from {hosts}")

    def _tell(self, subject: str, text: str) -> None:
        if (more := self._lines.due(subject)) is not None:
            _log.warning("%s: %s%s", self._listener, text, more)

    def _shown(self) -> str:
        return hosts_shown(sorted(self._shut_out)) or "none"

    def __repr__(self) -> str:
        return f"ByteWatcher({self._listener}, {self._watch!r})"
