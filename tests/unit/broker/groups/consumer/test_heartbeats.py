"""Heartbeats of dynamic members: joining, sharing, leaving, epochs and time-outs."""

from __future__ import annotations

import pytest

from penstock.errors import (
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    UnknownMemberIdError,
)
from penstock.messages.groups.consumer_protocol import TopicIdPartitions
from tests.support.consumer_groups import REBALANCE_MS, ConsumerHere, ConsumerShard, TopicsHere, settle


def shard(**topics: int) -> ConsumerShard:
    return ConsumerShard(TopicsHere(**topics))


def test_the_first_member_gets_everything_with_its_first_answer() -> None:
    here = shard(t=3)
    answer = ConsumerHere(here, "a", "t").beat()
    topic_id = here.topics.facts["t"].topic_id
    assert (answer.member_id, answer.member_epoch) == ("a", 1)
    assert answer.heartbeat_interval_ms == 5_000
    assert answer.assignment == (TopicIdPartitions(topic_id, (0, 1, 2)),)
    assert here.group().state == "Stable"


def test_a_member_that_says_nothing_new_is_told_nothing_new() -> None:
    here = shard(t=3)
    member = ConsumerHere(here, "a", "t")
    member.beat()
    written = len(here.log)
    assert member.beat().assignment is None
    assert member.beat(full=True).assignment == member.owned
    assert len(here.log) == written


def test_a_partition_is_given_only_when_its_owner_has_given_it_up() -> None:
    here = shard(t=4)
    first, second = ConsumerHere(here, "a", "t"), ConsumerHere(here, "b", "t")
    first.beat()
    first.beat()
    assert second.beat().assignment == ()
    assert here.group().state == "Reconciling"
    answer = first.beat()
    assert answer.member_epoch == 1, "it gives up first, and goes to the new epoch then"
    assert answer.assignment is not None and len(answer.assignment[0].partitions) == 2
    second.beat()
    assert second.partitions == set(), "not acknowledged yet"
    assert first.beat().member_epoch == 2
    second.beat()
    assert len(second.partitions) == 2 and first.partitions.isdisjoint(second.partitions)
    settle(first, second)
    assert here.group().state == "Stable"


def test_a_member_without_an_id_gets_one_where_the_api_allows_it() -> None:
    here = shard(t=1)
    assert ConsumerHere(here, "", "t").beat(may_make_member_id=True).member_id == "made-1"


def test_a_member_that_leaves_frees_its_partitions_at_once() -> None:
    here = shard(t=4)
    first, second = ConsumerHere(here, "a", "t"), ConsumerHere(here, "b", "t")
    first.beat()
    second.beat()
    settle(first, second)
    second.leave()
    first.beat()
    assert len(first.partitions) == 4
    first.leave()
    assert here.group().state == "Empty"
    with pytest.raises(UnknownMemberIdError):
        first.beat(member_epoch=3)


def test_another_subscription_gives_up_the_topics_that_are_not_in_it() -> None:
    here = shard(t=2, u=2)
    member = ConsumerHere(here, "a", "t")
    member.beat()
    member.subscribe("u")
    settle(member)
    assert member.partitions == {(here.topics.facts["u"].topic_id, 0), (here.topics.facts["u"].topic_id, 1)}
    assert member.subscribe().assignment == ()


def test_epochs_that_are_not_the_groups_are_fenced() -> None:
    here = shard(t=2)
    member = ConsumerHere(here, "a", "t")
    member.beat()
    with pytest.raises(FencedMemberEpochError, match="later epoch 7"):
        member.beat(member_epoch=7)
    ConsumerHere(here, "b", "t").beat()
    settle(member)
    ConsumerHere(here, "c", "t").beat()
    settle(member)
    with pytest.raises(FencedMemberEpochError, match="past epoch 1"):
        member.beat(member_epoch=1, owned_partitions=())


def test_an_answer_that_was_lost_is_given_again() -> None:
    here = shard(t=2)
    member = ConsumerHere(here, "a", "t")
    request = member.request()
    first = here.send(request)
    written = len(here.log)
    assert here.send(request) == first
    assert len(here.log) == written
    member.beat()
    ConsumerHere(here, "b", "t").beat()
    settle(member)
    assert member.epoch == 2
    assert member.beat(full=True, member_epoch=1).member_epoch == 2
    with pytest.raises(FencedMemberEpochError):
        member.beat(member_epoch=1, owned_partitions=None)
    other = TopicIdPartitions(here.topics.facts["t"].topic_id, (0, 1))
    with pytest.raises(FencedMemberEpochError):
        member.beat(member_epoch=1, owned_partitions=(other,))


def test_a_member_that_was_fenced_joins_again_with_its_id() -> None:
    here = shard(t=2)
    member = ConsumerHere(here, "a", "t")
    member.beat()
    member.subscribe("t", "u")
    member.epoch, member.owned = 0, ()
    answer = member.beat()
    assert answer.member_epoch == 2 and len(member.partitions) == 2


def test_strangers_and_unknown_groups_are_refused() -> None:
    here = shard(t=2)
    stranger = ConsumerHere(here, "x", "t")
    with pytest.raises(GroupIdNotFoundError):
        stranger.beat(member_epoch=1)
    with pytest.raises(GroupIdNotFoundError):
        stranger.leave()
    ConsumerHere(here, "a", "t").beat()
    with pytest.raises(UnknownMemberIdError):
        stranger.beat(member_epoch=1)
    with pytest.raises(UnknownMemberIdError):
        stranger.leave()


def test_a_group_has_as_many_members_as_it_may() -> None:
    here = ConsumerShard(TopicsHere(t=2), group_consumer_max_size=1)
    member = ConsumerHere(here, "a", "t")
    member.beat()
    with pytest.raises(GroupMaxSizeReachedError):
        ConsumerHere(here, "b", "t").beat()
    member.epoch, member.owned = 0, ()
    assert member.beat().member_epoch == 1


def test_a_silent_member_is_removed_after_its_session() -> None:
    here = shard(t=2)
    first, second = ConsumerHere(here, "a", "t"), ConsumerHere(here, "b", "t")
    first.beat()
    second.beat()
    settle(first, second)
    here.pass_time(44_000)
    first.beat()
    here.pass_time(1_000)
    assert list(here.group().members) == ["a"]
    settle(first)
    assert len(first.partitions) == 2


def test_a_member_that_does_not_give_up_in_time_is_removed() -> None:
    here = shard(t=2)
    first, second = ConsumerHere(here, "a", "t"), ConsumerHere(here, "b", "t")
    first.beat()
    second.beat()
    first.beat()
    for _ in range(REBALANCE_MS // 20_000):
        held = first.beat(owned_partitions=None)
        assert held.member_epoch == 1
        here.pass_time(20_000)
        if "b" in here.group().members:
            second.beat()
    assert "a" not in here.group().members
    settle(second)
    assert len(second.partitions) == 2


def test_topics_that_grow_come_and_go_are_followed() -> None:
    here = shard(t=2)
    member = ConsumerHere(here, "a", "t", "later")
    member.beat()
    here.topics.grow("t", 3)
    here.topics_changed("t")
    settle(member)
    assert len(member.partitions) == 3
    here.topics.add("later", 2)
    here.topics_changed("later")
    settle(member)
    assert len(member.partitions) == 5
    del here.topics.facts["t"]
    here.topics_changed("t")
    settle(member)
    assert len(member.partitions) == 2
    epoch = here.group().epoch
    here.topics.add("stranger", 2)
    here.topics_changed("stranger")
    settle(member)
    assert here.group().epoch == epoch


def test_a_topic_that_is_made_anew_is_another_topic() -> None:
    here = shard(t=2)
    member = ConsumerHere(here, "a", "t")
    member.beat()
    anew = here.topics.add("t", 2)
    here.topics_changed("t")
    settle(member)
    assert member.partitions == {(anew, 0), (anew, 1)}


def test_a_reload_changes_nothing_for_members_but_begins_their_sessions_anew() -> None:
    here = shard(t=4)
    first, second = ConsumerHere(here, "a", "t"), ConsumerHere(here, "b", "t")
    first.beat()
    second.beat()
    settle(first, second)
    written, before = len(here.log), here.group()
    here.pass_time(40_000)
    here.reload()
    assert here.group() == before
    here.pass_time(40_000)
    assert first.beat().assignment is None
    assert second.beat(full=True).assignment == second.owned
    assert len(here.log) == written
