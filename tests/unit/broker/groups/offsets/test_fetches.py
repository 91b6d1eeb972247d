from __future__ import annotations

import pytest

from penstock.errors import StaleMemberEpochError
from penstock.messages.groups.offsets import OffsetFetchGroup, OffsetFetchRequest, OffsetFetchResult
from tests.support.offsets_shard import OffsetsShard, SomeGroup, SomeTopics, place


@pytest.fixture
def shard() -> OffsetsShard:
    return OffsetsShard(SomeTopics(t=3, u=1))


def test_a_fetch_tells_everything_of_the_commit(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:2": 7}, leader_epoch=4, metadata="note")
    found = shard.fetch_group(OffsetFetchGroup("g", (place("t:2"), place("t:1"))))
    assert found.partitions == (
        OffsetFetchResult(place("t:2"), offset=7, leader_epoch=4, metadata="note", commit_timestamp_ms=shard.wall_ms),
        OffsetFetchResult(place("t:1")),
    )


def test_nothing_committed_is_no_error(shard: OffsetsShard) -> None:
    assert shard.fetched("nobody", "t:0", "no:0", "t:99", "t:-1") == {"t:0": -1, "no:0": -1, "t:99": -1, "t:-1": -1}
    assert shard.fetched("nobody") == {}


def test_a_place_that_is_asked_for_twice_is_told_twice(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 7})
    found = shard.fetch_group(OffsetFetchGroup("g", (place("t:0"), place("t:0"))))
    assert [one.offset for one in found.partitions] == [7, 7]


def test_several_groups_are_answered_in_their_order_each_with_its_own_error(shard: OffsetsShard) -> None:
    shard.commit("a", {"t:0": 7})
    shard.commit("b", {"t:0": 8})
    shard.groups.groups["b"] = SomeGroup(refuses_fetch=StaleMemberEpochError())
    asked = tuple(OffsetFetchGroup(group_id, (place("t:0"),)) for group_id in ("b", "a", "none"))
    answer = shard.send(OffsetFetchRequest(asked))
    assert [group.group_id for group in answer.groups] == ["b", "a", "none"]
    assert [type(group.error) for group in answer.groups] == [StaleMemberEpochError, type(None), type(None)]
    assert [[one.offset for one in group.partitions] for group in answer.groups] == [[], [7], [-1]]


def test_the_offset_of_a_deleted_topic_is_not_told_even_before_its_tombstone(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 7, "u:0": 8})
    del shard.topics.facts["t"]
    assert shard.fetched("g", "t:0", "u:0") == {"t:0": -1, "u:0": 8}
    assert shard.fetched("g") == {"u:0": 8}


def test_a_topic_that_was_made_anew_does_not_inherit_offsets(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 7, "t:1": 8})
    shard.topics.make("t", 3)
    assert shard.fetched("g", "t:0", "t:1") == {"t:0": -1, "t:1": -1}
    shard.commit("g", {"t:1": 2})
    assert shard.fetched("g") == {"t:1": 2}
