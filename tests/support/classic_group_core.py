"""The core of classic groups alone, as a shard would drive it: turns, timers by a clock of its own, and a log that can
be loaded again. Every ticket is a number; a second answer to one is a failure."""

from __future__ import annotations

from typing import Any

from broker.coordination.held_memory import ShardMemory
from broker.coordination.record_log import TxnProducer
from broker.coordination.timers import Timers
from broker.coordination.turn import Client, Turn
from broker.groups.classic.classic_groups import ClassicGroups
from broker.groups.classic.group import ClassicGroup
from broker.groups.group_config import GroupConfig
from broker.groups.group_sizes import group_memory
from broker.groups.records.classic_records import GroupMetadataKey
from broker.groups.records.record_codec import decode_group_record, encode_group_record
from penstock.errors import ApiError
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
from penstock.record.markers import Marker

GROUP = "orders"
CLIENT = Client("app", "/10.0.0.1")
WALL_MS = 1_700_000_000_000
DELAY_MS = 3_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE = (JoinGroupProtocol("range", b"r"),)


class NoTopics:
    """Classic groups never look at topics."""

    def by_name(self, name: str) -> None:
        return None

    def by_id(self, topic_id: str) -> None:
        return None

    def names(self) -> tuple[str, ...]:
        return ()

    def may_begin_consumer_groups(self) -> bool:
        return True


class ClassicGroupCore:
    """See the module. `log` has the records as bytes."""

    def __init__(self, config: GroupConfig | None = None, now_ms: int = 0, next_id: int = 0) -> None:
        self.config = config or GroupConfig()
        self.groups: dict[str, Any] = {}
        self.timers: Timers[Turn] = Timers()
        self.core = ClassicGroups(self.config, self.groups, self.timers, ShardMemory(group_memory(1 << 40)))
        self.log: list[tuple[bytes, bytes | None]] = []
        self.answers: dict[int, Any] = {}
        self.now_ms = now_ms
        self._ids = next_id
        self._tickets = 0

    # -- the shard's part ----------------------------------------------------------------------------------------------

    def replay_marker(self, marker: Marker) -> None:
        raise NotImplementedError

    def replay(self, key: Any, value: Any | None, producer: TxnProducer | None = None) -> None:
        assert producer is None
        assert isinstance(key, GroupMetadataKey)
        self.core.replay_group(key, value)

    def turn(self) -> Turn:
        return Turn(self.now_ms, WALL_MS + self.now_ms, NoTopics(), self, self._new_id)

    def end(self, turn: Turn) -> None:
        self.log += [encode_group_record(key, value) for key, value in turn.records]
        for ticket, answer in turn.answers:
            assert ticket not in self.answers, f"ticket {ticket} is answered twice"
            self.answers[ticket] = answer

    def _new_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    def replayed(self) -> ClassicGroupCore:
        """Another coordinator, which has read the log and has not begun its members' sessions."""
        other = ClassicGroupCore(self.config, self.now_ms, self._ids)
        for key_bytes, value_bytes in self.log:
            record = decode_group_record(key_bytes, value_bytes)
            assert record is not None
            other.replay(*record)
        other.log = list(self.log)
        return other

    def loaded_again(self) -> ClassicGroupCore:
        """Another coordinator, which has read the log."""
        other = self.replayed()
        turn = other.turn()
        other.core.loaded(turn, other.groups.values())
        other.end(turn)
        return other

    def advance(self, by_ms: int) -> None:
        """Time passes; timers go off at their own times."""
        end_ms = self.now_ms + by_ms
        while (next_ms := self.timers.next_ms) is not None and next_ms <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            turn = self.turn()
            next(self.timers.take_due(self.now_ms))(turn)
            self.end(turn)
        self.now_ms = end_ms

    # -- requests ------------------------------------------------------------------------------------------------------

    def send(self, request: Any, client: Client = CLIENT) -> int:
        """The ticket; its answer is in `answers` as soon as there is one."""
        self._tickets += 1
        turn = self.turn()
        try:
            self.core.handlers[type(request)](turn, self._tickets, request, client)
        except ApiError as error:
            assert not turn.records and not turn.answers, "a decision was refused after it began"
            turn.answer(self._tickets, error)
        self.end(turn)
        return self._tickets

    def ask(self, request: Any, client: Client = CLIENT) -> Any:
        """The answer, which is given at once; an error is raised."""
        answer = self.answers[self.send(request, client)]
        if isinstance(answer, ApiError):
            raise answer
        return answer

    def group(self, group_id: str = GROUP) -> ClassicGroup:
        group = self.groups[group_id]
        assert isinstance(group, ClassicGroup)
        return group

    # -- a group as tests want it --------------------------------------------------------------------------------------

    def come(self, **changed: Any) -> int:
        """A dynamic member gets its id and joins; the ticket of the join."""
        first = self.ask(join(**changed))
        return self.send(join(member_id=first.member_id, **changed))

    def joined(self, ticket: int) -> JoinGroupResponse:
        answer = self.answers[ticket]
        assert isinstance(answer, JoinGroupResponse), answer
        return answer

    def generation(self, count: int, **changed: Any) -> list[JoinGroupResponse]:
        """So many members come to an empty group, and join its first generation."""
        tickets = [self.come(**changed) for _ in range(count)]
        while not all(ticket in self.answers for ticket in tickets):
            self.advance(DELAY_MS)
        return [self.joined(ticket) for ticket in tickets]

    def stable(self, count: int, **changed: Any) -> list[JoinGroupResponse]:
        """The same, and all have synced: each has its own id as its assignment. The first one leads."""
        members = self.generation(count, **changed)
        for member in members[1:]:
            self.send(sync(member))
        self.assign(members[0])
        return members

    def assign(self, leader: JoinGroupResponse) -> SyncGroupResponse:
        answer = self.ask(sync(leader, tuple(one.member_id for one in leader.members)))
        assert isinstance(answer, SyncGroupResponse)
        return answer


def join(**changed: Any) -> JoinGroupRequest:
    values: dict[str, Any] = {
        "group_id": GROUP,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": RANGE,
    }
    return JoinGroupRequest(**values | changed)


def protocols(*names: str, metadata: bytes = b"m") -> tuple[JoinGroupProtocol, ...]:
    return tuple(JoinGroupProtocol(name, metadata) for name in names)


def sync(member: JoinGroupResponse, assigned: tuple[str, ...] = (), **changed: Any) -> SyncGroupRequest:
    values: dict[str, Any] = {
        "group_id": GROUP,
        "generation_id": member.generation_id,
        "member_id": member.member_id,
        "assignments": tuple(MemberAssignment(member_id, member_id.encode()) for member_id in assigned),
    }
    return SyncGroupRequest(**values | changed)


def beat(member: JoinGroupResponse, **changed: Any) -> HeartbeatRequest:
    values: dict[str, Any] = {
        "group_id": GROUP,
        "generation_id": member.generation_id,
        "member_id": member.member_id,
    }
    return HeartbeatRequest(**values | changed)


def leave(*members: LeavingMember | JoinGroupResponse) -> LeaveGroupRequest:
    return LeaveGroupRequest(
        GROUP, tuple(one if isinstance(one, LeavingMember) else LeavingMember(one.member_id) for one in members)
    )
