from __future__ import annotations

import pytest

from penstock.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    NonEmptyGroupError,
    UnknownTopicOrPartitionError,
)
from tests.support.offsets_shard import OffsetsShard, SomeGroup, SomeTopics


@pytest.fixture
def shard() -> OffsetsShard:
    return OffsetsShard(SomeTopics(t=3, u=1))


def test_an_offset_is_deleted_for_good(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 1, "t:1": 2, "u:0": 3})
    assert shard.delete("g", "t:0", "u:0") == [None, None]
    assert shard.fetched("g") == {"t:1": 2}
    for compacted in (False, True):
        shard.reload(compacted)
        assert shard.fetched("g") == {"t:1": 2}


def test_what_is_not_there_is_deleted_without_a_record(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 1})
    before = len(shard.log)
    assert shard.delete("g", "t:1", "t:0", "t:0") == [None, None, None]
    assert len(shard.log) == before + 1


def test_a_simple_group_is_gone_with_its_last_offset(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 1})
    shard.delete("g", "t:0")
    assert "g" not in shard.offsets.state
    with pytest.raises(GroupIdNotFoundError):
        shard.delete("g", "t:0")


def test_partitions_that_there_are_not_are_refused_alone(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 1})
    assert shard.delete("g", "no:0", "t:3", "t:-1", "t:0") == [UnknownTopicOrPartitionError] * 3 + [None]
    assert shard.fetched("g") == {}


def test_a_group_that_there_is_not_has_nothing_to_delete(shard: OffsetsShard) -> None:
    with pytest.raises(GroupIdNotFoundError):
        shard.delete("g", "t:0")


def test_what_a_live_member_reads_is_kept(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 1, "u:0": 2})
    shard.groups.groups["g"] = SomeGroup(subscribed={"t"})
    assert shard.delete("g", "t:0", "u:0") == [GroupSubscribedToTopicError, None]
    assert shard.fetched("g") == {"t:0": 1}


def test_a_group_whose_subscriptions_are_not_known_keeps_everything(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 1})
    shard.groups.groups["g"] = SomeGroup(refuses_delete=NonEmptyGroupError())
    with pytest.raises(NonEmptyGroupError):
        shard.delete("g", "t:0")
    assert shard.fetched("g") == {"t:0": 1}


def test_a_deleted_group_leaves_no_offset(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 1, "u:0": 2})
    shard.commit("h", {"t:0": 3})
    shard.offsets.delete_all(shard.turn(), "g")
    shard.offsets.delete_all(shard.turn(), "nobody")
    shard.reload()
    assert (shard.fetched("g"), shard.fetched("h")) == ({}, {"t:0": 3})
