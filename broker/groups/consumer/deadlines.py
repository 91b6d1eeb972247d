"""The deadlines of members: a heartbeat within the session's time-out, and revocation within the rebalance's.

Soft: after a load all of them begin anew. Not here: what happens to a member that misses one.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.groups.consumer.member import Member, MemberState
from broker.groups.timers import Timers
from broker.groups.turn import Turn

Missed = Callable[[Turn, str, str], None]
"""Called with the ids of the group and of the member."""


class Deadlines:
    def __init__(self, timers: Timers[Turn], session_missed: Missed, revocation_missed: Missed) -> None:
        self._timers = timers
        self._session_missed = session_missed
        self._revocation_missed = revocation_missed

    def heard(self, now_ms: int, group_id: str, member_id: str, session_timeout_ms: int) -> None:
        """The member is alive: its session begins anew."""
        missed = self._session_missed
        self._timers.set(
            ("consumer session", group_id, member_id),
            now_ms + session_timeout_ms,
            lambda turn: missed(turn, group_id, member_id),
        )

    def follow(self, now_ms: int, group_id: str, before: Member | None, member: Member) -> None:
        """Give the member the time of its rebalance time-out to give up partitions; more of them, and it begins
        anew."""
        name = ("consumer revocation", group_id, member.member_id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._timers.cancel(name)
        elif before is None or before.revoking != member.revoking or self._timers.due_ms(name) is None:
            missed, member_id = self._revocation_missed, member.member_id
            self._timers.set(
                name, now_ms + max(0, member.rebalance_timeout_ms), lambda turn: missed(turn, group_id, member_id)
            )

    def forget(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(("consumer session", group_id, member_id))
        self._timers.cancel(("consumer revocation", group_id, member_id))
