"""Promises of the classic protocol of groups at Kafka's listener: each version asks and is answered as it can be."""

from __future__ import annotations

from typing import Any

import pytest

from broker.kafka.api_row import failed_answer
from broker.kafka.apis.groups.classic_members import heartbeat, join_group, leave_group, sync_group
from broker.kafka.schemas.groups.classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from penstock.errors import (
    ApiError,
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    MemberIdRequiredError,
    NotCoordinatorError,
    RequestTimedOutError,
    UnknownMemberIdError,
)
from penstock.messages.client_apis import NAMES_MAX
from penstock.messages.groups import classic_protocol as messages
from tests.support.kafka_plans import asked, ended, first_ask, parts_of, read_by_client
from tests.support.kafka_rows import GROUPS, rows_over

ROWS = {row.name: row for row in rows_over(parts_of(), *GROUPS)}


def join(version: int, **fields: Any) -> JoinGroupRequest:
    given = {"group_id": "g", "session_timeout_ms": 10_000, "protocol_type": "consumer", **fields}
    if version >= 1:
        given.setdefault("rebalance_timeout_ms", 60_000)
    protocols = [JoinGroupRequestProtocol(name="range", metadata=memoryview(b"\x00\x01"))]
    return JoinGroupRequest(**{"protocols": protocols, **given})


@pytest.mark.parametrize("version", range(10))
def test_a_join_says_what_its_version_knows(version: int) -> None:
    body = first_ask(join_group(asked(version), join(version, member_id="m")), "JoinGroup")
    assert (body.group_id, body.session_timeout_ms, body.member_id) == ("g", 10_000, "m")
    assert body.rebalance_timeout_ms == (60_000 if version >= 1 else 10_000)
    assert body.protocols == (messages.JoinGroupProtocol("range", b"\x00\x01"),)
    assert type(body.protocols[0].metadata) is bytes  # it outlives the frame
    assert body.requires_known_member_id == (version >= 4)
    assert body.may_skip_assignment == (version >= 9)


def test_a_static_member_says_its_instance_and_why_it_joins() -> None:
    body = first_ask(join_group(asked(9), join(9, group_instance_id="i", reason="bored")), "JoinGroup")
    assert (body.group_instance_id, body.reason) == ("i", "bored")


@pytest.mark.parametrize("version", range(10))
def test_the_leader_of_a_generation_gets_the_members(version: int) -> None:
    plan = join_group(asked(version), join(version, member_id="m"))
    next(plan)
    joined = messages.JoinGroupResponse(
        "m", 7, "consumer", "range", "m", version >= 9, (messages.JoinedMember("m", b"\x00\x01", "i"),)
    )
    read = read_by_client(ended(plan, joined), version)
    assert (read.error_code, read.generation_id, read.protocol_name, read.leader) == (0, 7, "range", "m")
    assert read.protocol_type == ("consumer" if version >= 7 else None)
    assert read.skip_assignment == (version >= 9)
    (member,) = read.members
    assert (member.member_id, bytes(member.metadata)) == ("m", b"\x00\x01")
    assert member.group_instance_id == ("i" if version >= 5 else None)


@pytest.mark.parametrize("version", range(4, 10))
def test_a_member_gets_its_id_with_the_error_that_asks_for_it(version: int) -> None:
    plan = join_group(asked(version), join(version))
    next(plan)
    read = read_by_client(ended(plan, messages.JoinGroupResponse("new", error=MemberIdRequiredError())), version)
    assert (read.error_code, read.member_id, read.generation_id, read.members) == (79, "new", -1, [])
    assert read.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", range(10))
@pytest.mark.parametrize(("error", "code"), [(InvalidGroupIdError(), 24), (RequestTimedOutError(), 15)])
def test_a_join_that_fails_as_a_whole_is_answered_in_its_version(version: int, error: ApiError, code: int) -> None:
    body = join(version, member_id="m")
    read = read_by_client(failed_answer(ROWS["JoinGroup"], asked(version), body, error), version)
    assert (read.error_code, read.member_id, read.generation_id, read.leader) == (code, "m", -1, "")


def sync(version: int, **fields: Any) -> SyncGroupRequest:
    given = {"group_id": "g", "generation_id": 7, "member_id": "m", **fields}
    if version >= 5:
        given = {"protocol_type": "consumer", "protocol_name": "range", **given}
    return SyncGroupRequest(**given)


@pytest.mark.parametrize("version", range(6))
def test_a_sync_brings_the_assignments_of_the_leader_and_gets_its_own(version: int) -> None:
    some = [SyncGroupRequestAssignment(member_id="n", assignment=memoryview(b"\x02"))]
    plan = sync_group(asked(version), sync(version, assignments=some))
    body = first_ask(plan, "SyncGroup")
    assert (body.generation_id, body.member_id) == (7, "m")
    assert body.assignments == (messages.MemberAssignment("n", b"\x02"),)
    read = read_by_client(ended(plan, messages.SyncGroupResponse(b"\x01", "consumer", "range")), version)
    assert (read.error_code, bytes(read.assignment)) == (0, b"\x01")
    assert read.protocol_name == ("range" if version >= 5 else None)


@pytest.mark.parametrize("left_out", ["protocol_type", "protocol_name"])
def test_a_sync_of_a_version_that_must_name_the_protocol_is_refused_without_it(left_out: str) -> None:
    with pytest.raises(InconsistentGroupProtocolError):
        next(sync_group(asked(5), sync(5, **{left_out: None})))


@pytest.mark.parametrize("version", range(6))
def test_a_sync_that_fails_has_no_assignment(version: int) -> None:
    read = read_by_client(
        failed_answer(ROWS["SyncGroup"], asked(version), sync(version), NotCoordinatorError()), version
    )
    assert (read.error_code, bytes(read.assignment)) == (16, b"")


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_is_answered(version: int) -> None:
    instance = {"group_instance_id": "i"} if version >= 3 else {}
    request = HeartbeatRequest(group_id="g", generation_id=7, member_id="m", **instance)
    plan = heartbeat(asked(version), request)
    assert first_ask(plan, "Heartbeat") == messages.HeartbeatRequest("g", 7, "m", instance.get("group_instance_id"))
    assert read_by_client(ended(plan, messages.HeartbeatResponse()), version).error_code == 0
    failed = failed_answer(ROWS["Heartbeat"], asked(version), request, FencedInstanceIdError())
    assert read_by_client(failed, version).error_code == 82


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(("error", "code"), [(None, 0), (UnknownMemberIdError(), 25)])
def test_the_error_of_the_only_member_is_that_of_the_request(version: int, error: ApiError | None, code: int) -> None:
    plan = leave_group(asked(version), LeaveGroupRequest(group_id="g", member_id="m"))
    assert first_ask(plan, "LeaveGroup").members == (messages.LeavingMember("m"),)
    left = messages.LeaveGroupResponse((messages.LeftMember("m", None, error),))
    assert read_by_client(ended(plan, left), version).error_code == code


@pytest.mark.parametrize("version", range(3, 6))
def test_each_of_many_members_that_leave_has_its_error(version: int) -> None:
    members = [MemberIdentity(member_id="m"), MemberIdentity(member_id="", group_instance_id="i")]
    plan = leave_group(asked(version), LeaveGroupRequest(group_id="g", members=members))
    assert first_ask(plan, "LeaveGroup").members == (
        messages.LeavingMember("m"),
        messages.LeavingMember("", "i"),
    )
    left = (messages.LeftMember("m", None, UnknownMemberIdError()), messages.LeftMember("", "i"))
    read = read_by_client(ended(plan, messages.LeaveGroupResponse(left)), version)
    assert read.error_code == 0
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in read.members] == [
        ("m", None, 25),
        ("", "i", 0),
    ]
    failed = failed_answer(
        ROWS["LeaveGroup"], asked(version), LeaveGroupRequest(group_id="", members=members), InvalidGroupIdError()
    )
    read = read_by_client(failed, version)
    assert (read.error_code, read.members) == (24, [])


def test_many_members_leave_in_turns() -> None:
    members = [MemberIdentity(member_id=f"m{n}") for n in range(NAMES_MAX + 1)]
    plan = leave_group(asked(5), LeaveGroupRequest(group_id="g", members=members))
    first = first_ask(plan, "LeaveGroup").members
    left = tuple(messages.LeftMember(one.member_id) for one in first)
    second = plan.send(messages.LeaveGroupResponse(left)).body.members
    assert (len(first), [one.member_id for one in second]) == (NAMES_MAX, [f"m{NAMES_MAX}"])
    read = read_by_client(ended(plan, messages.LeaveGroupResponse((messages.LeftMember(f"m{NAMES_MAX}"),))), 5)
    assert [one.member_id for one in read.members] == [one.member_id for one in members]


def test_a_request_in_which_nobody_leaves_is_asked_too() -> None:
    plan = leave_group(asked(5), LeaveGroupRequest(group_id="g"))
    assert first_ask(plan, "LeaveGroup").members == ()
    assert read_by_client(ended(plan, messages.LeaveGroupResponse()), 5).error_code == 0
