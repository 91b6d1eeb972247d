"""The deadlines of members. A member that misses one is removed:

    session      a heartbeat within the session's time-out
    revocation   partitions that are to be given up, within the rebalance's time-out
    step         a classic member that is to join, or to sync after it joined, within the same time

Soft: after a load all of them begin anew. Not here: removing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.coordination.timers import Timers
from broker.coordination.turn import Turn
from broker.groups.consumer.member import Member, MemberState

_SESSION: Final = "consumer session"
_REVOCATION: Final = "consumer revocation"
_STEP: Final = "consumer step"


class Deadlines:
    """`missed` is called with the ids of the group and of the member."""

    def __init__(self, timers: Timers[Turn], missed: Callable[[Turn, str, str], None]) -> None:
        self._timers = timers
        self._missed = missed

    def heard(self, now_ms: int, group_id: str, member_id: str, session_timeout_ms: int) -> None:
        """The member is alive: its session begins anew."""
        self._set((_SESSION, group_id, member_id), now_ms + session_timeout_ms)

    def silent_ms(self, now_ms: int, group_id: str, member_id: str, session_timeout_ms: int) -> int:
        """The time since the member was last heard."""
        due_ms = self._timers.due_ms((_SESSION, group_id, member_id))
        return 0 if due_ms is None else max(0, now_ms + session_timeout_ms - due_ms)

    def follow(self, now_ms: int, group_id: str, before: Member | None, member: Member) -> None:
        """Give the member the time of its rebalance time-out to give up partitions; it begins anew with more of
        them."""
        name = (_REVOCATION, group_id, member.member_id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._timers.cancel(name)
        elif before is None or before.revoking != member.revoking or self._timers.due_ms(name) is None:
            self._set(name, now_ms + max(0, member.rebalance_timeout_ms))

    def expect_step(self, now_ms: int, group_id: str, member: Member, anew: bool = False) -> None:
        """The classic member is to join, or to sync; if it is expected to already, its time runs on."""
        name = (_STEP, group_id, member.member_id)
        if anew or self._timers.due_ms(name) is None:
            self._set(name, now_ms + max(0, member.rebalance_timeout_ms))

    def took_step(self, group_id: str, member_id: str) -> None:
        self._timers.cancel((_STEP, group_id, member_id))

    def forget(self, group_id: str, member_id: str) -> None:
        for kind in (_SESSION, _REVOCATION, _STEP):
            self._timers.cancel((kind, group_id, member_id))

    def _set(self, name: tuple[str, str, str], at_ms: int) -> None:
        missed, (_, group_id, member_id) = self._missed, name
        self._timers.set(name, at_ms, lambda turn: missed(turn, group_id, member_id))
