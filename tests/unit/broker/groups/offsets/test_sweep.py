"""Expiry (KIP-211) and topics that are gone. A check comes every ten minutes, and finds what is seven days old."""

from __future__ import annotations

import pytest

from broker.groups.offsets.offset_groups import OffsetExpiry
from tests.support.offsets_shard import DAY_MS, OffsetsShard, SomeGroup, SomeTopics

CHECK_MS = 600_000


@pytest.fixture
def shard() -> OffsetsShard:
    shard = OffsetsShard(SomeTopics(t=3, u=1))
    shard.reload()
    return shard


def test_an_offset_of_a_simple_group_expires_seven_days_after_its_commit(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 1})
    shard.pass_time(DAY_MS)
    shard.commit("g", {"u:0": 2})
    shard.pass_time(6 * DAY_MS - CHECK_MS - 1)
    assert shard.fetched("g") == {"t:0": 1, "u:0": 2}
    shard.pass_time(2 * CHECK_MS)
    assert shard.fetched("g") == {"u:0": 2}
    shard.pass_time(DAY_MS + CHECK_MS)
    assert "g" not in shard.offsets.state
    assert shard.offsets.removed == 2
    shard.reload(compacted=True)
    assert "g" not in shard.offsets.state


@pytest.mark.parametrize(("late_ms", "expired"), [(0, True), (1, False)])
@pytest.mark.parametrize("retention_ms", [-1, 7 * DAY_MS])
def test_the_time_is_counted_to_the_millisecond(
    shard: OffsetsShard, retention_ms: int, late_ms: int, expired: bool
) -> None:
    """The look that begins after seven days reads the offsets a millisecond later."""
    shard.pass_time(1 + late_ms)
    shard.commit("g", {"t:0": 1}, retention_ms=retention_ms)
    shard.pass_time(7 * DAY_MS)
    assert (shard.fetched("g") == {}) is expired


def test_an_offset_that_is_committed_again_begins_anew(shard: OffsetsShard) -> None:
    for _ in range(4):
        shard.commit("g", {"t:0": 1})
        shard.pass_time(6 * DAY_MS)
    assert shard.fetched("g") == {"t:0": 1}


@pytest.mark.parametrize("retention_ms", [0, -7, 1_500])
def test_a_clients_own_time_of_expiry_counts(shard: OffsetsShard, retention_ms: int) -> None:
    shard.commit("g", {"t:0": 1}, retention_ms=retention_ms)
    shard.commit("h", {"t:0": 1}, retention_ms=30 * DAY_MS)
    assert shard.fetched("g") == {"t:0": 1}
    shard.pass_time(CHECK_MS + 1)
    assert shard.fetched("g") == {}
    shard.pass_time(29 * DAY_MS)
    assert shard.fetched("h") == {"t:0": 1}
    shard.pass_time(2 * DAY_MS)
    assert shard.fetched("h") == {}


def test_nothing_expires_while_the_group_does_not_allow_it(shard: OffsetsShard) -> None:
    shard.groups.groups["g"] = SomeGroup(expiry=None)
    shard.commit("g", {"t:0": 1})
    shard.pass_time(30 * DAY_MS)
    assert shard.fetched("g") == {"t:0": 1}


def test_a_topic_that_a_member_reads_keeps_its_offsets_and_another_one_does_not(shard: OffsetsShard) -> None:
    shard.groups.groups["g"] = SomeGroup(subscribed={"t"}, expiry=OffsetExpiry())
    shard.commit("g", {"t:0": 1, "u:0": 2})
    shard.pass_time(8 * DAY_MS)
    assert shard.fetched("g") == {"t:0": 1}


def test_an_empty_group_keeps_its_offsets_for_seven_days_however_old_they_are(shard: OffsetsShard) -> None:
    group = shard.groups.groups["g"] = SomeGroup(subscribed={"t"})
    shard.commit("g", {"t:0": 1})
    shard.pass_time(30 * DAY_MS)
    group.subscribed, group.expiry, group.is_empty = set(), OffsetExpiry(shard.wall_ms), True
    shard.pass_time(7 * DAY_MS - CHECK_MS)
    assert shard.fetched("g") == {"t:0": 1}
    shard.pass_time(2 * CHECK_MS)
    assert shard.fetched("g") == {}
    assert "g" not in shard.groups.groups


def test_an_offset_that_is_set_in_a_group_long_empty_has_seven_days(shard: OffsetsShard) -> None:
    empty_since_ms = shard.wall_ms
    shard.pass_time(30 * DAY_MS)
    shard.groups.groups["g"] = SomeGroup(expiry=OffsetExpiry(empty_since_ms), is_empty=True)
    shard.commit("g", {"t:0": 1})
    shard.pass_time(6 * DAY_MS)
    assert shard.fetched("g") == {"t:0": 1}
    shard.pass_time(2 * DAY_MS)
    assert shard.fetched("g") == {}


def test_without_a_record_the_time_counts_from_when_the_group_was_first_found_empty(shard: OffsetsShard) -> None:
    group = shard.groups.groups["g"] = SomeGroup(subscribed={"t"})
    shard.commit("g", {"t:0": 1})
    shard.pass_time(30 * DAY_MS)
    group.subscribed, group.expiry = set(), OffsetExpiry(is_empty=True)
    shard.pass_time(6 * DAY_MS)
    group.subscribed, group.expiry = {"t"}, OffsetExpiry()
    shard.pass_time(2 * CHECK_MS)
    group.subscribed, group.expiry = set(), OffsetExpiry(is_empty=True)
    shard.pass_time(7 * DAY_MS - CHECK_MS)
    assert shard.fetched("g") == {"t:0": 1}
    shard.pass_time(3 * CHECK_MS)
    assert shard.fetched("g") == {}


def test_a_group_with_neither_members_nor_offsets_is_deleted(shard: OffsetsShard) -> None:
    shard.groups.groups.update(a=SomeGroup(is_empty=True), b=SomeGroup(), c=SomeGroup(is_empty=True))
    shard.commit("c", {"t:0": 1})
    shard.pass_time(CHECK_MS + 1)
    assert sorted(shard.groups.groups) == ["b", "c"]


# -- topics that are gone ----------------------------------------------------------------------------------------------


def test_a_deleted_topics_offsets_are_deleted_in_every_group(shard: OffsetsShard) -> None:
    for group_id in ("a", "b"):
        shard.commit(group_id, {"t:0": 1, "u:0": 2})
    del shard.topics.facts["t"]
    shard.topics_changed("t")
    shard.topics.make("t", 3)
    shard.reload()
    assert shard.offsets.statistics().offsets == 2
    assert shard.fetched("a") == shard.fetched("b") == {"u:0": 2}


def test_of_a_topic_that_was_made_anew_only_the_old_ones_offsets_are_deleted(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 1, "t:1": 2})
    shard.topics.make("t", 3)
    shard.commit("g", {"t:1": 7})
    shard.topics_changed("t")
    assert shard.offsets.statistics().offsets == 1
    assert shard.fetched("g") == {"t:1": 7}


def test_a_topic_that_went_while_nobody_led_is_found_after_loading(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 1, "u:0": 2})
    del shard.topics.facts["t"]
    shard.reload()
    shard.pass_time(1_000)
    assert shard.offsets.statistics().offsets == 1


def test_a_topic_that_grew_keeps_its_offsets(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 1})
    before = len(shard.log)
    shard.topics.facts["t"] = shard.topics.facts["t"]._replace(partitions=9)
    shard.topics_changed("t")
    assert len(shard.log) == before


def test_an_offset_whose_topics_id_is_not_known_stays_as_long_as_the_name(shard: OffsetsShard) -> None:
    shard.commit("g", {"t:0": 1}, retention_ms=DAY_MS)
    shard.topics.make("t", 3)
    shard.topics_changed("t")
    assert shard.fetched("g") == {"t:0": 1}
    del shard.topics.facts["t"]
    shard.topics_changed("t")
    assert shard.offsets.statistics().offsets == 0


def test_a_great_sweep_is_made_in_portions_and_finds_what_changes_meanwhile(shard: OffsetsShard) -> None:
    shard.topics.make("wide", 1_000)
    for group in range(20):
        shard.commit(f"g{group}", {f"wide:{partition}": 1 for partition in range(0, 1_000)})
    shard.commit("g0", {"t:0": 1, "u:0": 1})
    del shard.topics.facts["wide"]
    shard.offsets.image_changed(shard.turn(), ["wide"])
    shard.pass_time(1)
    left = shard.offsets.statistics().offsets
    assert 2 < left < 20_000

    del shard.topics.facts["t"]
    shard.topics_changed("t")
    assert shard.offsets.statistics().offsets == 1
    assert shard.fetched("g0") == {"u:0": 1}
    assert shard.portions >= 10
