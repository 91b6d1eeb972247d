"""SyncGroup, Heartbeat, LeaveGroup, the check of commits, and sessions."""

from __future__ import annotations

from typing import Any

import pytest

from broker.groups.classic.states import GroupState
from broker.groups.group_config import GroupConfig
from penstock.errors import (
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnknownServerError,
)
from penstock.messages.groups.classic_protocol import LeavingMember, MemberAssignment
from penstock.messages.groups.offsets import OffsetCommitRequest
from tests.support.classic_group_core import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    ClassicGroupCore,
    beat,
    join,
    leave,
    protocols,
    sync,
)


def test_a_member_without_an_assignment_gets_an_empty_one() -> None:
    core = ClassicGroupCore()
    leader, follower = core.generation(2)
    waiting = core.send(sync(follower))
    assert core.ask(sync(leader, (leader.member_id, "a stranger"))).assignment == leader.member_id.encode()
    answer = core.answers[waiting]
    assert (answer.assignment, answer.protocol_type, answer.protocol_name) == (b"", "consumer", "range")


def test_a_sync_after_the_leaders_is_answered_at_once_and_again() -> None:
    core = ClassicGroupCore()
    leader, follower = core.generation(2)
    core.assign(leader)
    for _ in range(2):
        assert core.ask(sync(follower)).assignment == follower.member_id.encode()


def test_a_second_sync_of_a_member_takes_the_place_of_the_first() -> None:
    core = ClassicGroupCore()
    leader, follower = core.generation(2)
    first, second = core.send(sync(follower)), core.send(sync(follower))
    assert isinstance(core.answers[first], RebalanceInProgressError)
    core.assign(leader)
    assert core.answers[second].assignment == follower.member_id.encode()


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"member_id": "nobody"}, UnknownMemberIdError),
        ({"member_id": ""}, UnknownMemberIdError),
        ({"group_id": "nothing"}, UnknownMemberIdError),
        ({"group_instance_id": "nobody"}, UnknownMemberIdError),
        ({"generation_id": 0}, IllegalGenerationError),
        ({"generation_id": 2}, IllegalGenerationError),
        ({"protocol_type": "connect"}, InconsistentGroupProtocolError),
        ({"protocol_name": "roundrobin"}, InconsistentGroupProtocolError),
    ],
)
def test_a_sync_that_is_not_of_this_generation_is_refused(changed: dict[str, Any], error: type[Exception]) -> None:
    core = ClassicGroupCore()
    member = core.stable(1)[0]
    with pytest.raises(error):
        core.ask(sync(member, **changed))
    assert core.ask(sync(member, protocol_type="consumer", protocol_name="range")).assignment


def test_syncs_that_wait_are_told_of_the_next_rebalance() -> None:
    core = ClassicGroupCore()
    _, follower = core.generation(2)
    waiting = core.send(sync(follower))
    core.come()
    assert isinstance(core.answers[waiting], RebalanceInProgressError)
    with pytest.raises(RebalanceInProgressError):
        core.ask(sync(follower))


def test_members_that_do_not_sync_in_time_are_dropped() -> None:
    core = ClassicGroupCore()
    leader, silent = core.generation(2, session_timeout_ms=REBALANCE_MS * 2)
    core.assign(leader)
    core.advance(REBALANCE_MS)
    assert list(core.group().members) == [leader.member_id]
    assert core.group().state is GroupState.PREPARING_REBALANCE
    with pytest.raises(UnknownMemberIdError):
        core.ask(beat(silent))


def test_a_leader_that_does_not_sync_in_time_is_dropped_and_the_others_join_again() -> None:
    core = ClassicGroupCore()
    _, follower = core.generation(2, session_timeout_ms=REBALANCE_MS * 2)
    waiting = core.send(sync(follower))
    core.advance(REBALANCE_MS)
    assert isinstance(core.answers[waiting], RebalanceInProgressError)
    assert core.joined(core.send(join(member_id=follower.member_id))).leader == follower.member_id


def test_heartbeats_keep_a_session() -> None:
    core = ClassicGroupCore()
    member = core.stable(1)[0]
    for _ in range(5):
        core.advance(SESSION_MS - 1)
        core.ask(beat(member))
    core.advance(SESSION_MS)
    assert (core.group().state, core.group().generation) == (GroupState.EMPTY, 2)


def test_a_member_whose_session_ends_makes_the_others_join_again() -> None:
    core = ClassicGroupCore()
    alive, dead = core.stable(2)
    core.advance(SESSION_MS - 1)
    core.ask(beat(alive))
    core.advance(1)
    with pytest.raises(RebalanceInProgressError):
        core.ask(beat(alive))
    with pytest.raises(UnknownMemberIdError):
        core.ask(beat(dead))


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"member_id": "nobody"}, UnknownMemberIdError),
        ({"group_id": "nothing"}, UnknownMemberIdError),
        ({"generation_id": 7}, IllegalGenerationError),
    ],
)
def test_a_heartbeat_of_a_stranger_is_refused(changed: dict[str, Any], error: type[Exception]) -> None:
    core = ClassicGroupCore()
    member = core.stable(1)[0]
    with pytest.raises(error):
        core.ask(beat(member, **changed))


def test_a_heartbeat_is_taken_before_the_leader_has_assigned() -> None:
    core = ClassicGroupCore()
    leader, follower = core.generation(2)
    core.ask(beat(follower))
    core.ask(beat(leader))


def test_members_leave_and_each_one_gets_its_own_answer() -> None:
    core = ClassicGroupCore()
    first, second, third = core.stable(3)
    answer = core.ask(leave(second, LeavingMember("nobody"), LeavingMember(""), first))
    errors = [type(one.error) for one in answer.members]
    assert errors == [type(None), UnknownMemberIdError, UnknownMemberIdError, type(None)]
    assert core.group().leader == third.member_id
    assert core.group().state is GroupState.PREPARING_REBALANCE


def test_a_leave_that_removes_nobody_changes_nothing() -> None:
    core = ClassicGroupCore()
    core.stable(1)
    core.ask(leave(LeavingMember("nobody")))
    assert core.group().state is GroupState.STABLE
    nobody = ClassicGroupCore().ask(leave(LeavingMember("nobody"))).members[0]
    assert isinstance(nobody.error, UnknownMemberIdError)


def test_an_id_that_was_handed_out_may_leave_and_the_round_goes_on() -> None:
    core = ClassicGroupCore()
    member = core.stable(1)[0]
    pending = core.ask(join()).member_id
    again = core.send(join(member_id=member.member_id))
    assert again not in core.answers
    core.ask(leave(LeavingMember(pending)))
    assert core.joined(again).generation_id == 2


def test_the_last_member_leaves_an_empty_generation_in_the_log() -> None:
    core = ClassicGroupCore()
    core.ask(leave(*core.stable(1)))
    again = core.loaded_again().group()
    assert (again.state, again.generation, again.protocol_type) == (GroupState.EMPTY, 2, "consumer")


def commit(**changed: Any) -> OffsetCommitRequest:
    return OffsetCommitRequest(GROUP, (), **changed)


def check_commit(core: ClassicGroupCore, **changed: Any) -> None:
    core.core.check_commit(core.turn(), core.group(), commit(**changed))


def test_members_commit_in_their_generation_until_the_next_one_begins() -> None:
    core = ClassicGroupCore()
    leader, follower = core.stable(2)
    mine: dict[str, Any] = {"member_id": leader.member_id, "member_epoch": 1}
    check_commit(core, **mine)
    with pytest.raises(IllegalGenerationError):
        check_commit(core, member_id=leader.member_id, member_epoch=0)
    with pytest.raises(UnknownMemberIdError):
        check_commit(core, member_id="nobody", member_epoch=1)
    with pytest.raises(UnknownMemberIdError):
        check_commit(core)
    core.send(join(member_id=follower.member_id, protocols=protocols("range")))
    check_commit(core, **mine)
    core.send(join(member_id=leader.member_id))
    assert core.group().state is GroupState.COMPLETING_REBALANCE
    with pytest.raises(IllegalGenerationError):
        check_commit(core, **mine)
    with pytest.raises(RebalanceInProgressError):
        check_commit(core, member_id=leader.member_id, member_epoch=2)


def test_an_empty_group_takes_the_commit_of_an_administrator_and_not_of_a_former_member() -> None:
    core = ClassicGroupCore()
    member = core.stable(1)[0]
    core.ask(leave(member))
    check_commit(core)
    with pytest.raises(UnknownMemberIdError):
        check_commit(core, member_id=member.member_id, member_epoch=1)


def test_a_commit_is_a_sign_of_life() -> None:
    core = ClassicGroupCore()
    member = core.stable(1)[0]
    core.advance(SESSION_MS - 1)
    check_commit(core, member_id=member.member_id, member_epoch=1)
    core.advance(SESSION_MS - 1)
    core.ask(beat(member))


def test_a_group_whose_record_is_too_large_tells_its_members_and_is_as_before_in_the_log() -> None:
    core = ClassicGroupCore(GroupConfig(record_bytes_max=2_000))
    leader, follower = core.generation(2)
    records = len(core.log)
    waiting = core.send(sync(follower))
    large = (MemberAssignment(follower.member_id, b"x" * 2_000),)
    asked = core.send(sync(leader, assignments=large))
    assert isinstance(core.answers[waiting], UnknownServerError)
    assert isinstance(core.answers[asked], UnknownServerError)
    assert "2 members" in str(core.answers[asked])
    assert (core.group().state, len(core.log)) == (GroupState.PREPARING_REBALANCE, records)
    for member in leader, follower:
        last = core.send(join(member_id=member.member_id))
    core.assign(core.joined(last - 1))
    assert core.group().state is GroupState.STABLE


def test_a_stable_group_goes_on_after_a_load() -> None:
    core = ClassicGroupCore()
    alive, dead = core.stable(2)
    again = core.loaded_again()
    again.advance(SESSION_MS - 1)
    again.ask(beat(alive))
    assert again.ask(sync(alive)).assignment == alive.member_id.encode()
    again.advance(1)
    with pytest.raises(UnknownMemberIdError):
        again.ask(beat(dead))


def test_a_round_is_lost_with_the_lead() -> None:
    core = ClassicGroupCore()
    leader, follower = core.stable(2)
    waiting = core.send(join(member_id=leader.member_id))
    again = core.loaded_again()
    assert again.group().state is GroupState.STABLE
    again.ask(beat(follower))
    (ticket, error), *others = core.core.unloaded()
    assert (ticket, error.kafka_name, others) == (waiting, "NOT_COORDINATOR", [])


def test_a_deleted_group_has_no_timers_and_no_record() -> None:
    core = ClassicGroupCore()
    core.ask(leave(*core.stable(1)))
    core.ask(join())
    turn = core.turn()
    core.core.delete(turn, core.group())
    core.end(turn)
    assert (core.groups, len(core.timers), core.log[-1][1]) == ({}, 0, None)
    assert core.loaded_again().groups == {}
