"""Promises of a whole shard: each request goes to its group's protocol, groups are listed, deleted, and vanish."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordination.record_log import TxnProducer
from broker.groups.group_config import GroupConfig
from broker.groups.shard.group_totals import GroupCounts
from penstock.errors import (
    FencedInstanceIdError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    GroupSubscribedToTopicError,
    InconsistentGroupProtocolError,
    NonEmptyGroupError,
    UnknownMemberIdError,
)
from penstock.messages.groups.classic_protocol import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupProtocol,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
)
from penstock.messages.groups.consumer_protocol import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from penstock.messages.groups.listing import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    GroupType,
    ListGroupsRequest,
)
from penstock.messages.groups.offsets import (
    OffsetCommitPartition,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
)
from penstock.messages.transactions.producers import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from penstock.types import TopicPartition
from tests.support.shard_core import SESSION_MS, ShardCore

MINUTE_MS, DAY_MS = 60_000, 24 * 3_600_000
MEMBER = "m" * 22


def listed(core: ShardCore, **filters: tuple[str, ...]) -> dict[str, tuple[str, str, str]]:
    answer = core.ask(ListGroupsRequest(**filters))
    return {group.group_id: (group.protocol_type, group.state, group.group_type.value) for group in answer.groups}


def deleted(core: ShardCore, *group_ids: str) -> list[type[Exception] | None]:
    answer = core.ask(DeleteGroupsRequest(group_ids))
    return [None if one.error is None else type(one.error) for one in answer.groups]


def fetched(core: ShardCore, group_id: str) -> dict[str, int]:
    answer = core.ask(OffsetFetchRequest((OffsetFetchGroup(group_id, all_partitions=True),)))
    return {str(one.partition): one.offset for one in answer.groups[0].partitions}


def three_kinds() -> ShardCore:
    """A classic group, a consumer group, and a simple one."""
    core = ShardCore()
    core.classic_member("classic")
    assert isinstance(core.consumer_member("consumer", MEMBER), ConsumerGroupHeartbeatResponse)
    assert isinstance(core.commit("simple", 7), OffsetCommitResponse)
    return core


def test_groups_of_both_protocols_and_simple_ones_are_listed() -> None:
    core = three_kinds()
    everything = {
        "classic": ("consumer", "Stable", "classic"),
        "consumer": ("consumer", "Stable", "consumer"),
        "simple": ("", "Empty", "classic"),
    }
    assert listed(core) == everything
    core.reloaded()
    assert listed(core) == everything


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"states": ("stable",)}, ["classic", "consumer"]),
        ({"states": ("Empty", "Dead")}, ["simple"]),
        ({"types": ("Consumer",)}, ["consumer"]),
        ({"types": ("classic",), "states": ("Stable",)}, ["classic"]),
        ({"types": ("share",)}, []),
    ],
)
def test_a_list_is_narrowed_by_state_and_type(filters: Any, found: list[str]) -> None:
    assert sorted(listed(three_kinds(), **filters)) == found


def test_groups_are_described_each_by_its_protocol_and_in_the_order_asked() -> None:
    core = three_kinds()
    answer = core.ask(DescribeGroupsRequest(("simple", "none", "consumer", "classic")))
    simple, none, consumer, classic = answer.groups
    assert (simple.error, simple.state, simple.group_type, simple.members) == (None, "Empty", GroupType.CLASSIC, ())
    assert isinstance(none.error, GroupIdNotFoundError) and none.state == "Dead"
    assert (consumer.group_type, len(consumer.members), consumer.group_epoch) == (GroupType.CONSUMER, 1, 1)
    assert (classic.group_type, len(classic.members), classic.group_epoch) == (GroupType.CLASSIC, 1, 1)


PROTOCOL = (JoinGroupProtocol("range", b""),)
TO_CONSUMER_GROUP: dict[str, tuple[Any, type[Exception]]] = {
    "sync": (SyncGroupRequest("consumer", 1, "somebody"), UnknownMemberIdError),
    "heartbeat": (HeartbeatRequest("consumer", 1, "somebody"), UnknownMemberIdError),
}


@pytest.mark.parametrize("what", TO_CONSUMER_GROUP)
def test_a_classic_stranger_is_unknown_to_a_consumer_group(what: str) -> None:
    request, error = TO_CONSUMER_GROUP[what]
    assert isinstance(three_kinds().ask(request), error)


def test_a_classic_group_with_members_of_another_protocol_type_takes_no_consumer() -> None:
    core = ShardCore()
    core.ask(JoinGroupRequest("connect", SESSION_MS, 60_000, "", "connect", PROTOCOL, requires_known_member_id=False))
    core.advance(3_000)
    answer = core.consumer_member("connect", MEMBER)
    assert isinstance(answer, GroupIdNotFoundError | InconsistentGroupProtocolError)
    assert listed(core)["connect"][2] == "classic"


def test_a_group_with_members_is_not_deleted_and_an_unknown_one_is_not_found() -> None:
    core = three_kinds()
    assert deleted(core, "classic", "none", "consumer") == [
        NonEmptyGroupError,
        GroupIdNotFoundError,
        NonEmptyGroupError,
    ]
    assert sorted(listed(core)) == ["classic", "consumer", "simple"]


def test_a_deleted_group_takes_its_offsets_along() -> None:
    core = three_kinds()
    assert deleted(core, "simple") == [None] and fetched(core, "simple") == {}
    core.ask(ConsumerGroupHeartbeatRequest("consumer", MEMBER, -1))
    core.commit("consumer", 3, "u", 1)
    assert deleted(core, "consumer", "consumer") == [None, GroupIdNotFoundError]
    core.reloaded()
    assert sorted(listed(core)) == ["classic"] and fetched(core, "consumer") == {}


def test_a_dead_group_vanishes_with_its_last_offset() -> None:
    core = ShardCore(GroupConfig(offsets_retention_ms=DAY_MS))
    member_id = core.classic_member("g")
    core.commit("simple", 1)
    core.ask(LeaveGroupRequest("g", (LeavingMember(member_id),)))
    core.commit("g", 5)
    core.advance(DAY_MS - MINUTE_MS)
    assert sorted(listed(core)) == ["g", "simple"] and fetched(core, "g") == {"t-0": 5}
    core.advance(30 * MINUTE_MS)
    assert listed(core) == {} and fetched(core, "g") == {}
    core.reloaded()
    assert listed(core) == {}


def test_the_offsets_of_a_group_that_lives_do_not_expire() -> None:
    core = ShardCore(GroupConfig(offsets_retention_ms=10 * MINUTE_MS, group_consumer_session_timeout_ms=DAY_MS))
    core.commit("g", 1, "t")
    core.commit("g", 2, "u")
    core.consumer_member("g", MEMBER, "t")
    core.advance(60 * MINUTE_MS)
    assert fetched(core, "g") == {"t-0": 1}, "nobody reads the topic u"


def test_a_group_whose_topics_were_quiet_for_long_keeps_its_offsets_when_its_last_member_goes() -> None:
    """No record of a consumer group says since when it is empty."""
    config = GroupConfig(group_consumer_session_timeout_ms=10 * DAY_MS, offsets_retention_ms=7 * DAY_MS)
    core = ShardCore(config)
    core.commit("g", 7)
    core.consumer_member("g", MEMBER)
    core.advance(10 * DAY_MS + MINUTE_MS)
    assert listed(core)["g"] == ("consumer", "Empty", "consumer")
    core.advance(6 * DAY_MS)
    assert fetched(core, "g") == {"t-0": 7}
    core.advance(2 * DAY_MS)
    assert listed(core) == {}


def test_an_empty_group_without_offsets_vanishes_at_the_next_look() -> None:
    core = ShardCore()
    core.classic_member("g")
    core.advance(SESSION_MS + 1)
    assert listed(core)["g"][1] == "Empty", "its only member was not heard of"
    core.advance(20 * MINUTE_MS)
    assert listed(core) == {}


def test_the_offsets_of_a_deleted_topic_are_forgotten() -> None:
    core = three_kinds()
    core.commit("simple", 9, "u")
    core.drop_topic("u")
    core.advance(1_000)
    assert fetched(core, "simple") == {"t-0": 7}
    core.reloaded()
    assert core.shard.statistics().offsets == 1


def test_an_offset_is_deleted_but_not_under_a_reader() -> None:
    core = three_kinds()
    answer = core.ask(OffsetDeleteRequest("consumer", (TopicPartition("t", 0),)))
    assert isinstance(answer.partitions[0].error, GroupSubscribedToTopicError)
    assert core.ask(OffsetDeleteRequest("simple", (TopicPartition("t", 0),))).partitions[0].error is None
    assert fetched(core, "simple") == {} and "simple" not in listed(core)


def test_above_its_share_of_memory_nobody_is_added_and_those_who_are_there_go_on() -> None:
    core = ShardCore(bytes_max=20_000)
    first = core.classic_member("first")
    core.commit("first", 1)
    count = 0
    while core.commit(f"simple-{count}", 1).partitions[0].error is None:
        count += 1
        assert count < 20
    assert count > 1
    refused = core.consumer_member("more", MEMBER)
    assert isinstance(refused, GroupMaxSizeReachedError) and "group.coordinator.memory.max.bytes" in str(refused)
    join = JoinGroupRequest("more", SESSION_MS, 60_000, "", "consumer", PROTOCOL)
    assert isinstance(core.ask(join), GroupMaxSizeReachedError)
    assert isinstance(core.commit("simple-0", 2), OffsetCommitResponse)
    assert isinstance(core.ask(HeartbeatRequest("first", 1, first)), HeartbeatResponse)
    for number in range(count):
        deleted(core, f"simple-{number}")
    assert isinstance(core.consumer_member("more", MEMBER), ConsumerGroupHeartbeatResponse)


def test_members_that_stand_in_no_record_yet_take_memory_too() -> None:
    core = ShardCore(bytes_max=223_000)
    large = (JoinGroupProtocol("range", b"m" * 20_000),)
    answers = [
        core.ask(JoinGroupRequest("g", SESSION_MS, 60_000, "", "consumer", large, f"static-{number}"), number)
        for number in range(6)
    ]
    assert [type(answer) for answer in answers] == [type(None)] * 5 + [GroupMaxSizeReachedError]
    assert core.shard.statistics().bytes > 100_000
    again = JoinGroupRequest("g", SESSION_MS, 60_000, "", "consumer", large, "static-0")
    assert core.ask(again, 6) is None  # in the place of the one before
    larger = (JoinGroupProtocol("range", b"m" * 40_000),)
    refused = core.ask(JoinGroupRequest("g", SESSION_MS, 60_000, "", "consumer", larger, "static-0"), 7)
    assert isinstance(refused, GroupMaxSizeReachedError)


def test_memory_is_given_back_when_a_shard_goes() -> None:
    core = three_kinds()
    core.reloaded()
    used = core.memory.used
    assert used > 6_000
    core.reloaded()
    assert core.memory.used == used == core.shard.statistics().bytes
    core.shard.unloaded()
    assert core.memory.used == 0


def test_figures_count_what_is_there_and_what_was_done_since_the_load() -> None:
    core = three_kinds()
    figures = core.shard.statistics()
    assert (figures.groups, figures.members, figures.offsets) == (2, 2, 1)
    assert figures.counts == GroupCounts(commits=1, rebalances=2)
    figures = core.reloaded().statistics()
    assert (figures.members, figures.offsets, figures.counts) == (2, 1, GroupCounts())


def test_what_a_shard_has_done_is_counted_after_it_is_gone_and_the_sums_never_fall() -> None:
    core = three_kinds()
    assert core.totals.with_live([core.shard.counts]) == GroupCounts(1, 2)
    gone = core.shard
    core.reloaded()
    assert gone.counts == GroupCounts()
    assert core.totals.with_live([core.shard.counts]) == GroupCounts(1, 2)
    core.totals.retire(GroupCounts(5))
    assert core.totals.with_live([]) == GroupCounts(6, 2)


def pend(core: ShardCore, group_id: str, producer: TxnProducer, offset: int) -> Any:
    places = (OffsetCommitPartition(TopicPartition("t", 0), offset),)
    return core.ask(TxnOffsetCommitRequest("tx", group_id, *producer, places))


def static_join(core: ShardCore, ticket: int) -> str:
    """The id of a static member that joins, perhaps in the place of the one before it."""
    join = JoinGroupRequest("g", SESSION_MS, 60_000, "", "consumer", PROTOCOL, "static", requires_known_member_id=False)
    core.ask(join, ticket)
    core.advance(3_000)
    return str(core.answers[ticket].member_id)


def test_a_static_member_that_was_replaced_commits_nothing_by_a_transaction() -> None:
    core = ShardCore()
    first = static_join(core, 1)
    places = (OffsetCommitPartition(TopicPartition("t", 0), 5),)
    assert isinstance(
        core.ask(TxnOffsetCommitRequest("tx", "g", 7, 0, places, first, 1, "static")), TxnOffsetCommitResponse
    )
    static_join(core, 2)
    refused = core.ask(TxnOffsetCommitRequest("tx", "g", 7, 0, places, first, 1, "static"))
    assert isinstance(refused, FencedInstanceIdError)


def test_a_members_commit_by_a_transaction_is_no_sign_of_life() -> None:
    core = ShardCore()
    member_id = core.classic_member("g")
    core.advance(SESSION_MS - 1)
    places = (OffsetCommitPartition(TopicPartition("t", 0), 5),)
    answer = core.ask(TxnOffsetCommitRequest("tx", "g", 7, 0, places, member_id, 1))
    assert isinstance(answer, TxnOffsetCommitResponse)
    core.advance(2)
    gone = core.ask(TxnOffsetCommitRequest("tx", "g", 7, 0, places, member_id, 1))
    assert isinstance(gone, UnknownMemberIdError)


def test_a_transactions_offsets_make_a_group_and_take_memory_and_are_counted_when_they_count() -> None:
    core, producer = ShardCore(bytes_max=1), TxnProducer(7, 0)
    core.memory.bytes_max = 1_000_000
    assert isinstance(pend(core, "new", producer, 5), TxnOffsetCommitResponse)
    assert listed(core) == {"new": ("", "Empty", "classic")} and fetched(core, "new") == {}
    figures = core.shard.statistics()
    assert figures.bytes > 1_000 and figures.counts.commits == 0
    core.memory.bytes_max = 1
    assert isinstance(pend(core, "other", producer, 5).partitions[0].error, GroupMaxSizeReachedError)
    assert pend(core, "new", producer, 6).partitions[0].error is None, "those who are there go on"
    core.end_transaction(producer)
    assert fetched(core, "new") == {"t-0": 6} and core.shard.statistics().counts.commits == 1
    core.reloaded()
    assert fetched(core, "new") == {"t-0": 6} and core.shard.statistics().counts.commits == 0


def test_a_dead_group_is_kept_until_the_transaction_of_its_offset_has_ended() -> None:
    core, producer = ShardCore(GroupConfig(offsets_retention_ms=DAY_MS)), TxnProducer(7, 0)
    member_id = core.classic_member("g")
    pend(core, "g", producer, 5)
    core.ask(LeaveGroupRequest("g", (LeavingMember(member_id),)))
    core.advance(3 * DAY_MS)
    assert sorted(listed(core)) == ["g"]
    core.end_transaction(producer, is_committed=False)
    core.advance(30 * MINUTE_MS)
    assert listed(core) == {}


def test_a_group_that_is_deleted_takes_along_what_waits() -> None:
    core, producer = ShardCore(), TxnProducer(7, 0)
    pend(core, "g", producer, 5)
    assert deleted(core, "g") == [None] and listed(core) == {}
    core.end_transaction(producer)
    assert fetched(core, "g") == {} and listed(core) == {}
    core.reloaded()
    assert listed(core) == {}


def test_a_description_says_how_long_each_member_was_silent() -> None:
    core = ShardCore()
    member_id = core.classic_member("classic")
    core.consumer_member("consumer", MEMBER)
    asked = DescribeGroupsRequest(("classic", "consumer"))

    def silent() -> list[int | None]:
        return [member.silent_ms for group in core.ask(asked).groups for member in group.members]

    assert silent() == [0, 0]
    core.advance(3_000)
    assert silent() == [3_000, 3_000]
    core.ask(HeartbeatRequest("classic", 1, member_id))
    core.advance(500)
    assert silent() == [500, 3_500]
