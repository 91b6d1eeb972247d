"""Sessions of those who are logged in, and limits for those who try. Pure: the time and random ids are given.

    a session ends   after IDLE_MS without a request, LIFETIME_MS after its log-in, by a log-out, or with its token
    its id           is random, known to one browser, and new at each log-in
    tries            FAILURES_MAX that fail within FAILURES_MS shut a network out until the oldest is that old

The token that each form carries is the session's id under a key of this process: a page of another site cannot know it.
Not here: cookies (browsers.py), and the connection that a session holds (cluster_link.py).
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from penstock.addresses import network_of
from penstock.errors import PenstockError
from penstock.lazy_dataclass import dataclass

IDLE_MS: Final = 30 * 60_000
LIFETIME_MS: Final = 12 * 3_600_000
SESSIONS_MAX: Final = 200
"""Each holds a client of the cluster."""
SESSIONS_OF_USER_MAX: Final = 20
FAILURES_MAX: Final = 10
FAILURES_MS: Final = 5 * 60_000
NETWORKS_MAX: Final = 4_096
"""Networks whose failures are remembered; the one that failed longest ago is forgotten first."""

L = TypeVar("L")


class TooManySessionsError(PenstockError):
    """Every session is taken."""


class TooManyFailuresError(PenstockError):
    """Log-ins from a network failed too often of late."""


class SessionGrant(Protocol):
    """The token of a person who logged in by one."""

    def is_over(self, now_ms: int) -> bool:
        """True once it has ended for good."""
        ...

    async def fresh(self, now_ms: int) -> None:
        """Returns once there is a token that counts; the provider's error where there is none."""
        ...

    async def close(self) -> None:
        """Nothing is renewed any more."""
        ...


@dataclass(slots=True)
class ConsoleSession(Generic[L]):
    """A user who is logged in, with the connection that acts for that user alone."""

    session_id: str
    user: str
    link: L
    begun_ms: int
    used_ms: int
    grant: SessionGrant | None = None
    """None for one who logged in with a password."""

    def is_over(self, now_ms: int) -> bool:
        """True once it has ended by its age, for want of use, or with its token."""
        if self.grant is not None and self.grant.is_over(now_ms):
            return True
        return now_ms - self.used_ms >= IDLE_MS or now_ms - self.begun_ms >= LIFETIME_MS


class ConsoleSessions(Generic[L]):
    """The sessions of one console. Those that end are handed out by `ended`, so that their connections are closed."""

    def __init__(self, new_id: Callable[[], str], key: bytes) -> None:
        self._new_id, self._key = new_id, key
        self._by_id: dict[str, ConsoleSession[L]] = {}
        self._failures: OrderedDict[str, deque[int]] = OrderedDict()
        self._ended: list[ConsoleSession[L]] = []

    def begin(self, user: str, link: L, now_ms: int, grant: SessionGrant | None = None) -> ConsoleSession[L]:
        """A new session; TooManySessionsError while all are taken. The oldest of a user ends where there are many."""
        self.end_old(now_ms)
        own = [one for one in self._by_id.values() if one.user == user]
        if len(own) >= SESSIONS_OF_USER_MAX:
            self.end(min(own, key=lambda one: one.used_ms).session_id)
        if len(self._by_id) >= SESSIONS_MAX:
            raise TooManySessionsError(f"all {SESSIONS_MAX} sessions of this console are taken; try again later")
        session = ConsoleSession(self._new_id(), user, link, now_ms, now_ms, grant)
        self._by_id[session.session_id] = session
        return session

    def find(self, session_id: str, now_ms: int, *, touches: bool = True) -> ConsoleSession[L] | None:
        """The session of the id, which is in use now if the caller `touches` it; None where there is none any more."""
        self.end_old(now_ms)
        session = self._by_id.get(session_id)
        if session is not None and touches:
            session.used_ms = now_ms
        return session

    def end(self, session_id: str) -> None:
        """Ends a session. Idempotent."""
        session = self._by_id.pop(session_id, None)
        if session is not None:
            self._ended.append(session)

    def end_old(self, now_ms: int) -> None:
        """Ends those whose time is over."""
        for one in [one for one in self._by_id.values() if one.is_over(now_ms)]:
            self.end(one.session_id)

    def end_all(self) -> None:
        """Ends every session."""
        for session_id in tuple(self._by_id):
            self.end(session_id)

    def ended(self) -> list[ConsoleSession[L]]:
        """The sessions that have ended since the last call."""
        found, self._ended = self._ended, []
        return found

    def form_token(self, browser_id: str) -> str:
        """The token of the forms of one browser: `browser_id` is its session's id, or what it has in place of one."""
        return hmac.new(self._key, browser_id.encode(), hashlib.sha256).hexdigest()

    def is_form_token(self, browser_id: str, token: str) -> bool:
        """True for that browser's token. It takes the same time for every other one."""
        return bool(browser_id) and hmac.compare_digest(self.form_token(browser_id).encode(), token.encode())

    def check_may_try(self, host: str, now_ms: int) -> None:
        """TooManyFailuresError while the host's network is shut out."""
        failures = self._failures.get(network_of(host))
        while failures and now_ms - failures[0] >= FAILURES_MS:
            failures.popleft()
        if failures and len(failures) >= FAILURES_MAX:
            left_s = (FAILURES_MS - (now_ms - failures[0])) // 1000 + 1
            raise TooManyFailuresError(f"{FAILURES_MAX} log-ins from this network have failed; try again in {left_s} s")

    def note_failure(self, host: str, now_ms: int) -> None:
        """A log-in from that host was refused."""
        network = network_of(host)
        self._failures.setdefault(network, deque(maxlen=FAILURES_MAX)).append(now_ms)
        self._failures.move_to_end(network)
        while len(self._failures) > NETWORKS_MAX:
            self._failures.popitem(last=False)

    @property
    def count(self) -> int:
        return len(self._by_id)

    def __repr__(self) -> str:
        return f"ConsoleSessions({self.count} of {SESSIONS_MAX})"
