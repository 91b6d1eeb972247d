"""Keeps who is logged in by which connection of gRPC, and whose log-in is under way there. Pure.

A connection has one session at most, and one dialogue under way, as in Kafka. The session has a token, which comes with
every call. It counts at its own connection only, so that who has stolen one cannot use it from elsewhere, and it is in
this node's memory only. A session ends with its time (`connections.max.reauth.ms`) unless it is renewed before, and
with its connection. Connections are counted (`max.connections`), so sessions are, too.

Not here: what a user must prove (logins.py).
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import field
from typing import Final, NamedTuple

from broker.authentication.logins import Dialogue
from penstock.addresses import network_of
from penstock.errors import IllegalSaslStateError
from penstock.lazy_dataclass import dataclass
from penstock.types import Endpoint

TOKEN_BYTES: Final = 32
LIFETIME_MS_MIN: Final = 1_000
"""The lifetime of a log-in by a token that has ended already, within the difference that clocks may have."""
DIALOGUE_MS_MAX: Final = 10_000
"""A client answers within a moment; what is older is forgotten."""
DIALOGUES_MAX: Final = 1_024
DIALOGUES_OF_HOST_MAX: Final = 128


class CallerPlace(NamedTuple):
    """One connection of a client, by its listener and its far end."""

    listener: str
    peer: Endpoint


@dataclass(slots=True)
class LoginSession:
    """One connection's log-in."""

    token: str = field(repr=False)
    principal: str
    begun_ms: int
    ends_ms: int | None
    """The end of the session; None: the end of its connection."""

    def is_over(self, now_ms: int) -> bool:
        return self.ends_ms is not None and now_ms >= self.ends_ms


class Sessions:
    """All sessions of one node. Times are monotonic."""

    def __init__(self, sessions_max: int, new_token: Callable[[], str]) -> None:
        """`sessions_max` is the number of connections that there may be. `new_token`: TOKEN_BYTES random bytes, in
        base64url."""
        self._max, self._new_token = sessions_max, new_token
        self._of: dict[CallerPlace, LoginSession] = {}

    def begin(self, at: CallerPlace, principal: str, lifetime_ms: int, now_ms: int) -> LoginSession:
        """The connection's session from now on; a `lifetime_ms` of 0 is as long as the connection's."""
        self._of.pop(at, None)
        while len(self._of) >= self._max:  # of connections that have ended since the last look at them
            del self._of[next(iter(self._of))]
        session = LoginSession(self._new_token(), principal, now_ms, _end(lifetime_ms, now_ms))
        self._of[at] = session
        return session

    def renew(self, at: CallerPlace, principal: str, lifetime_ms: int, now_ms: int) -> LoginSession | None:
        """The principal's session there, with a new end; None if it has none any more (KIP-368)."""
        session = self._of.get(at)
        if session is None or session.principal != principal or session.is_over(now_ms):
            return None
        session.ends_ms = _end(lifetime_ms, now_ms)
        return session

    def principal_of(self, at: CallerPlace, token: str, now_ms: int) -> str | None:
        """The principal of a token; None if it is nobody's at this connection now."""
        session = self._of.get(at)
        if session is None or session.is_over(now_ms):
            return None
        if not hmac.compare_digest(session.token.encode(), token.encode("utf-8", "surrogatepass")):
            return None
        return session.principal

    def is_logged_in(self, at: CallerPlace, principal: str, now_ms: int) -> bool:
        """False once the session under which a stream was opened there is over."""
        session = self._of.get(at)
        return session is not None and session.principal == principal and not session.is_over(now_ms)

    def has_one(self, at: CallerPlace, now_ms: int) -> bool:
        """True if a user is logged in by that connection, whichever caller asks."""
        session = self._of.get(at)
        return session is not None and not session.is_over(now_ms)

    def principals(self, listener: str, now_ms: int) -> dict[Endpoint, str]:
        """The principals that are logged in at a listener, by connection."""
        return {
            at.peer: session.principal
            for at, session in self._of.items()
            if at.listener == listener and not session.is_over(now_ms)
        }

    def look(self, listener: str, connected: Collection[Endpoint], looked_ms: int) -> None:
        """Forget the sessions of connections that have ended: those begun before the look at which they were not seen.
        No connection at all is a system on which none is seen (accepted_sockets.py)."""
        if not connected:
            return
        gone = [
            at
            for at, session in self._of.items()
            if at.listener == listener and session.begun_ms < looked_ms and at.peer not in connected
        ]
        for at in gone:
            del self._of[at]

    def __len__(self) -> int:
        return len(self._of)

    def __repr__(self) -> str:
        return f"Sessions({len(self._of)} of {self._max})"


class _Open(NamedTuple):
    dialogue: Dialogue
    since_ms: int


class Dialogues:
    """The log-ins of one node that wait for their client's next message."""

    def __init__(self) -> None:
        self._of: dict[CallerPlace, _Open] = {}
        """The oldest first."""
        self._hosts: Counter[str] = Counter()

    def keep(self, at: CallerPlace, dialogue: Dialogue, now_ms: int) -> None:
        """Keeps the dialogue until the next message comes by that connection; it replaces another one there. If there
        are too many, it also replaces the oldest of its address, or of the address that has most: a client that begins
        and does not go on keeps nobody out."""
        self.drop(at)
        for oldest, kept in list(self._of.items()):
            if now_ms - kept.since_ms < DIALOGUE_MS_MAX:
                break
            self.drop(oldest)
        host = network_of(at.peer.host)
        if self._hosts[host] >= DIALOGUES_OF_HOST_MAX:
            self._drop_oldest(host)
        elif len(self._of) >= DIALOGUES_MAX:
            self._drop_oldest(self._hosts.most_common(1)[0][0])
        self._of[at] = _Open(dialogue, now_ms)
        self._hosts[host] += 1

    def _drop_oldest(self, host: str) -> None:
        self.drop(next(at for at in self._of if network_of(at.peer.host) == host))

    def take(self, at: CallerPlace) -> Dialogue:
        """The dialogue of that connection; `keep` puts it back. IllegalSaslStateError if the connection has no
        dialogue."""
        dialogue = self.drop(at)
        if dialogue is None:
            raise IllegalSaslStateError(
                f"{at.listener}: this connection has no authentication under way; begin one by naming a mechanism"
            )
        return dialogue

    def drop(self, at: CallerPlace) -> Dialogue | None:
        """Forget the one of that connection, if there is any."""
        kept = self._of.pop(at, None)
        if kept is None:
            return None
        host = network_of(at.peer.host)
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]
        return kept.dialogue

    def __len__(self) -> int:
        return len(self._of)

    def __repr__(self) -> str:
        return f"Dialogues({len(self._of)})"


def session_lifetime_ms(longest_ms: int, ends_ms: int | None, wall_ms: int) -> int:
    """How long a log-in counts: as long as what has proved the user (until `ends_ms`; None: for ever), and no longer
    than `connections.max.reauth.ms` (0: as long as the connection). 0 is without an end (KIP-368)."""
    if ends_ms is None:
        return longest_ms
    left_ms = max(ends_ms - wall_ms, LIFETIME_MS_MIN)
    return min(left_ms, longest_ms) if longest_ms else left_ms


def _end(lifetime_ms: int, now_ms: int) -> int | None:
    return now_ms + lifetime_ms if lifetime_ms > 0 else None
