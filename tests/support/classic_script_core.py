"""The side of our own core in the scripts of classic members."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker.coordination.turn import Client
from broker.groups.classic.group import ClassicGroup
from broker.groups.group_config import GroupConfig
from penstock.errors import ApiError
from penstock.messages.groups.classic_protocol import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    MemberAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from penstock.messages.groups.offsets import OffsetCommitRequest
from tests.support.classic_group_core import ClassicGroupCore
from tests.support.classic_scripts import REBALANCE_MS, Step
from tests.support.classic_transcript import Answer, MemberId, Speakers, assignment_to, joined_fields, unordered

CONFIG = GroupConfig(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=100)


class OurCore:
    """One core for all scripts: each has a group of its own."""

    def __init__(self) -> None:
        self.core = ClassicGroupCore(CONFIG)
        self._group = ""
        self._speakers = Speakers()
        self._waiting: dict[int, Step] = {}
        self._answers: list[Answer] = []

    def act(self, group: str, step: Step) -> None:
        if group != self._group:
            self._group, self._speakers, self._waiting = group, Speakers(), {}
        if step.what == "wait":
            self.core.advance(step.fields["ms"])
        elif step.what in ("describe", "commit"):
            self._answers.append(getattr(self, f"_{step.what}")(step))
        else:
            request = getattr(self, f"_{step.what}")(step)
            self._waiting[self.core.send(request, Client(step.who, "/127.0.0.1"))] = step
        self.core.advance(1)

    def answers(self) -> Iterable[Answer]:
        yield from self._answers
        self._answers = []
        for ticket, step in list(self._waiting.items()):
            if ticket in self.core.answers:
                del self._waiting[ticket]
                yield self._answer(step, self.core.answers[ticket])

    def _answer(self, step: Step, answer: Any) -> Answer:
        match answer:
            case ApiError():
                return Answer(step.who, step.what, answer.kafka_name, {})
            case JoinGroupResponse():
                return self._joined(step.who, answer)
            case SyncGroupResponse():
                return Answer(step.who, "sync", "NONE", {"assignment": answer.assignment})
            case HeartbeatResponse():
                return Answer(step.who, "beat", "NONE", {})
            case LeaveGroupResponse():
                return self._left(step, answer)
        raise AssertionError(answer)

    def _join(self, step: Step) -> JoinGroupRequest:
        fields = step.fields
        version = fields.get("version", 9)
        protocols = fields.get("protocols", {"range": step.who})
        return JoinGroupRequest(
            self._group,
            fields["session"],
            fields.get("rebalance", REBALANCE_MS),
            self._speakers.member_of(step),
            fields.get("type", "consumer"),
            tuple(JoinGroupProtocol(name, text.encode()) for name, text in protocols.items()),
            fields.get("instance"),
            requires_known_member_id=version >= 4,
            may_skip_assignment=version >= 9,
        )

    def _joined(self, who: str, answer: JoinGroupResponse) -> Answer:
        protocol = (answer.protocol_type, answer.protocol_name)
        self._speakers.joined(who, answer.member_id, answer.generation_id, protocol)
        if answer.error is not None:
            return Answer(who, "join", answer.error.kafka_name, {"member": MemberId(answer.member_id)})
        members = [(one.member_id, one.group_instance_id, one.metadata) for one in answer.members]
        fields = joined_fields(
            answer.generation_id, protocol, answer.leader, answer.skip_assignment, answer.member_id, members
        )
        return Answer(who, "join", "NONE", fields)

    def _sync(self, step: Step) -> SyncGroupRequest:
        assignments = (
            MemberAssignment(self._speakers.id_of(f"@{who}"), assignment_to(who, step))
            for who in step.fields.get("assigned", ())
        )
        return SyncGroupRequest(
            self._group,
            self._speakers.generation_of(step),
            self._speakers.member_of(step),
            step.fields.get("instance"),
            *self._speakers.protocol_of(step),
            tuple(assignments),
        )

    def _beat(self, step: Step) -> HeartbeatRequest:
        speakers, instance = self._speakers, step.fields.get("instance")
        return HeartbeatRequest(self._group, speakers.generation_of(step), speakers.member_of(step), instance)

    def _leave(self, step: Step) -> LeaveGroupRequest:
        mine = ((self._speakers.member_of(step), step.fields.get("instance")),)
        members = step.fields.get("members", mine)
        return LeaveGroupRequest(
            self._group, tuple(LeavingMember(self._speakers.id_of(member), instance) for member, instance in members)
        )

    def _left(self, step: Step, answer: LeaveGroupResponse) -> Answer:
        """A client before version 3 leaves alone: its member's error is that of the answer."""
        errors = ["NONE" if one.error is None else one.error.kafka_name for one in answer.members]
        if "version" in step.fields:
            return Answer(step.who, "leave", errors[0], {"members": ()})
        answered = zip(answer.members, errors, strict=True)
        members = tuple((one.member_id and "m", one.group_instance_id, error) for one, error in answered)
        return Answer(step.who, "leave", "NONE", {"members": members})

    def _commit(self, step: Step) -> Answer:
        """A group that is not there takes commits without a member: the offsets' part."""
        is_admin = step.who == "admin"
        request = OffsetCommitRequest(
            self._group,
            (),
            "" if is_admin else self._speakers.member_of(step),
            -1 if is_admin else self._speakers.generation_of(step),
            step.fields.get("instance"),
        )
        group = self.core.groups.get(self._group)
        if group is None:
            return Answer(step.who, "commit", "ILLEGAL_GENERATION" if request.member_epoch >= 0 else "NONE", {})
        turn = self.core.turn()
        try:
            self.core.core.check_commit(turn, group, request)
        except ApiError as error:
            return Answer(step.who, "commit", error.kafka_name, {})
        finally:
            self.core.end(turn)
        return Answer(step.who, "commit", "NONE", {})

    def _describe(self, step: Step) -> Answer:
        group = self.core.groups.get(self._group)
        if not isinstance(group, ClassicGroup):
            fields = {"state": "Dead", "protocol": ("", ""), "members": frozenset()}
            return Answer(step.who, "describe", "NONE", fields)
        described = self.core.core.described(self.core.turn(), group)
        members = [
            (one.member_id, one.group_instance_id, one.metadata, one.assignment_bytes) for one in described.members
        ]
        protocol = (described.protocol_type, described.protocol_name)
        fields = {"state": described.state, "protocol": protocol, "members": unordered(members)}
        return Answer(step.who, "describe", "NONE", fields)
