"""JoinGroup of dynamic members: ids, the initial delay, rounds that wait, the choice of protocol and leader."""

from __future__ import annotations

import pytest

from broker.groups.classic import rounds
from broker.groups.classic.states import GroupState
from broker.groups.group_config import GroupConfig
from penstock.errors import (
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from penstock.messages.groups.classic_protocol import LeavingMember
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


def test_a_member_without_an_id_gets_one_and_joins_with_it() -> None:
    core = ClassicGroupCore()
    answer = core.ask(join())
    assert isinstance(answer.error, MemberIdRequiredError)
    assert answer.member_id == "app-1"
    assert list(core.group().pending) == ["app-1"]
    core.send(join(member_id="app-1"))
    assert not core.group().pending
    assert list(core.group().members) == ["app-1"]


def test_an_old_client_joins_without_being_told_its_id_first() -> None:
    core = ClassicGroupCore()
    ticket = core.send(join(requires_known_member_id=False))
    core.advance(DELAY_MS)
    assert core.joined(ticket).member_id == "app-1"


def test_an_id_that_is_not_used_within_the_session_is_forgotten() -> None:
    core = ClassicGroupCore()
    core.ask(join())
    core.advance(SESSION_MS)
    with pytest.raises(UnknownMemberIdError):
        core.ask(join(member_id="app-1"))
    assert not core.group().pending


def test_the_oldest_id_that_was_not_used_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "PENDING_MAX", 2)
    core = ClassicGroupCore()
    for _ in range(3):
        core.ask(join())
    with pytest.raises(UnknownMemberIdError):
        core.ask(join(member_id="app-1"))
    core.send(join(member_id="app-2"))
    assert list(core.group().pending) == ["app-3"]


def test_a_round_waits_for_an_id_that_was_handed_out() -> None:
    core = ClassicGroupCore()
    member = core.stable(1)[0]
    core.ask(join())  # an id, and no join yet
    again = core.send(join(member_id=member.member_id))
    core.advance(SESSION_MS - 1)
    assert again not in core.answers
    core.advance(1)
    assert core.joined(again).generation_id == 2


def test_the_first_round_is_put_off_while_members_come() -> None:
    core = ClassicGroupCore()
    first = core.come()
    core.advance(DELAY_MS - 1)
    second = core.come()
    core.advance(1)
    assert first not in core.answers
    core.advance(DELAY_MS)
    assert {core.joined(first).generation_id, core.joined(second).generation_id} == {1}
    assert [one.member_id for one in core.joined(first).members] == ["app-1", "app-2"]
    assert core.joined(second).members == ()
    assert core.joined(second).leader == "app-1"


def test_the_first_round_is_put_off_up_to_the_rebalance_timeout() -> None:
    core = ClassicGroupCore()
    first = core.come(rebalance_timeout_ms=7_000)
    passed = 0
    while first not in core.answers:
        core.send(join(requires_known_member_id=False, rebalance_timeout_ms=7_000))
        core.advance(1_000)
        passed += 1_000
    assert passed == 7_000


def test_the_protocol_with_the_most_votes_among_the_common_ones_wins() -> None:
    core = ClassicGroupCore()
    tickets = [
        core.come(protocols=protocols("a", "b", "c")),
        core.come(protocols=protocols("b", "c")),
        core.come(protocols=protocols("c", "b", "a")),
        core.come(protocols=protocols("x", "c", "b")),
    ]
    core.advance(3 * DELAY_MS)
    assert {core.joined(ticket).protocol_name for ticket in tickets} == {"b"}  # a and x are not common; b and c: 2 each


def test_a_member_without_a_common_protocol_is_refused() -> None:
    core = ClassicGroupCore()
    core.come(protocols=protocols("a", "b"))
    core.come(protocols=protocols("b"))
    for bad in (
        {"protocols": protocols("a")},
        {"protocols": ()},
        {"protocol_type": "connect"},
        {"protocol_type": ""},
    ):
        with pytest.raises(InconsistentGroupProtocolError):
            core.ask(join(**bad))


@pytest.mark.parametrize("bad", [{"protocols": ()}, {"protocol_type": ""}])
def test_a_first_member_without_protocol_makes_no_group(bad: dict[str, object]) -> None:
    core = ClassicGroupCore()
    with pytest.raises(InconsistentGroupProtocolError):
        core.ask(join(**bad))
    assert not core.groups
    assert not core.log


@pytest.mark.parametrize("timeout_ms", [-1, 0, 5_999, 1_800_001])
def test_a_session_timeout_outside_of_the_bounds_is_refused(timeout_ms: int) -> None:
    with pytest.raises(InvalidSessionTimeoutError, match=r"group\.min\.session\.timeout\.ms"):
        ClassicGroupCore().ask(join(session_timeout_ms=timeout_ms))


def test_an_id_that_nobody_was_given_is_unknown() -> None:
    core = ClassicGroupCore()
    with pytest.raises(UnknownMemberIdError):
        core.ask(join(member_id="app-7"))
    assert not core.groups
    core.stable(1)
    with pytest.raises(UnknownMemberIdError):
        core.ask(join(member_id="app-7"))


def test_a_group_has_group_max_size_members_at_most() -> None:
    core = ClassicGroupCore(GroupConfig(group_max_size=2))
    members = core.stable(2)
    with pytest.raises(GroupMaxSizeReachedError):
        core.ask(join())
    core.send(join(member_id=members[0].member_id))  # the leader wants a rebalance
    quicker = core.send(join(requires_known_member_id=False))  # there is room in this round
    with pytest.raises(GroupMaxSizeReachedError):
        core.ask(join(member_id=members[1].member_id))
    assert core.joined(quicker).generation_id == 2  # this round waited for the one that had to go
    assert len(core.group().members) == 2


def test_a_leader_that_joins_again_rebalances_and_a_follower_is_told_the_generation() -> None:
    core = ClassicGroupCore()
    leader, follower = core.stable(2)
    same = core.ask(join(member_id=follower.member_id))
    assert (same.generation_id, same.members) == (1, ())
    assert core.group().state is GroupState.STABLE
    again = core.send(join(member_id=leader.member_id))
    assert core.group().state is GroupState.PREPARING_REBALANCE
    with pytest.raises(RebalanceInProgressError):
        core.ask(beat(follower))
    core.send(join(member_id=follower.member_id))
    assert core.joined(again).generation_id == 2


def test_a_follower_with_other_protocols_rebalances() -> None:
    core = ClassicGroupCore()
    _, follower = core.stable(2)
    core.send(join(member_id=follower.member_id, protocols=protocols("range", metadata=b"another")))
    assert core.group().state is GroupState.PREPARING_REBALANCE


def test_a_lost_answer_is_given_again_before_the_leader_has_assigned() -> None:
    core = ClassicGroupCore()
    leader, follower = core.generation(2)
    assert core.ask(join(member_id=leader.member_id)) == leader
    assert core.ask(join(member_id=follower.member_id)) == follower
    assert core.group().state is GroupState.COMPLETING_REBALANCE


def test_a_second_join_of_a_member_takes_the_place_of_the_first() -> None:
    core = ClassicGroupCore()
    first = core.come()
    second = core.send(join(member_id="app-1"))
    assert isinstance(core.answers[first], RebalanceInProgressError)
    core.advance(DELAY_MS)
    assert core.joined(second).generation_id == 1


def test_a_member_that_does_not_join_in_time_is_dropped() -> None:
    core = ClassicGroupCore()
    leader, follower = core.stable(2, session_timeout_ms=REBALANCE_MS * 2)
    again = core.send(join(member_id=follower.member_id, protocols=protocols("range")))
    core.advance(REBALANCE_MS - 1)
    assert again not in core.answers
    core.advance(1)
    assert core.joined(again).leader == follower.member_id
    with pytest.raises(UnknownMemberIdError):
        core.ask(beat(leader))


def test_a_round_waits_for_the_longest_rebalance_timeout() -> None:
    core = ClassicGroupCore()
    core.come(rebalance_timeout_ms=20_000)
    core.come(rebalance_timeout_ms=90_000)
    assert core.group().rebalance_timeout_ms == 90_000


def test_a_member_that_waits_needs_no_heartbeat_but_a_new_one_is_dropped_at_last() -> None:
    core = ClassicGroupCore()
    leader, _ = core.stable(2, rebalance_timeout_ms=2_000_000, session_timeout_ms=1_800_000)
    waiting = core.send(join(member_id=leader.member_id, session_timeout_ms=SESSION_MS))
    new = core.send(join(requires_known_member_id=False, session_timeout_ms=SESSION_MS))
    core.advance(299_999)
    assert new not in core.answers
    core.advance(1)
    assert isinstance(core.answers[new], UnknownMemberIdError)
    assert waiting not in core.answers


def test_members_that_all_leave_during_the_first_round_leave_an_empty_generation() -> None:
    core = ClassicGroupCore()
    ticket = core.come()
    core.ask(leave(*[LeavingMember(one) for one in core.group().members]))
    assert isinstance(core.answers[ticket], UnknownMemberIdError)
    core.advance(DELAY_MS)
    assert (core.group().state, core.group().generation) == (GroupState.EMPTY, 1)


def test_a_group_over_its_size_after_a_load_rebalances() -> None:
    core = ClassicGroupCore()
    core.stable(3)
    core.config = GroupConfig(group_max_size=2)
    assert core.loaded_again().group().state is GroupState.PREPARING_REBALANCE


def test_a_group_that_was_asked_before_its_sessions_began_is_loaded_all_the_same() -> None:
    core = ClassicGroupCore()
    leader, _, third = core.stable(3)
    core.config = GroupConfig(group_max_size=2)
    loaded = core.replayed()
    again = loaded.send(join(member_id=leader.member_id, session_timeout_ms=2 * REBALANCE_MS))
    new = loaded.send(join(requires_known_member_id=False))
    turn = loaded.turn()
    loaded.core.loaded(turn, loaded.groups.values())
    loaded.end(turn)
    assert loaded.group().state is GroupState.PREPARING_REBALANCE
    loaded.advance(SESSION_MS)
    assert {one.member_id for one in loaded.joined(again).members} == {leader.member_id, loaded.joined(new).member_id}
    with pytest.raises(UnknownMemberIdError):
        loaded.ask(beat(third))


def test_the_requests_of_a_round_are_each_answered_once() -> None:
    core = ClassicGroupCore()
    members = core.generation(3)
    syncs = [core.send(sync(one)) for one in members[1:]]
    assert not any(ticket in core.answers for ticket in syncs)
    core.assign(members[0])
    assert [core.answers[ticket].assignment for ticket in syncs] == [one.member_id.encode() for one in members[1:]]
