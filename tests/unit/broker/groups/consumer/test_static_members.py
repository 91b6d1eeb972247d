"""Static members: they leave for a while, come back under another id, and own their instance alone (KIP-345)."""

from __future__ import annotations

import pytest

from penstock.errors import FencedInstanceIdError, UnknownMemberIdError, UnreleasedInstanceIdError
from penstock.messages.groups.consumer_protocol import LEAVES_FOR_A_WHILE
from tests.support.consumer_groups import ConsumerHere, ConsumerShard, TopicsHere, settle


def two() -> tuple[ConsumerShard, ConsumerHere, ConsumerHere]:
    here = ConsumerShard(TopicsHere(t=6))
    first, second = ConsumerHere(here, "a", "t", instance_id="one"), ConsumerHere(here, "b", "t")
    first.beat()
    second.beat()
    settle(first, second)
    return here, first, second


def test_an_instance_that_comes_back_has_its_partitions_and_moves_nobody_elses() -> None:
    here, first, second = two()
    had, epoch = first.partitions, here.group().epoch
    first.leave(LEAVES_FOR_A_WHILE)
    settle(second)
    again = ConsumerHere(here, "a2", "t", instance_id="one")
    assert again.beat().member_epoch == epoch
    assert again.partitions == had
    settle(again, second)
    assert here.group().epoch == epoch and here.group().state == "Stable"
    assert list(here.group().members) == ["b", "a2"]
    with pytest.raises(UnknownMemberIdError):
        second.beat(member_id="a")


def test_an_instance_that_comes_back_with_its_old_id_goes_on() -> None:
    here, first, _second = two()
    had, epoch = first.partitions, here.group().epoch
    first.leave(LEAVES_FOR_A_WHILE)
    assert first.beat().member_epoch == epoch
    assert first.partitions == had


def test_an_instance_that_stays_away_is_removed_after_its_session() -> None:
    here, first, second = two()
    here.pass_time(30_000)
    first.leave(LEAVES_FOR_A_WHILE)
    second.beat()
    here.pass_time(14_000)
    assert "a" in here.group().members
    second.beat()
    here.pass_time(2_000)
    settle(second)
    assert len(second.partitions) == 6


def test_an_instance_that_goes_while_it_gives_up_has_given_up() -> None:
    here, first, _second = two()
    third = ConsumerHere(here, "c", "t")
    third.beat()
    third.beat()
    first.beat()
    assert here.group().members["a"].revoking
    first.leave(LEAVES_FOR_A_WHILE)
    assert not here.group().members["a"].revoking
    here.pass_time(44_000)
    assert "a" in here.group().members, "the time to give up has no meaning any more"


def test_an_instance_belongs_to_one_member() -> None:
    here, first, _ = two()
    thief = ConsumerHere(here, "x", "t", instance_id="one")
    with pytest.raises(UnreleasedInstanceIdError):
        thief.beat()
    with pytest.raises(FencedInstanceIdError):
        thief.beat(member_epoch=2)
    with pytest.raises(FencedInstanceIdError):
        thief.leave()
    with pytest.raises(UnknownMemberIdError):
        thief.beat(member_epoch=2, instance_id="nobody's")
    first.leave(LEAVES_FOR_A_WHILE)
    thief.beat()
    with pytest.raises(FencedInstanceIdError):
        first.beat(member_epoch=2)


def test_a_known_member_does_not_take_over_an_instance() -> None:
    _here, first, second = two()
    first.leave(LEAVES_FOR_A_WHILE)
    second.epoch, second.owned, second.fields["instance_id"] = 0, (), "one"
    with pytest.raises(UnreleasedInstanceIdError):
        second.beat()


def test_a_lost_answer_to_a_static_members_join_is_given_again() -> None:
    here = ConsumerShard(TopicsHere(t=6))
    member = ConsumerHere(here, "a", "t", instance_id="one")
    request = member.request()
    assert here.send(request) == here.send(request)


def test_a_reload_keeps_instances_and_members_that_are_away() -> None:
    here, first, _second = two()
    first.leave(LEAVES_FOR_A_WHILE)
    before = here.group()
    here.reload()
    assert here.group() == before
    again = ConsumerHere(here, "a2", "t", instance_id="one")
    again.beat()
    assert len(again.partitions) == 3
