"""When each broker was last heard from. Soft state of the active controller: never in a record, never in an image.

A heartbeat also says how far the broker's metadata reaches. A broker that names the same offset again and again, while
newer metadata is committed, is alive and hears of nothing: its metadata log's disk hangs or is full, or no answer
reaches it. Such a broker knows of no leader, no ISR and no deletion from then on. After `STANDSTILL_SESSIONS` sessions
it *stands still*, and is fenced until it has read on. A slow broker reads on, however slowly, and is not fenced.

A registration or a heartbeat begins a session. It ends when the broker is silent for the session time-out. A new
controller gives every unfenced broker a fresh session: it cannot know when its predecessor last heard from the broker,
and to fence all brokers at once would stop the cluster at every failover. For the same reason the time in which the
controller itself stood still is no silence of the brokers (`prolong`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from metadata.controller.calendars import BrokerCalendars
from penstock.types import NO_OFFSET

STANDSTILL_SESSIONS = 3
"""One for an election of the quorum, one for a slow disk, and one more."""


class BrokerSession(NamedTuple):
    """When a broker was last heard of, how far its published metadata reached then, and since when it has not moved
    though there was more."""

    last_contact_ms: int
    metadata_offset: int
    behind_since_ms: int | None = None


class BrokerSessions:
    """Sessions by broker id."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._sessions: dict[int, BrokerSession] = {}
        self.calendars = BrokerCalendars()

    def touch(
        self, broker_id: int, now_ms: int, metadata_offset: int = NO_OFFSET, committed_offset: int = NO_OFFSET
    ) -> None:
        """`committed_offset`: the newest metadata that it could have."""
        before, behind_since_ms = self._sessions.get(broker_id), None
        if before is not None and metadata_offset == before.metadata_offset and metadata_offset < committed_offset:
            behind_since_ms = now_ms if before.behind_since_ms is None else before.behind_since_ms
        self._sessions[broker_id] = BrokerSession(now_ms, metadata_offset, behind_since_ms)

    def standing_still(self, now_ms: int) -> list[int]:
        """The brokers whose metadata has not moved for too long."""
        return [broker_id for broker_id in self._sessions if self.stands_still(broker_id, now_ms)]

    def stands_still(self, broker_id: int, now_ms: int, sessions: int = STANDSTILL_SESSIONS) -> bool:
        """True if the broker has not moved for this many sessions, by default long enough to stand still."""
        session = self._sessions.get(broker_id)
        since_ms = None if session is None else session.behind_since_ms
        return since_ms is not None and now_ms >= since_ms + sessions * self.timeout_ms

    def prolong(self, ms: int, now_ms: int) -> None:
        """Prolongs all sessions by `ms`, as if the brokers had been heard of that much later."""
        for broker_id, session in self._sessions.items():
            since_ms = session.behind_since_ms
            self._sessions[broker_id] = session._replace(
                last_contact_ms=min(session.last_contact_ms + ms, now_ms),
                behind_since_ms=None if since_ms is None else min(since_ms + ms, now_ms),
            )

    def drop(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def is_live(self, broker_id: int, now_ms: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and now_ms < session.last_contact_ms + self.timeout_ms

    def live(self, now_ms: int) -> list[int]:
        """The brokers whose session is not over."""
        return [broker_id for broker_id in self._sessions if self.is_live(broker_id, now_ms)]

    def expired(self, now_ms: int) -> list[int]:
        """The brokers whose session is over, the one that was silent longest first."""
        over = [
            (session.last_contact_ms, broker_id)
            for broker_id, session in self._sessions.items()
            if now_ms >= session.last_contact_ms + self.timeout_ms
        ]
        return [broker_id for _, broker_id in sorted(over)]

    def next_deadline_ms(self) -> int | None:
        """When the next session ends if no broker is heard from before; None without sessions."""
        oldest = min((session.last_contact_ms for session in self._sessions.values()), default=None)
        return None if oldest is None else oldest + self.timeout_ms

    def have_all_read(self, broker_ids: Iterable[int], offset: int) -> bool:
        """True if each of the brokers has published metadata up to `offset`."""
        return all(self._metadata_offset(broker_id) >= offset for broker_id in broker_ids)

    def _metadata_offset(self, broker_id: int) -> int:
        session = self._sessions.get(broker_id)
        return NO_OFFSET if session is None else session.metadata_offset

    def __len__(self) -> int:
        return len(self._sessions)

    def __repr__(self) -> str:
        return f"BrokerSessions(live or lapsed={len(self)}, timeout_ms={self.timeout_ms})"
