"""Promises of offsets that wait for their transactions, beside all else that may happen to a group's offsets."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from broker.groups.offsets.offset_groups import OffsetExpiry
from broker.groups.offsets.offsets_state import GroupOffsetsState
from broker.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from broker.groups.records.record_codec import decode_group_record, encode_group_record
from penstock.errors import (
    FencedInstanceIdError,
    IllegalGenerationError,
    InvalidProducerEpochError,
    OffsetMetadataTooLargeError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from tests.support.offsets_shard import DAY_MS, OffsetsShard, SomeGroup, SomeTopics

CHECK_MS = 600_000


@pytest.fixture
def shard() -> OffsetsShard:
    shard = OffsetsShard(SomeTopics(t=3, u=1))
    shard.reload()
    return shard


def test_a_place_where_an_offset_waits_does_not_expire_and_is_judged_by_itself_afterwards(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 1, "t:1": 1})
    shard.pend("g", 7, {"t:0": 5})
    shard.pass_time(8 * DAY_MS)
    assert shard.fetched("g") == {"t:0": 1}
    shard.end(7, is_committed=False)
    shard.pass_time(2 * CHECK_MS)
    assert shard.fetched("g") == {} and "g" not in shard.offsets.state


def test_an_offset_that_waited_long_is_as_old_as_its_commit(shard: OffsetsShard) -> None:
    shard.pend("g", 7, {"t:0": 5})
    shard.pass_time(8 * DAY_MS)
    shard.end(7)
    assert shard.fetched("g") == {"t:0": 5}
    shard.pass_time(2 * CHECK_MS)
    assert shard.fetched("g") == {}


def test_a_group_without_members_is_kept_while_its_only_offset_waits(shard: OffsetsShard) -> None:
    shard.groups.groups["g"] = SomeGroup(expiry=OffsetExpiry(is_empty=True), is_empty=True)
    shard.pend("g", 7, {"t:0": 5})
    shard.pass_time(30 * DAY_MS)
    assert "g" in shard.groups.groups and shard.unstable("g", "t:0") == {"t:0"}
    shard.end(7, is_committed=False)
    shard.pass_time(2 * CHECK_MS)
    assert "g" not in shard.groups.groups


def test_the_deletion_of_a_topic_ends_the_waiting_there_alone(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 1})
    shard.pend("g", 7, {"t:0": 5, "t:1": 5, "u:0": 6})
    del shard.topics.facts["t"]
    shard.topics_changed("t")
    assert shard.unstable("g", "t:0", "t:1", "u:0") == {"u:0"}
    shard.topics.make("t", 3)
    shard.end(7)
    assert shard.fetched("g") == {"u:0": 6}


def test_what_waits_in_a_topic_that_was_made_anew_is_kept_beside_what_waited_before(shard: OffsetsShard) -> None:
    shard.pend("g", 7, {"t:0": 5})
    shard.topics.make("t", 3)
    shard.pend("g", 8, {"t:0": 6})
    shard.topics_changed("t")
    shard.end(7)
    assert shard.fetched("g", "t:0") == {"t:0": -1}, "an offset of the topic that is gone"
    shard.end(8)
    assert shard.fetched("g") == {"t:0": 6}


def test_a_leader_finds_topics_that_were_deleted_while_nobody_looked(shard: OffsetsShard) -> None:
    shard.pend("g", 7, {"t:0": 5})
    del shard.topics.facts["t"]
    shard.reload()
    shard.pass_time(1_000)
    assert "g" not in shard.offsets.state


def test_several_groups_may_wait_for_one_transaction(shard: OffsetsShard) -> None:
    shard.pend("g", 7, {"t:0": 5})
    shard.pend("h", 7, {"t:0": 6, "t:1": 7})
    shard.pend("h", 8, {"t:2": 8})
    shard.end(7)
    assert (shard.fetched("g"), shard.fetched("h")) == ({"t:0": 5}, {"t:0": 6, "t:1": 7})
    assert shard.unstable("h", "t:0", "t:1", "t:2") == {"t:2"}


@pytest.mark.parametrize(
    ("offsets", "fields", "refused"),
    [
        ({"no:0": 1}, {}, UnknownTopicOrPartitionError),
        ({"t:3": 1}, {}, UnknownTopicOrPartitionError),
        ({"t:0": 1}, {"metadata": "x" * 4_097}, OffsetMetadataTooLargeError),
    ],
)
def test_a_wrong_place_is_refused_alone(
    shard: OffsetsShard, offsets: dict[str, int], fields: dict[str, str], refused: type[Exception]
) -> None:
    assert shard.pend("g", 7, offsets, **fields) == [refused]
    assert "g" not in shard.offsets.state
    if not fields:
        assert shard.pend("g", 7, {**offsets, "u:0": 2}) == [refused, None]


def test_a_producer_whose_epoch_is_over_commits_nothing(shard: OffsetsShard) -> None:
    shard.end(7, epoch=3)
    with pytest.raises(InvalidProducerEpochError):
        shard.pend("g", 7, {"t:0": 1}, epoch=2)
    assert shard.pend("g", 7, {"t:0": 1}, epoch=3) == [None]


@pytest.mark.parametrize("has_offsets", [False, True])
def test_a_member_of_no_group_commits_nothing(shard: OffsetsShard, has_offsets: bool) -> None:
    if has_offsets:
        shard.pend("g", 7, {"t:0": 1})
    with pytest.raises(UnknownMemberIdError if has_offsets else IllegalGenerationError):
        shard.pend("g", 8, {"t:0": 2}, member_epoch=3, member_id="m")
    assert shard.pend("g", 8, {"t:0": 2}, member_id="m") == [None]


def test_the_core_of_the_group_says_whether_its_member_may_commit(shard: OffsetsShard) -> None:
    shard.groups.groups["g"] = SomeGroup(refuses_commit=FencedInstanceIdError())
    with pytest.raises(FencedInstanceIdError):
        shard.pend("g", 7, {"t:0": 2}, member_epoch=3, member_id="m")
    assert "g" not in shard.offsets.state


@pytest.mark.parametrize(("groups", "producers", "places"), [(1, 1, 500), (200, 1, 1), (1, 200, 2), (5, 5, 5)])
def test_the_memory_is_estimated_within_a_fifth(groups: int, producers: int, places: int) -> None:
    written = [
        (
            group * producers + producer,
            encode_group_record(
                OffsetCommitKey(group=f"group-{group}", topic="topic", partition=producer * places + number),
                OffsetCommitValue(offset=number, commit_timestamp=1_000_000_000_000 + number, topic_id="A" * 21 + "A"),
            ),
        )
        for group in range(groups)
        for producer in range(producers)
        for number in range(places)
    ]
    gc.collect()  # it empties the interpreter's lists of free objects, whose reuse would not be traced
    tracemalloc.start()
    try:
        state = GroupOffsetsState()
        for producer_id, record in written:
            decoded = decode_group_record(*record)
            assert decoded is not None
            state.replay_pending(producer_id, *decoded)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used * 0.8 <= state.statistics().memory_bytes <= used * 1.2
