"""Records what a real Kafka answers to the scripts of classic members.

    python -m tests.support.record_classic_scripts ADDRESS [SCRIPT...]

Its output is kept in tests/unit/broker/groups/classic/kafka_4_3_1.txt.
Its broker needs group.initial.rebalance.delay.ms=0 and group.min.session.timeout.ms=100, and the topic `read`.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from broker.kafka.schemas.groups.classic import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from broker.kafka.schemas.groups.coordinators import FindCoordinatorRequest, FindCoordinatorResponse
from broker.kafka.schemas.groups.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.wire_errors.api_error import ERRORS
from tests.support.classic_scripts import REBALANCE_MS, SCRIPTS, Step
from tests.support.classic_transcript import (
    Answer,
    MemberId,
    Speakers,
    assignment_to,
    joined_fields,
    transcript,
    unordered,
)
from tests.support.kafka_listener import answer_in, frame

SETTLE_S = 0.25
VERSIONS = {"join": 9, "sync": 5, "beat": 4, "leave": 5, "commit": 8, "describe": 5}
TOPIC = "read"
ANSWERS: dict[str, type[Any]] = {
    "join": JoinGroupResponse,
    "sync": SyncGroupResponse,
    "beat": HeartbeatResponse,
    "leave": LeaveGroupResponse,
    "commit": OffsetCommitResponse,
    "describe": DescribeGroupsResponse,
    "find": FindCoordinatorResponse,
}


class Connection:
    """One client's connection, and the steps whose answers it waits for."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), 10)
        self._unread = b""
        self._waiting: list[tuple[str, int]] = []

    def send(self, what: str, request: object, version: int) -> None:
        self._waiting.append((what, version))
        self._socket.sendall(frame(request, version, len(self._waiting)))

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    def received(self) -> Iterator[tuple[str, Any]]:
        self._socket.setblocking(False)
        with suppress(BlockingIOError):
            while data := self._socket.recv(1 << 16):
                self._unread += data
        self._socket.setblocking(True)
        while len(self._unread) >= 4 and len(self._unread) >= 4 + (length := struct.unpack(">i", self._unread[:4])[0]):
            what, version = self._waiting.pop(0)
            data, self._unread = self._unread[4 : 4 + length], self._unread[4 + length :]
            yield what, answer_in(memoryview(data), ANSWERS[what], version)[1]


class Kafka:
    """The side of a real broker."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._group = ""
        self._connections: dict[str, Connection] = {}
        self._speakers = Speakers()
        self._came: list[Answer] = []

    def act(self, group: str, step: Step) -> None:
        if group != self._group:
            self._group, self._connections, self._speakers = group, {}, Speakers()
            self._wait_for_coordinator()
        if step.what == "wait":
            time.sleep(step.fields["ms"] / 1000)
            return
        request = getattr(self, f"_{step.what}")(step)
        connection = self._connections.setdefault(step.who, Connection(self._address))
        connection.send(step.what, request, step.fields.get("version", VERSIONS[step.what]))
        until = time.monotonic() + SETTLE_S
        while connection.waits and time.monotonic() < until:
            time.sleep(0.01)
            self._came += self._received()
        time.sleep(SETTLE_S / 4)

    def answers(self) -> Iterable[Answer]:
        came, self._came = self._came + self._received(), []
        return came

    def _received(self) -> list[Answer]:
        return [
            getattr(self, f"_{what}_answer")(who, answer)
            for who, connection in self._connections.items()
            for what, answer in connection.received()
        ]

    def _wait_for_coordinator(self) -> None:
        """Until it is found (which makes the topic), and knows that a stranger is one."""
        connection = Connection(self._address)
        questions = (
            ("find", FindCoordinatorRequest(key=self._group), 2, "NONE"),
            ("beat", HeartbeatRequest(group_id=self._group, member_id="nobody"), 3, "UNKNOWN_MEMBER_ID"),
        )
        for what, request, version, wanted in questions:
            error = ""
            while error != wanted:
                connection.send(what, request, version)
                while not (found := list(connection.received())):
                    time.sleep(0.01)
                error = _error(found[0][1].error_code)
                time.sleep(0.05)

    def _join(self, step: Step) -> JoinGroupRequest:
        fields = step.fields
        protocols = fields.get("protocols", {"range": step.who})
        return JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=fields["session"],
            rebalance_timeout_ms=fields.get("rebalance", REBALANCE_MS),
            member_id=self._speakers.member_of(step),
            group_instance_id=fields.get("instance"),
            protocol_type=fields.get("type", "consumer"),
            protocols=[JoinGroupRequestProtocol(name=name, metadata=text.encode()) for name, text in protocols.items()],
        )

    def _join_answer(self, who: str, answer: JoinGroupResponse) -> Answer:
        error = _error(answer.error_code)
        if error == "MEMBER_ID_REQUIRED" or not answer.error_code:
            protocol = (answer.protocol_type or "consumer", answer.protocol_name)
            self._speakers.joined(who, answer.member_id, answer.generation_id, protocol)
        if answer.error_code:
            return Answer(who, "join", error, _required(error, answer.member_id))
        members = [(one.member_id, one.group_instance_id, bytes(one.metadata)) for one in answer.members]
        protocol = (answer.protocol_type or "consumer", answer.protocol_name)
        fields = joined_fields(
            answer.generation_id, protocol, answer.leader, answer.skip_assignment, answer.member_id, members
        )
        return Answer(who, "join", error, fields)

    def _sync(self, step: Step) -> SyncGroupRequest:
        fields = step.fields
        protocol_type, protocol_name = self._speakers.protocol_of(step)
        return SyncGroupRequest(
            group_id=self._group,
            generation_id=self._speakers.generation_of(step),
            member_id=self._speakers.member_of(step),
            group_instance_id=fields.get("instance"),
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=self._speakers.id_of(f"@{who}"), assignment=assignment_to(who, step)
                )
                for who in fields.get("assigned", ())
            ],
        )

    def _sync_answer(self, who: str, answer: SyncGroupResponse) -> Answer:
        if answer.error_code:
            return Answer(who, "sync", _error(answer.error_code), {})
        return Answer(who, "sync", "NONE", {"assignment": bytes(answer.assignment)})

    def _beat(self, step: Step) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self._group,
            generation_id=self._speakers.generation_of(step),
            member_id=self._speakers.member_of(step),
            group_instance_id=step.fields.get("instance"),
        )

    def _beat_answer(self, who: str, answer: HeartbeatResponse) -> Answer:
        return Answer(who, "beat", _error(answer.error_code), {})

    def _leave(self, step: Step) -> LeaveGroupRequest:
        if "version" in step.fields:
            return LeaveGroupRequest(group_id=self._group, member_id=self._speakers.member_of(step))
        members = step.fields.get("members", ((self._speakers.member_of(step), step.fields.get("instance")),))
        return LeaveGroupRequest(
            group_id=self._group,
            members=[
                MemberIdentity(member_id=self._speakers.id_of(member), group_instance_id=instance)
                for member, instance in members
            ],
        )

    def _leave_answer(self, who: str, answer: LeaveGroupResponse) -> Answer:
        members = tuple(
            (one.member_id and "m", one.group_instance_id, _error(one.error_code)) for one in answer.members
        )
        return Answer(who, "leave", _error(answer.error_code), {"members": members})

    def _commit(self, step: Step) -> OffsetCommitRequest:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        is_admin = step.who == "admin"
        return OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=-1 if is_admin else self._speakers.generation_of(step),
            member_id="" if is_admin else self._speakers.member_of(step),
            group_instance_id=step.fields.get("instance"),
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )

    def _commit_answer(self, who: str, answer: OffsetCommitResponse) -> Answer:
        return Answer(who, "commit", _error(answer.topics[0].partitions[0].error_code), {})

    def _describe(self, step: Step) -> DescribeGroupsRequest:
        return DescribeGroupsRequest(groups=[self._group])

    def _describe_answer(self, who: str, answer: DescribeGroupsResponse) -> Answer:
        group = answer.groups[0]
        members = [
            (one.member_id, one.group_instance_id, bytes(one.member_metadata), bytes(one.member_assignment))
            for one in group.members
        ]
        protocol = (group.protocol_type, group.protocol_data)
        fields = {"state": group.group_state, "protocol": protocol, "members": unordered(members)}
        return Answer(who, "describe", _error(group.error_code), fields)


def _error(code: int) -> str:
    return "NONE" if code == 0 else ERRORS[code].kafka_name


def _required(error: str, member_id: str) -> dict[str, Any]:
    return {"member": MemberId(member_id)} if error == "MEMBER_ID_REQUIRED" else {}


if __name__ == "__main__":
    sys.stdout.write(transcript(Kafka(sys.argv[1]), sys.argv[2:] or SCRIPTS))
