"""One frame on its way in: its memory, and how fast it comes.

What is counted of its lease grows as the bytes come, to twice as much and by STEP_BYTES_MAX at the most, and so does
the memory that it takes: an announced size costs nothing. A large frame is a mapping of its own, whose pages exist once
they are written, and which goes back to the kernel whole; a small one grows. Where there is no room for more, it is
held until there is. A frame has to come at the pace by which it is whole in FRAME_MS_MAX; the time that it is held does
not count. While others wait for memory it has to be whole in ABOVE_MS_MAX, held or not.

Not here: the socket, which is not read meanwhile (frame_connection.py), and the share of each party
(network/memory_budget.py).
"""

from __future__ import annotations

from collections.abc import Callable
from mmap import mmap
from typing import Final

from broker.network.memory_budget import Lease

BYTES_PER_MS_MIN: Final = 1
"""1 kB a second, however small a frame is."""
FRAME_MS_MAX: Final = 60_000
"""17 kB a second for 1 MiB. Its client has given the request up by then (request.timeout.ms is 30 s)."""
ABOVE_MS_MAX: Final = 3_000
"""The longest time of a frame that is in the way of others: it has memory above the limits while another party waits
for room, or the node's memory is full and a party with little waits (network/giving_way.py)."""
FIRST_BYTES: Final = 512
STEP_BYTES_MAX: Final = 1024 * 1024
MAPPED_BYTES: Final = 256 * 1024
_ZEROS: Final = memoryview(bytes(MAPPED_BYTES))


def next_bytes(size: int, here: int) -> int:
    """How much of a frame may be in memory when `here` bytes of it are there."""
    return min(size, here + min(max(here, FIRST_BYTES), STEP_BYTES_MAX))


class IncomingFrame:
    """A frame of `size` bytes, of which `here` are there. Times are monotonic."""

    __slots__ = ("_bytes", "_held_since_ms", "_since_ms", "began_ms", "here", "lease", "size")

    def __init__(self, size: int, lease: Lease, now_ms: int) -> None:
        self.size, self.here = size, 0
        self._since_ms, self.began_ms = now_ms, now_ms
        self.lease = lease
        """The lease of its memory."""
        self._held_since_ms: int | None = None
        self._bytes: bytearray | mmap = bytearray() if size < MAPPED_BYTES else mmap(-1, size)

    @property
    def is_whole(self) -> bool:
        return self.here == self.size

    @property
    def is_held(self) -> bool:
        """True while the frame waits for memory."""
        return self._held_since_ms is not None

    def room(self) -> memoryview | None:
        """The place of the bytes that come next; None if it is whole or held."""
        lease = self.lease
        if self.is_held or self.is_whole:
            return None
        if isinstance(self._bytes, bytearray):
            more = _ZEROS[: lease.size - len(self._bytes)]
            try:
                self._bytes += more
            except BufferError:  # the event loop still has a view of it
                self._bytes = self._bytes + more
        return memoryview(self._bytes)[self.here : lease.size]

    def came(self, count: int, now_ms: int, may_go_on: Callable[[Lease], None]) -> None:
        """Counts bytes that are there now. `may_go_on` is called if the frame is held now, once there is room."""
        self.here += count
        if self.here < self.lease.size or self.is_whole:
            return
        if not self.lease.grow(next_bytes(self.size, self.here), may_go_on):
            self._held_since_ms = now_ms

    def go_on(self, now_ms: int) -> None:
        """There is room: the frame is held no more."""
        if self._held_since_ms is not None:
            self._since_ms += now_ms - self._held_since_ms
            self._held_since_ms = None

    def whole(self) -> memoryview:
        return memoryview(self._bytes)

    def crawls_since_ms(self, now_ms: int) -> int | None:
        """The time since when the frame comes, if it comes too slowly for its size."""
        pace = max(BYTES_PER_MS_MIN, self.size / FRAME_MS_MAX)
        is_slow = not self.is_held and self.here < (now_ms - self._since_ms) * pace
        return self._since_ms if is_slow else None

    def is_old(self, now_ms: int) -> bool:
        """True if it has memory for longer than others should wait for it."""
        return now_ms - self.began_ms > ABOVE_MS_MAX

    def is_in_the_way(self, now_ms: int) -> bool:
        """True if it has memory above the limits for longer than another party should wait."""
        return now_ms - self._since_ms > ABOVE_MS_MAX and self.lease.is_in_the_way

    def __repr__(self) -> str:
        return f"IncomingFrame({self.here} of {self.size} bytes{', held' if self.is_held else ''})"
