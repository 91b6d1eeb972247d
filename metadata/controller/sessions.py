"""When each broker was last heard from. Soft state of the active controller: never in a record, never in an image.

A registration or a heartbeat begins a session. It ends when the broker is silent for the session time-out. A new
controller gives every unfenced broker a fresh session: it cannot know when its predecessor last heard from the broker,
and to fence all brokers at once would stop the cluster at every failover. For the same reason the time in which the
controller itself stood still is no silence of the brokers (`prolong`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.types import NO_OFFSET


class BrokerSession(NamedTuple):
    """When a broker was last heard of, and how far its published metadata reached then."""

    last_contact_ms: int
    metadata_offset: int


class BrokerSessions:
    """Sessions by broker id."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._sessions: dict[int, BrokerSession] = {}

    def touch(self, broker_id: int, now_ms: int, metadata_offset: int = NO_OFFSET) -> None:
        self._sessions[broker_id] = BrokerSession(now_ms, metadata_offset)

    def prolong(self, ms: int, now_ms: int) -> None:
        """All of them, as if the brokers had been heard of so much later."""
        for broker_id, session in self._sessions.items():
            self._sessions[broker_id] = session._replace(last_contact_ms=min(session.last_contact_ms + ms, now_ms))

    def drop(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def is_live(self, broker_id: int, now_ms: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and now_ms < session.last_contact_ms + self._timeout_ms

    def expired(self, now_ms: int) -> list[int]:
        """The brokers whose session is over, the one that was silent longest first."""
        over = [
            (session.last_contact_ms, broker_id)
            for broker_id, session in self._sessions.items()
            if now_ms >= session.last_contact_ms + self._timeout_ms
        ]
        return [broker_id for _, broker_id in sorted(over)]

    def next_deadline_ms(self) -> int | None:
        """When the next session ends if no broker is heard from before; None without sessions."""
        oldest = min((session.last_contact_ms for session in self._sessions.values()), default=None)
        return None if oldest is None else oldest + self._timeout_ms

    def have_all_read(self, broker_ids: Iterable[int], offset: int) -> bool:
        """Whether each of the brokers has published metadata up to `offset`."""
        return all(self._metadata_offset(broker_id) >= offset for broker_id in broker_ids)

    def _metadata_offset(self, broker_id: int) -> int:
        session = self._sessions.get(broker_id)
        return NO_OFFSET if session is None else session.metadata_offset

    def __len__(self) -> int:
        return len(self._sessions)

    def __repr__(self) -> str:
        return f"BrokerSessions(live or lapsed={len(self)}, timeout_ms={self._timeout_ms})"
