"""The limits that several listeners share: how many connections there may be, and how many new ones in a second. Pure.

Connections by which somebody has proved an identity come first: the others have what these leave, and one in
OTHERS_SHARE in any case, so that a client can still log in where all the room is taken. Within each of the two classes
listeners that have more together than they may are brought down alike: the one with the most loses some first. So a
flood of strangers at one listener takes no connection from clients that are logged in at another.

The shared rate of new connections goes to the clients that come first: a listener that strangers reach needs a rate of
its own. New connections are counted over BURST_SECONDS, as Kafka counts them (KIP-612: 11 samples of a second): all
clients of a node that has restarted come back at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

BURST_SECONDS: Final = 10
OTHERS_SHARE: Final = 4
"""A quarter of the connections is kept for callers that have still to log in, as far as there are such."""


class ListenerConnections(NamedTuple):
    """The connections of a listener."""

    others: int
    """Nobody has proved an identity there, yet or at all."""
    proven: int = 0

    @property
    def total(self) -> int:
        return self.others + self.proven


class CreationRate:
    """A token bucket: it holds the new connections of BURST_SECONDS, and is full at first."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._tokens = float(per_second * BURST_SECONDS)
        self._at_ms: int | None = None

    def room(self, now_ms: int) -> int:
        """How many may come now."""
        if self._at_ms is not None:
            more = self._per_second * max(now_ms - self._at_ms, 0) / 1000
            self._tokens = min(self._tokens + more, float(self._per_second * BURST_SECONDS))
        self._at_ms = now_ms
        return int(self._tokens)

    def came(self, count: int) -> None:
        self._tokens -= count

    def __repr__(self) -> str:
        return f"CreationRate({self._per_second} a second, room for {int(self._tokens)})"


class SharedConnections:
    """The connections that each listener had when it was last looked at."""

    def __init__(self, connections_max: int, rate: CreationRate) -> None:
        self.connections_max = connections_max
        self.rate = rate
        self._open: dict[str, ListenerConnections] = {}

    def of(self, listener: str) -> SharedWith:
        """The part of one listener."""
        return SharedWith(self, listener)

    def allowed(self, listener: str, count: ListenerConnections) -> ListenerConnections:
        """How many of these connections the listener may keep."""
        return allowed_of(count, {**self._open, listener: count}.values(), self.connections_max)

    def room(self) -> int:
        """How many more there may be of all listeners together; below 0 when there are too many."""
        return self.connections_max - sum(count.total for count in self._open.values())

    def note(self, listener: str, count: ListenerConnections) -> None:
        """Notes how many connections the listener has now."""
        self._open[listener] = count

    def __repr__(self) -> str:
        open_now = sum(count.total for count in self._open.values())
        return f"SharedConnections({open_now} of {self.connections_max} connections)"


class SharedWith:
    """One listener's view of what it shares."""

    def __init__(self, shared: SharedConnections, listener: str) -> None:
        self._shared, self._listener = shared, listener
        self.rate = shared.rate
        self.connections_max = shared.connections_max

    def allowed(self, count: ListenerConnections) -> ListenerConnections:
        """How many of these connections it may keep."""
        return self._shared.allowed(self._listener, count)

    def room(self) -> int:
        """How many more there may be, of all listeners together."""
        return self._shared.room()

    def note(self, count: ListenerConnections) -> None:
        self._shared.note(self._listener, count)

    def __repr__(self) -> str:
        return f"SharedWith({self._listener}, {self._shared!r})"


def allowed_of(
    own: ListenerConnections, everybodys: Collection[ListenerConnections], count_max: int
) -> ListenerConnections:
    """The part of one listener's connections that it may keep where all listeners together may have `count_max`.
    `everybodys` has its own, too."""
    kept_for_others = min(sum(count.others for count in everybodys), count_max // OTHERS_SHARE)
    proven_max = count_max - kept_for_others
    others_max = count_max - min(sum(count.proven for count in everybodys), proven_max)
    others = _level((count.others for count in everybodys), others_max)
    proven = _level((count.proven for count in everybodys), proven_max)
    return ListenerConnections(min(own.others, others), min(own.proven, proven))


def allowed_here(own: ListenerConnections, count_max: int, shared: SharedWith | None) -> ListenerConnections:
    """How many of its connections a listener may keep by its own limit, and by the shared one."""
    alone = allowed_of(own, (own,), count_max)
    if shared is None:
        return alone
    together = shared.allowed(own)
    return ListenerConnections(min(alone.others, together.others), min(alone.proven, together.proven))


def _level(sizes: Iterable[int], count_max: int) -> int:
    """The most that one may have so that all together have `count_max` at most."""
    left, level = count_max, count_max
    smallest_first = sorted(sizes)
    for at, size in enumerate(smallest_first):
        level = left // (len(smallest_first) - at)
        if size > level:
            return level
        left -= size
    return count_max
