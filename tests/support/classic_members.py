"""One member of the campaign of classic groups: a client with the rules of an eager consumer.

It revokes all before it joins, assigns if it leads, and does what errors ask for. Its requests and answers may be lost
or late; it sends a request again when no answer comes. Not here: the network and the coordinator (classic_campaign.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import (
    ApiError,
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    MemberIdRequiredError,
    UnknownMemberIdError,
)
from penstock.messages.groups.classic_protocol import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    MemberAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)

GROUP = "orders"
PARTITIONS = 7
SESSION_MS = 6_000
REBALANCE_MS = 5_000
TICK_MS = 1_000
JOIN_TIMEOUT_MS = 12_000
TIMEOUT_MS = 3_000
SAFE = ("range", "rr", "sticky")


class Member:
    """`send` takes the member, the number of the request, and the request."""

    def __init__(self, name: str, instance: str | None, send: Callable[[Member, int, Any], None]) -> None:
        self.name, self.instance = name, instance
        self.protocols: tuple[str, ...] = SAFE
        self.metadata = name.encode()
        self.knows_ids = True
        self.member_id = ""
        self.generation = -1
        self.assignment: frozenset[int] | None = None
        """None: it owns nothing, and has not synced."""
        self.is_alive = True
        self._send = send
        self._number = 0
        self._asked: Any = None
        self._asked_ms = 0

    # -- what it asks --------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        if self._asked is not None:
            patience_ms = JOIN_TIMEOUT_MS if isinstance(self._asked, JoinGroupRequest) else TIMEOUT_MS
            if now_ms - self._asked_ms >= patience_ms:
                self._ask(self._asked, now_ms)
        elif self.assignment is not None:
            self._ask(HeartbeatRequest(GROUP, self.generation, self.member_id, self.instance), now_ms)

    def join(self, now_ms: int) -> None:
        self.assignment = None
        protocols = tuple(JoinGroupProtocol(name, self.metadata) for name in self.protocols)
        request = JoinGroupRequest(
            GROUP,
            SESSION_MS,
            REBALANCE_MS,
            self.member_id,
            "consumer",
            protocols,
            self.instance,
            requires_known_member_id=self.knows_ids,
            may_skip_assignment=self.knows_ids,
        )
        self._ask(request, now_ms)

    def leave(self, now_ms: int) -> None:
        """It says so, and does not wait for the answer."""
        if self.member_id:
            self._ask(LeaveGroupRequest(GROUP, (LeavingMember(self.member_id, self.instance),)), now_ms)
        self.stop()

    def stop(self) -> None:
        self.is_alive, self.assignment = False, None

    def _ask(self, request: Any, now_ms: int) -> None:
        self._number += 1
        self._asked, self._asked_ms = request, now_ms
        self._send(self, self._number, request)

    # -- what it is told -----------------------------------------------------------------------------------------------

    def on_answer(self, number: int, answer: Any, now_ms: int) -> None:
        if not self.is_alive or number != self._number or self._asked is None:
            return
        asked, self._asked = self._asked, None
        match answer:
            case ApiError():
                self._on_error(answer, asked, now_ms)
            case JoinGroupResponse(error=MemberIdRequiredError()):
                self.member_id = answer.member_id
                self.join(now_ms)
            case JoinGroupResponse():
                self.member_id, self.generation = answer.member_id, answer.generation_id
                assigned = () if answer.skip_assignment else tuple(_assigned(answer))
                request = SyncGroupRequest(
                    GROUP, self.generation, self.member_id, self.instance, "consumer", answer.protocol_name, assigned
                )
                self._ask(request, now_ms)
            case SyncGroupResponse():
                self.assignment = frozenset(answer.assignment)

    def _on_error(self, error: ApiError, asked: Any, now_ms: int) -> None:
        match error:
            case FencedInstanceIdError():
                self.stop()
                return
            case UnknownMemberIdError():
                self.member_id = ""
            case InconsistentGroupProtocolError():
                self.protocols = SAFE
        if isinstance(asked, HeartbeatRequest) and error.retriable:
            return
        if error.retriable and not isinstance(asked, JoinGroupRequest):
            self._ask(asked, now_ms)
        else:
            self.join(now_ms)


def _assigned(answer: JoinGroupResponse) -> list[MemberAssignment]:
    members = sorted(one.member_id for one in answer.members)
    return [
        MemberAssignment(member, bytes(range(place, PARTITIONS, len(members)))) for place, member in enumerate(members)
    ]
