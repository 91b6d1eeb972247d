"""Static members (KIP-345): they come back with another id, and the one before is fenced."""

from __future__ import annotations

import pytest

from broker.groups.classic.states import GroupState
from broker.groups.group_config import GroupConfig
from penstock.errors import FencedInstanceIdError, UnknownMemberIdError, UnknownServerError
from penstock.messages.groups.classic_protocol import JoinGroupResponse, LeavingMember
from tests.support.classic_group_core import (
    DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    ClassicGroupCore,
    beat,
    join,
    leave,
    protocols,
    sync,
)


def static(core: ClassicGroupCore, *instances: str) -> list[JoinGroupResponse]:
    """A stable group of these; the first one leads."""
    tickets = [core.send(join(group_instance_id=instance)) for instance in instances]
    core.advance(DELAY_MS * (2 if len(instances) > 1 else 1))
    members = [core.joined(ticket) for ticket in tickets]
    for member in members[1:]:
        core.send(sync(member))
    core.assign(members[0])
    return members


def test_a_static_member_joins_without_being_told_its_id_first() -> None:
    core = ClassicGroupCore()
    members = static(core, "a", "b")
    assert [member.member_id for member in members] == ["a-1", "b-2"]
    assert [one.group_instance_id for one in members[0].members] == ["a", "b"]


def test_a_follower_that_comes_back_has_the_assignment_of_the_one_before() -> None:
    core = ClassicGroupCore()
    _, old = static(core, "a", "b")
    new = core.ask(join(group_instance_id="b"))
    assert (new.generation_id, new.leader, new.members, new.skip_assignment) == (1, "a-1", (), False)
    assert core.group().state is GroupState.STABLE
    assert core.ask(sync(new, group_instance_id="b")).assignment == old.member_id.encode()
    with pytest.raises(FencedInstanceIdError):
        core.ask(beat(old, group_instance_id="b"))
    with pytest.raises(UnknownMemberIdError):
        core.ask(beat(old))
    assert list(core.loaded_again().group().static_ids.items()) == [("a", "a-1"), ("b", new.member_id)]


def test_a_leader_that_comes_back_is_told_to_skip_the_assignment() -> None:
    core = ClassicGroupCore()
    static(core, "a", "b")
    new = core.ask(join(group_instance_id="a"))
    assert (new.leader, new.skip_assignment) == (new.member_id, True)
    assert {one.member_id for one in new.members} == {new.member_id, "b-2"}


def test_a_leader_that_cannot_skip_is_told_that_the_one_before_it_leads() -> None:
    core = ClassicGroupCore()
    static(core, "a", "b")
    new = core.ask(join(group_instance_id="a", may_skip_assignment=False))
    assert (new.leader, new.skip_assignment, new.members) == ("a-1", False, ())
    assert core.group().leader == new.member_id


def test_a_static_member_that_changes_the_choice_of_the_protocol_rebalances() -> None:
    core = ClassicGroupCore()
    tickets = [core.send(join(group_instance_id=one, protocols=protocols("x", "y"))) for one in ("a", "b")]
    core.advance(2 * DELAY_MS)
    core.assign(core.joined(tickets[0]))
    again = core.send(join(group_instance_id="b", protocols=protocols("y")))
    assert core.group().state is GroupState.PREPARING_REBALANCE
    core.send(join(group_instance_id="a", member_id="a-1", protocols=protocols("x", "y")))
    assert core.joined(again).protocol_name == "y"


def test_a_static_member_that_comes_back_before_the_assignment_rebalances() -> None:
    core = ClassicGroupCore()
    tickets = [core.send(join(group_instance_id=one)) for one in ("a", "b")]
    core.advance(2 * DELAY_MS)
    old = core.joined(tickets[1])
    waiting = core.send(sync(old))
    core.send(join(group_instance_id="b"))
    assert isinstance(core.answers[waiting], FencedInstanceIdError)
    assert core.group().state is GroupState.PREPARING_REBALANCE


def test_a_static_member_that_comes_back_while_its_join_waits_takes_its_place() -> None:
    core = ClassicGroupCore()
    first = core.send(join(group_instance_id="a"))
    second = core.send(join(group_instance_id="a"))
    assert isinstance(core.answers[first], FencedInstanceIdError)
    core.advance(DELAY_MS)
    assert core.joined(second).leader == core.joined(second).member_id == "a-2"


def test_a_static_member_may_be_away_for_its_sessions_time() -> None:
    core = ClassicGroupCore()
    a, _ = static(core, "a", "b")
    core.advance(SESSION_MS - 1)
    core.ask(beat(a))
    new = core.ask(join(group_instance_id="b"))
    core.advance(SESSION_MS - 2)
    core.ask(beat(a))
    core.ask(beat(new))
    core.advance(SESSION_MS - 1)
    core.ask(beat(a))
    core.advance(1)
    assert core.group().static_ids == {"a": "a-1"}


def test_a_full_group_takes_a_static_member_back() -> None:
    core = ClassicGroupCore(GroupConfig(group_max_size=2))
    static(core, "a", "b")
    assert core.ask(join(group_instance_id="b")).generation_id == 1


def test_a_known_static_member_joins_with_its_id_and_another_is_fenced() -> None:
    core = ClassicGroupCore()
    _, b = static(core, "a", "b")
    assert core.ask(join(group_instance_id="b", member_id=b.member_id)).generation_id == 1
    with pytest.raises(FencedInstanceIdError):
        core.ask(join(group_instance_id="b", member_id="a-1"))
    with pytest.raises(UnknownMemberIdError):
        core.ask(join(group_instance_id="c", member_id="a-1"))


def test_an_administrator_removes_static_members_by_their_instance() -> None:
    core = ClassicGroupCore()
    _, b = static(core, "a", "b")
    answer = core.ask(leave(LeavingMember("", "a"), LeavingMember("", "c"), LeavingMember("a-1", "b")))
    names = [None if one.error is None else one.error.kafka_name for one in answer.members]
    assert names == [None, "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"]
    assert list(core.group().members) == [b.member_id]


def test_a_static_member_that_did_not_join_stays_until_its_session_ends() -> None:
    core = ClassicGroupCore()
    a, b = static(core, "a", "b")
    again = core.send(join(group_instance_id="a", member_id=a.member_id, session_timeout_ms=300_000))
    core.advance(SESSION_MS - 1)
    assert b.member_id in core.group().members
    core.advance(1)
    assert [one.group_instance_id for one in core.joined(again).members] == ["a"]


def test_a_static_leader_that_does_not_join_gives_way_to_one_that_has() -> None:
    core = ClassicGroupCore()
    a, b = static(core, "a", "b")
    core.ask(join(group_instance_id="a", session_timeout_ms=300_000))
    again = core.send(join(group_instance_id="b", member_id=b.member_id, protocols=protocols("range", metadata=b"new")))
    core.advance(REBALANCE_MS)
    assert core.joined(again).leader == b.member_id
    assert {one.group_instance_id for one in core.joined(again).members} == {"a", "b"}
    assert a.member_id not in core.group().members


def test_a_replacement_whose_record_is_too_large_is_refused_and_fences_nobody() -> None:
    core = ClassicGroupCore()
    a, b = static(core, "a", "b")
    core.config = GroupConfig(record_bytes_max=200)
    small = core.loaded_again()
    with pytest.raises(UnknownServerError):
        small.ask(join(group_instance_id="b"))
    small.ask(beat(b, group_instance_id="b"))
    small.ask(beat(a))
