from __future__ import annotations

from typing import Any

import pytest

from broker.groups.offsets.topic_offsets import StoredOffset
from penstock.errors import (
    FencedInstanceIdError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    InvalidCommitOffsetSizeError,
    OffsetMetadataTooLargeError,
    UnknownMemberIdError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from tests.support.offsets_shard import OffsetsShard, SomeGroup, SomeTopics

UNKNOWN_ID = "z" * 21 + "A"


@pytest.fixture
def shard() -> OffsetsShard:
    return OffsetsShard(SomeTopics(t=3, u=1))


def test_an_offset_is_kept_with_all_that_was_said_of_it(shard: OffsetsShard) -> None:
    assert shard.commit("g", {"t:0": 7, "u:0": 9}, leader_epoch=4, metadata="note") == [None, None]
    assert shard.offsets.state.get("g", "t", 0) == StoredOffset(
        7, 4, "note", shard.wall_ms, topic_id=shard.topics.id("t")
    )
    assert shard.fetched("g") == {"t:0": 7, "u:0": 9}

    shard.reload()
    assert shard.offsets.state.get("g", "t", 0) == StoredOffset(
        7, 4, "note", shard.wall_ms, topic_id=shard.topics.id("t")
    )


def test_the_last_commit_counts_also_within_one_request_and_if_it_goes_back(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 7})
    shard.commit("g", {"t:0": 5})
    assert shard.fetched("g") == {"t:0": 5}


@pytest.mark.parametrize("offset", [0, (1 << 63) - 1])
def test_the_first_and_the_last_offset_that_there_may_be(shard: OffsetsShard, offset: int) -> None:
    assert shard.commit("g", {"t:0": offset}) == [None]
    assert shard.fetched("g") == {"t:0": offset}


@pytest.mark.parametrize("offset", [-1, -2, -(1 << 63)])
def test_an_offset_below_0_is_kept_as_kafkas_clients_mean_it(shard: OffsetsShard, offset: int) -> None:
    """kafkajs commits -1 or -2 for "the end" or "the start", and reads it back."""
    shard.commit("g", {"t:0": 7})
    assert shard.commit("g", {"t:0": offset, "u:0": 3}) == [None, None]
    assert shard.fetched("g") == {"t:0": offset, "u:0": 3}
    shard.reload()
    assert shard.fetched("g") == {"t:0": offset, "u:0": 3}


def test_a_topic_is_found_by_its_id(shard: OffsetsShard) -> None:
    assert shard.commit("g", {"t:1": 3}, topic_id=shard.topics.id("t")) == [None]
    assert shard.fetched("g") == {"t:1": 3}


def test_a_time_of_expiry_is_the_clients_own_and_leaves_no_room_for_the_rest(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 7}, retention_ms=1_000, leader_epoch=4)
    committed = shard.offsets.state.get("g", "t", 0)
    assert committed == StoredOffset(7, commit_ms=shard.wall_ms, expire_ms=shard.wall_ms + 1_000)
    shard.commit("g", {"t:0": 7}, retention_ms=(1 << 63) - 1)
    committed = shard.offsets.state.get("g", "t", 0)
    assert committed is not None
    assert committed.expire_ms == (1 << 63) - 1


@pytest.mark.parametrize(
    ("offsets", "request_fields", "refused"),
    [
        ({"no:0": 1}, {}, UnknownTopicOrPartitionError),
        ({"t:3": 1}, {}, UnknownTopicOrPartitionError),
        ({"t:-1": 1}, {}, UnknownTopicOrPartitionError),
        ({"t:0": 1}, {"topic_id": UNKNOWN_ID}, UnknownTopicIdError),
        ({"t:0": 1}, {"metadata": "x" * 4_097}, OffsetMetadataTooLargeError),
        ({"t:0": 1}, {"metadata": "🙂" * 2_049}, OffsetMetadataTooLargeError),
    ],
)
def test_a_wrong_partition_is_refused_alone(
    shard: OffsetsShard, offsets: dict[str, int], request_fields: dict[str, Any], refused: type[Exception]
) -> None:
    assert shard.commit("g", offsets, **request_fields) == [refused]
    assert shard.fetched("g") == {}
    if not request_fields:
        assert shard.commit("g", {**offsets, "u:0": 2}) == [refused, None]
        assert shard.fetched("g") == {"u:0": 2}


@pytest.mark.parametrize("metadata", ["x" * 4_096, "é" * 4_096, "🙂" * 2_048])
def test_metadata_may_have_as_many_characters_as_kafka_takes(shard: OffsetsShard, metadata: str) -> None:
    assert shard.commit("g", {"t:0": 1}, metadata=metadata) == [None]


def test_metadata_that_no_string_of_the_record_holds_is_refused_whatever_the_key_says() -> None:
    shard = OffsetsShard(SomeTopics(t=1), offset_metadata_max_bytes=100_000)
    assert shard.commit("g", {"t:0": 1}, metadata="x" * 32_767) == [None]
    assert shard.commit("g", {"t:0": 1}, metadata="é" * 16_384) == [OffsetMetadataTooLargeError]


def test_a_record_that_no_batch_holds_is_refused() -> None:
    shard = OffsetsShard(SomeTopics(t=1), record_bytes_max=1_500)
    assert shard.commit("g", {"t:0": 1}, metadata="x" * 1_000) == [None]
    assert shard.commit("g", {"t:0": 1}, metadata="x" * 2_000) == [InvalidCommitOffsetSizeError]


@pytest.mark.parametrize(
    ("has_offsets", "request_fields", "refused"),
    [
        (False, {"member_epoch": 3, "member_id": "m"}, GroupIdNotFoundError),
        (False, {"member_epoch": 0, "member_id": "m"}, GroupIdNotFoundError),
        (False, {"member_epoch": 3, "member_id": "m", "knows_stale_epoch": False}, IllegalGenerationError),
        (True, {"member_epoch": 3, "member_id": "m"}, UnknownMemberIdError),
        (True, {"member_epoch": 3, "member_id": "m", "knows_stale_epoch": False}, UnknownMemberIdError),
    ],
)
def test_a_member_of_no_group_may_not_commit(
    shard: OffsetsShard, has_offsets: bool, request_fields: dict[str, Any], refused: type[Exception]
) -> None:
    if has_offsets:
        shard.commit("g", {"t:0": 1})
    with pytest.raises(refused):
        shard.commit("g", {"t:0": 2}, **request_fields)


@pytest.mark.parametrize("request_fields", [{}, {"member_epoch": -7}, {"member_id": "m"}, {"group_instance_id": "i"}])
def test_who_commits_without_a_generation_makes_a_simple_group(
    shard: OffsetsShard, request_fields: dict[str, Any]
) -> None:
    assert shard.commit("g", {"t:0": 1}, **request_fields) == [None]
    assert "g" in shard.offsets.state


def test_the_core_of_the_group_says_whether_its_members_may_commit(shard: OffsetsShard) -> None:
    shard.groups.groups["g"] = SomeGroup(refuses_commit=FencedInstanceIdError())
    with pytest.raises(FencedInstanceIdError):
        shard.commit("g", {"t:0": 2}, member_epoch=3, member_id="m")

    shard.groups.groups["g"] = SomeGroup()
    assert shard.commit("g", {"t:0": 2}, member_epoch=3, member_id="m") == [None]
