"""Says until when this broker may take what it leads for its own, though it hears of no newer leader.

A broker that is cut off from the others is not told that another one leads. Its clients may still reach it, so it must
stop answering by itself, BEFORE the other one can have changed anything. Each heartbeat that the controller answers is
a lease:

    length   the shorter of broker.session.timeout.ms (here and at the controller) and replica.lag.time.max.ms, less
             one part in MARGIN: clocks of different machines do not run at the same pace
    begin    when the heartbeat was SENT, not when its answer came: the controller's session may be as old as that. And
             earlier by as long as the controller had not heard from a majority: one that was deposed itself grants
             nothing
    if       this broker has acted on the metadata in which it lost a leadership last (`must_have_read`)

Why no other leader can have answered before the lease is over: a new leader answers after a commit, and commits only
what the whole ISR has. This broker leaves the ISR in three ways. The controller ends its session: that is one session
time-out after a heartbeat came, or after the controller's own election. Another leader finds that it lags: that is one
replica.lag.time.max.ms after that leader began. Or this broker asks for it itself (a controlled shutdown, a new
registration): it gives the lease up BEFORE it asks.

The clock is that of the whole machine, which goes on while it sleeps; so a machine that wakes up has no lease. Not
here: what is refused without one (coordination/led_shard.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

MARGIN: Final = 50
"""Clocks may differ by one part in MARGIN; those of real machines differ by one in some thousands."""


WAITING_MAX: Final = 64
"""Grants that are kept until their metadata is acted on; a session has a few heartbeats."""


class Grant(NamedTuple):
    """One answer of the controller. `silent_ms` is the time for which it had not heard from a majority."""

    sent_ms: int
    silent_ms: int
    must_have_read: int
    session_timeout_ms: int
    """The controller's; 0 from one of an older release, which does not say."""


class LeadLease:
    """The lease of a broker's leads. There is one per broker; `is_held` is asked before each answer."""

    def __init__(self, length_ms: int, boot_ms: Callable[[], int], read_offset: Callable[[], int]) -> None:
        """`read_offset`: the metadata up to it is acted on here. `boot_ms` is the machine's clock (clock.py)."""
        self._length_ms, self.now_ms, self._read_offset = length_ms, boot_ms, read_offset
        self._until_ms = 0
        self._waiting: list[tuple[int, int]] = []
        """A lease until then, once the metadata up to that offset is acted on. The one before is good meanwhile. All
        are kept: while leaderships go one after the other, the newest one is never reached by a broker that is slow."""

    def is_held(self) -> bool:
        """True while this broker may answer for what it leads."""
        if self._waiting:
            read_offset = self._read_offset()
            ready = [until_ms for until_ms, must_have_read in self._waiting if read_offset >= must_have_read]
            if ready:
                self._until_ms = max(self._until_ms, *ready)
                self._waiting = [one for one in self._waiting if read_offset < one[1]]
        return self.now_ms() < self._until_ms

    def granted(self, grant: Grant) -> None:
        """The controller has answered a heartbeat, and lets this broker serve."""
        length_ms = min(self._length_ms, grant.session_timeout_ms or self._length_ms)
        until_ms = grant.sent_ms - grant.silent_ms + length_ms - length_ms // MARGIN
        now_ms = self.now_ms()
        self._waiting = [one for one in self._waiting if one[0] > now_ms][: WAITING_MAX - 1]
        self._waiting.append((until_ms, grant.must_have_read))
        self.is_held()  # takes what waits no more

    def give_up(self) -> None:
        """Gives the lease up. Called BEFORE this broker asks for anything by which others may lead at once."""
        self._until_ms, self._waiting = 0, []

    def __repr__(self) -> str:
        return f"LeadLease(until {self._until_ms} ms, waiting {self._waiting})"
