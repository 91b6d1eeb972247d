"""The limits that several listeners share: how many connections there may be, and how many new ones in a second. Pure.

Listeners that have more connections together than they may are brought down alike: the one with the most loses some
first. So a flood at one of them takes no connection from another that has few. The shared rate of new connections goes
to whoever comes first: a listener that strangers reach needs a rate of its own. New connections are counted over
BURST_SECONDS, as Kafka counts them (KIP-612: 11 samples of a second): all clients of a node that has restarted come
back at once.
"""

from __future__ import annotations

from collections.abc import Iterable

BURST_SECONDS = 10


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
        self._open: dict[str, int] = {}

    def of(self, listener: str) -> SharedWith:
        """The part of one listener."""
        return SharedWith(self, listener)

    def allowed(self, listener: str, count: int) -> int:
        """How many of its `count` connections the listener may keep."""
        sizes = {**self._open, listener: count}
        return min(count, _level(sizes.values(), self.connections_max))

    def room(self) -> int:
        """How many more there may be of all listeners together; below 0 when there are too many."""
        return self.connections_max - sum(self._open.values())

    def note(self, listener: str, count: int) -> None:
        """The listener has so many now."""
        self._open[listener] = count

    def __repr__(self) -> str:
        return f"SharedConnections({sum(self._open.values())} of {self.connections_max} connections)"


class SharedWith:
    """One listener's view of what it shares."""

    def __init__(self, shared: SharedConnections, listener: str) -> None:
        self._shared, self._listener = shared, listener
        self.rate = shared.rate
        self.connections_max = shared.connections_max

    def allowed(self, count: int) -> int:
        """How many of its `count` connections it may keep."""
        return self._shared.allowed(self._listener, count)

    def room(self) -> int:
        """How many more there may be, of all listeners together."""
        return self._shared.room()

    def note(self, count: int) -> None:
        self._shared.note(self._listener, count)

    def __repr__(self) -> str:
        return f"SharedWith({self._listener}, {self._shared!r})"


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
