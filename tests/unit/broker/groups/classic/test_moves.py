"""A classic group becomes one of the consumer protocol, and comes back: the part that the classic core has in it."""

from __future__ import annotations

import pytest

from broker.groups.classic.states import GroupState
from broker.groups.records.classic_records import GroupMetadataKey
from penstock.errors import RebalanceInProgressError
from tests.support.classic_group_core import (
    CLIENT,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    ClassicGroupCore,
    beat,
    join,
    protocols,
    sync,
)


def test_a_group_that_is_released_has_no_timer_and_nobody_waits_in_it() -> None:
    core = ClassicGroupCore()
    members = core.stable(2)
    core.ask(join())
    waiting = core.send(join(member_id=members[0].member_id))
    turn = core.turn()
    core.core.released(turn, core.group())
    turn.write(GroupMetadataKey(group=GROUP), None)
    core.end(turn)
    assert isinstance(core.answers[waiting], RebalanceInProgressError)
    assert (len(core.timers), core.groups) == (0, {})


def test_syncs_wait_no_more_in_a_group_that_is_released() -> None:
    core = ClassicGroupCore()
    _, follower = core.generation(2)
    waiting = core.send(sync(follower))
    turn = core.turn()
    core.core.released(turn, core.group())
    core.end(turn)
    assert isinstance(core.answers[waiting], RebalanceInProgressError)


def test_a_group_that_is_adopted_rebalances_with_the_protocols_that_its_members_told() -> None:
    core = ClassicGroupCore()
    leader, follower = core.stable(2)
    adopted = core.loaded_again()
    turn = adopted.turn()
    named = {leader.member_id: protocols("range", "rr"), follower.member_id: protocols("rr", "range")}
    adopted.core.adopted(turn, adopted.group(), named)
    adopted.end(turn)
    assert adopted.group().state is GroupState.PREPARING_REBALANCE
    assert adopted.group().support == {"range": 2, "rr": 2}
    with pytest.raises(RebalanceInProgressError):
        adopted.ask(beat(leader))
    again = adopted.send(join(member_id=leader.member_id, protocols=protocols("rr")), CLIENT)
    adopted.send(join(member_id=follower.member_id, protocols=protocols("rr")), CLIENT)
    assert adopted.joined(again).protocol_name == "rr"


def test_a_member_of_an_adopted_group_that_is_not_heard_is_dropped() -> None:
    core = ClassicGroupCore()
    leader, follower = core.stable(2)
    adopted = core.loaded_again()
    turn = adopted.turn()
    adopted.core.adopted(turn, adopted.group())
    adopted.end(turn)
    again = adopted.send(join(member_id=leader.member_id))
    adopted.advance(max(SESSION_MS, REBALANCE_MS))
    assert [one.member_id for one in adopted.joined(again).members] == [leader.member_id]
    assert follower.member_id not in adopted.group().members
