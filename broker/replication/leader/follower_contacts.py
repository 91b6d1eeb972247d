"""When each follower last fetched from this broker, and so which members of an ISR are in sync as the leader sees it.

The controller decides who is in an ISR. A leader that the controller does not answer would go on to count members that
are gone, so `in_sync` leaves out two kinds: a member that the leader itself has proposed to drop, and one whose broker
has fetched nothing here for `replica.lag.time.max.ms`. For metrics, descriptions, and where consumers may read: what is
committed and acked follows from the ISR alone (leader_state.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.replication.leader.leader_state import LeaderState

NEVER_MS = 1 << 62


class FollowerContacts:
    """The last fetches of followers. There is one per broker. Fetches are noted on the event loop; the views may be
    asked for in any thread."""

    def __init__(self, broker_id: int, now_ms: Callable[[], int], lag_time_ms_max: int) -> None:
        self._broker_id = broker_id
        self._now_ms = now_ms
        self._lag_time_ms_max = lag_time_ms_max
        self._fetched_ms: dict[int, int] = {}
        self._serving: set[int] = set()

    def fetched(self, broker_id: int, serves_consumers: bool = False) -> None:
        """A follower sent a fetch, for whichever partitions; `serves_consumers`: they may be sent to it."""
        self._fetched_ms[broker_id] = self._now_ms()
        if serves_consumers:
            self._serving.add(broker_id)
        else:
            self._serving.discard(broker_id)

    def serves_consumers(self, broker_id: int) -> bool:
        """True if its last fetch said so."""
        return broker_id in self._serving

    def silent_ms(self, broker_id: int) -> int:
        """The time since its last fetch; NEVER_MS if it has not fetched."""
        fetched_ms = self._fetched_ms.get(broker_id)
        return NEVER_MS if fetched_ms is None else self._now_ms() - fetched_ms

    def in_sync(self, leading: Iterable[LeaderState]) -> list[frozenset[int]]:
        """The ISR of each partition led here, in the order given, without the members that this leader misses."""
        since_ms = self._now_ms() - self._lag_time_ms_max
        heard = {broker_id for broker_id, fetched_ms in list(self._fetched_ms.items()) if fetched_ms >= since_ms}
        heard.add(self._broker_id)
        return [_in_sync(state, heard, since_ms) for state in leading]

    def __repr__(self) -> str:
        return f"FollowerContacts({len(self._fetched_ms)} followers)"


def _in_sync(state: LeaderState, heard: set[int], since_ms: int) -> frozenset[int]:
    proposed = state.proposed
    members = state.isr & proposed.ids if proposed is not None else state.isr
    if members <= heard:
        return members
    # A follower has the full lag time from the begin of the epoch on; `last_caught_up_ms` is set to that begin.
    return frozenset(
        member
        for member in members
        if member in heard or (member in state.followers and state.followers[member].last_caught_up_ms >= since_ms)
    )
