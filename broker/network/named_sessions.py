"""The fetch sessions that clients name by an id, so that they outlive a connection (KIP-227). A bounded cache.

A client asks for a session by a full request of epoch 0, and counts its requests in the session from then on: one of
another epoch was repeated or overtaken, and is refused. A session has its place in the cache until its client ends it,
or another one needs the place: first that of the session which was used longest ago, if that is long enough; then one
of the party (parties.py) that has most, if it has at least two more than the party of the new one; else that of the
smallest one of the same party, if it is as old, and smaller than the new one. Without a place a client gets no session,
and names all of its partitions in every request.

A request on its way keeps its session open, also one that has lost its place meanwhile. Not here: what a session
remembers (`broker/apis/fetch_sessions/`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from enum import Enum, auto
from types import TracebackType

from broker.network.fetcher_session import FetcherSession
from broker.network.parties import party_of
from broker.network.request_channel import Caller
from penstock.errors import InvariantViolation
from penstock.metric_fields import counter, gauge, measured

NEW_SESSION, LAST_REQUEST = 0, -1
"""Epochs of a request that begins a session, and of one that ends it or wants none."""
EPOCH_MAX = ID_MAX = 2**31 - 1
"""Ids begin at 1: 0 is no session."""


class NoSession(Enum):
    """The reason why a request may not go on with the session that it names."""

    UNKNOWN_ID = auto()
    WRONG_EPOCH = auto()
    OTHER_NAMES = auto()
    """The session names topics by their ids and the request by their names, or the other way round."""


@measured
class NamedSessionStatistics:
    """The cache now; `evictions` is since the node's start."""

    sessions: int = gauge(
        "penstock_kafka_fetch_sessions", "Fetch sessions of Kafka's clients that outlive connections."
    )
    partitions: int = gauge("penstock_kafka_fetch_session_partitions", "Partitions in these sessions.")
    evictions: int = counter(
        "penstock_kafka_fetch_session_evictions", "Fetch sessions that lost their places to other ones."
    )


class NamedSession:
    """A session in the cache. As a context it is one request of its client on its way."""

    __slots__ = (
        "_turns",
        "by_ids",
        "created_ms",
        "epoch",
        "has_place",
        "owner",
        "party",
        "session",
        "session_id",
        "used_ms",
    )

    def __init__(self, session_id: int, session: FetcherSession, caller: Caller, *, by_ids: bool, now_ms: int) -> None:
        self.session_id, self.session = session_id, session
        self.party, self.owner = party_of(caller), caller.principal
        """Who pays for it, and the principal that began it. To another one there is no such session: its answers name
        the owner's topics."""
        self.by_ids = by_ids
        """Topics are named by their ids."""
        self.epoch = 1
        """The epoch of the next request."""
        self.created_ms = self.used_ms = now_ms
        self.has_place = True
        self._turns = 0

    @property
    def size(self) -> int:
        return len(self.session.partitions)

    def __enter__(self) -> NamedSession:
        self._turns += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, frames: TracebackType | None) -> None:
        self._turns -= 1
        self.maybe_close()

    def maybe_close(self) -> None:
        """Closes the session if it has no place, and no request of it is on its way."""
        if not self.has_place and not self._turns:
            self.session.close()

    def __repr__(self) -> str:
        return f"NamedSession({self.session_id}, epoch {self.epoch}, {self.size} partitions)"


class NamedSessions:
    """The fetch sessions that clients name by an id. There is one object per node."""

    def __init__(
        self, new_session: Callable[[str], FetcherSession], slots: int, eviction_ms: int, draw_id: Callable[[], int]
    ) -> None:
        """`draw_id` gives random numbers from 1 to ID_MAX."""
        self._new_session, self._slots, self._eviction_ms, self._draw_id = new_session, slots, eviction_ms, draw_id
        self._by_use: OrderedDict[int, NamedSession] = OrderedDict()
        """The session that was used last is at the end."""
        self._of_parties: Counter[str] = Counter()
        self._evictions = 0

    def begin(self, caller: Caller, partitions: int, *, by_ids: bool, now_ms: int) -> NamedSession | None:
        """A session for `partitions` partitions; None if there is no place for it."""
        party = party_of(caller)
        if len(self._by_use) >= self._slots and not self._evict(party, partitions, now_ms):
            return None
        session_id = self._draw_id()
        while session_id in self._by_use:
            session_id = self._draw_id()
        made = NamedSession(session_id, self._new_session(party), caller, by_ids=by_ids, now_ms=now_ms)
        self._by_use[session_id] = made
        self._of_parties[party] += 1
        return made

    def go_on(self, session_id: int, epoch: int, owner: str, *, by_ids: bool, now_ms: int) -> NamedSession | NoSession:
        """The session of a request that names it, or why it may not go on."""
        found = self._by_use.get(session_id)
        if found is None or found.owner != owner:
            return NoSession.UNKNOWN_ID
        if epoch != found.epoch:
            return NoSession.WRONG_EPOCH
        if by_ids != found.by_ids:
            return NoSession.OTHER_NAMES
        found.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        found.used_ms = now_ms
        self._by_use.move_to_end(session_id)
        return found

    def end(self, session_id: int, owner: str) -> None:
        """Ends a session that its client wants no more, or that has no partition left. An unknown session, or another
        client's, is left alone."""
        found = self._by_use.get(session_id)
        if found is not None and found.owner == owner:
            del self._by_use[session_id]
            self._of_parties[found.party] -= 1
            if not self._of_parties[found.party]:
                del self._of_parties[found.party]
            found.has_place = False
            found.maybe_close()

    def _evict(self, party: str, partitions: int, now_ms: int) -> bool:
        """True if a session has given up its place to one of `partitions` partitions."""
        victim = self._victim(party, partitions, now_ms)
        if victim is None:
            return False
        self._evictions += 1
        self.end(victim.session_id, victim.owner)
        return True

    def _victim(self, party: str, partitions: int, now_ms: int) -> NamedSession | None:
        quiet = next(iter(self._by_use.values()), None)
        if quiet is None or now_ms - quiet.used_ms > self._eviction_ms:
            return quiet
        richest, most = self._of_parties.most_common(1)[0]
        if most > self._of_parties[party] + 1:
            return next(found for found in self._by_use.values() if found.party == richest)
        own = (found for found in self._by_use.values() if found.party == party)
        old = (found for found in own if now_ms - found.created_ms > self._eviction_ms)
        victim = min(old, key=lambda found: found.size, default=None)
        return None if victim is None or victim.size >= partitions else victim

    def statistics(self) -> NamedSessionStatistics:
        sizes = [found.size for found in tuple(self._by_use.values())]
        return NamedSessionStatistics(len(sizes), sum(sizes), self._evictions)

    def close(self) -> None:
        """The node stops."""
        for found in tuple(self._by_use.values()):
            self.end(found.session_id, found.owner)

    def __repr__(self) -> str:
        return f"NamedSessions({len(self._by_use)} of {self._slots})"


def no_named_sessions() -> NamedSessions:
    """A cache without a place, for a protocol that needs none."""

    def never(host: str) -> FetcherSession:
        raise InvariantViolation(f"a session of {host} without a place")

    return NamedSessions(never, 0, 0, lambda: 1)
