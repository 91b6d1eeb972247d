"""Admin's calls about groups, against fake coordinators in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock import AsyncAdmin, TopicPartition
from penstock.errors import (
    ApiError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    InvalidGroupIdError,
    NetworkError,
    NonEmptyGroupError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.groups.consumer_protocol import TopicIdPartitions
from penstock.messages.groups.group_apis import LIST_GROUPS
from penstock.messages.groups.listing import GroupMember, GroupType
from penstock.types import CommittedOffset
from tests.support.client_environment import fake_environment
from tests.support.fake_nodes import TOPIC, FakeNodes
from tests.support.late_answers import cut_off_after
from tests.support.virtual_time import run_virtual

Story = Callable[[FakeNodes, AsyncAdmin], Awaitable[None]]
P0, P1, P2 = (TopicPartition(TOPIC, number) for number in range(3))
ANNA = GroupMember(
    "m-anna",
    client_id="anna",
    client_host="/10.0.0.1",
    member_epoch=4,
    subscribed_topic_names=(TOPIC,),
    assignment=(TopicIdPartitions("id", (1, 0), TOPIC),),
    target_assignment=(TopicIdPartitions("id", (0,), TOPIC),),
)
CLASSIC = GroupMember(
    "m-otto",
    "shelf-3",
    "otto",
    "/10.0.0.2",
    member_type=GroupType.CLASSIC,
    metadata=b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff",
    assignment_bytes=b"\0\0\0\0\0\1\0\1t\0\0\0\1\0\0\0\2\xff\xff\xff\xff",
)


def run(story: Story, records: int = 10) -> None:
    async def main() -> None:
        nodes = FakeNodes({0: 1, 1: 2, 2: 3}, 3, records)
        bootstrap, environment = ",".join(map(str, nodes.bootstrap)), fake_environment(nodes.network)
        async with AsyncAdmin(bootstrap, environment=environment, default_api_timeout_ms=20_000) as admin:
            await story(nodes, admin)

    run_virtual(main())


def test_every_broker_lists_its_groups_and_one_that_loads_is_asked_again() -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        groups = nodes.cluster.groups
        groups.make("b", 1, ANNA, group_type=GroupType.CONSUMER)
        groups.make("a", 2)
        groups.make("c", 3)
        groups.refusals["ListGroups"].extend([CoordinatorLoadInProgressError("it loads"), NetworkError("it breaks")])
        listed = await admin.list_groups()
        assert [(g.group_id, g.state, g.group_type, g.coordinator_id) for g in listed] == [
            ("a", "Empty", "classic", 2),
            ("b", "Stable", "consumer", 1),
            ("c", "Empty", "classic", 3),
        ]
        assert [g.group_id for g in await admin.list_groups(states=["stable"], types=["Consumer"])] == ["b"]
        with pytest.raises(ValueError, match="states: 'Gone' is none of PreparingRebalance, "):
            await admin.list_groups(states=["Gone"])
        with pytest.raises(TypeError, match="types must be a list, like \\['classic'\\], not 'consumer'"):
            await admin.list_groups(types="consumer")

    run(story)


def test_a_list_is_not_given_without_the_groups_of_one_broker() -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        refusals = nodes.cluster.groups.refusals["ListGroups"]
        refusals.extend(CoordinatorLoadInProgressError("it loads") for _ in range(999))
        with pytest.raises(CoordinatorLoadInProgressError, match="it loads"):
            await admin.list_groups()

    run(story)


def test_why_a_broker_gives_no_list_is_told_when_the_deadline_cuts_its_last_answer_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        refusals = nodes.cluster.groups.refusals["ListGroups"]
        refusals.extend(CoordinatorLoadInProgressError(f"node {node} loads") for node in range(1, 4))
        cut_off_after(3, LIST_GROUPS, monkeypatch)
        with pytest.raises(CoordinatorLoadInProgressError, match=r"node \d loads; the last attempt had .* is late"):
            await admin.list_groups()

    run(story)


def test_a_group_is_described_with_its_members_of_both_protocols() -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        nodes.cluster.groups.make("g", 2, ANNA, CLASSIC, group_type=GroupType.CONSUMER, protocol_name="uniform")
        group = await admin.describe_group("g")
        assert (group.state, group.assignor, group.coordinator_id) == ("Stable", "uniform", 2)
        assert group.group_type == GroupType.CONSUMER
        anna, otto = group.members
        assert anna.assignment == (P0, P1) and anna.target_assignment == (P0,)
        assert str(anna) == "m-anna (client 'anna' at /10.0.0.1)"
        assert otto.assignment == otto.target_assignment == (P2,) and otto.subscribed_topic_names == (TOPIC,)
        assert str(otto) == "m-otto (client 'otto' at /10.0.0.2, instance 'shelf-3')"
        assert group.owner_of(P1) is anna and group.owner_of(TopicPartition("other", 0)) is None
        found = await admin.describe_groups(["g", "none"])
        assert list(found) == ["g", "none"] and found["g"] == group
        assert isinstance(found["none"].error, GroupIdNotFoundError)
        with pytest.raises(GroupIdNotFoundError, match="there is no group none"):
            await admin.describe_group("none")

    run(story)


def test_lag_is_the_end_of_the_log_beside_what_is_committed() -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        groups, gone = nodes.cluster.groups, TopicPartition("gone", 0)
        groups.make("g", 2, ANNA)
        groups.commit("g", P0, 4, "half way")
        groups.commit("g", P2, 12)
        groups.commit("g", gone, 1)
        assert (await admin.group_offsets("g"))[P0] == CommittedOffset(4, 3, "half way", 1_000)
        lag = await admin.group_lag("g")
        assert {tp: (one.lag, one.log_end_offset, one.member_id) for tp, one in lag.items()} == {
            P0: (6, 10, "m-anna"),
            P1: (None, 10, "m-anna"),  # nothing is committed
            P2: (0, 10, None),  # committed beyond the end: a log that lost records
            gone: (None, None, None),
        }
        assert isinstance(lag[gone].error, UnknownTopicOrPartitionError)

    run(story)


def test_a_group_that_waits_for_the_end_of_a_transaction_has_no_lag() -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        nodes.cluster.groups.make("g", 1, ANNA)
        nodes.cluster.groups.commit("g", P0, 7)
        nodes.cluster.logs[P0].undecided[1] = 7
        assert (await admin.group_lag("g"))[P0].lag == 0

    run(story)


def test_a_leader_that_is_silent_holds_up_the_lag_of_no_other_partition() -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        groups = nodes.cluster.groups
        groups.make("g", 2)
        groups.commit("g", P0, 4)
        groups.commit("g", P2, 4)
        await admin.group_lag("g")
        nodes.hang(3)
        lag = await admin.group_lag("g")
        assert lag[P0].lag == 6
        assert lag[P2].lag is None and isinstance(lag[P2].error, ApiError)

    run(story)


def test_offsets_are_altered_for_a_group_without_members_or_a_new_one() -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        groups = nodes.cluster.groups
        groups.make("g", 2)
        for group_id in ("g", "new"):
            results = await admin.alter_group_offsets(group_id, {P0: 3, P1: CommittedOffset(5, metadata="m")})
            assert results == {P0: None, P1: None}
            assert {tp: one.offset for tp, one in (await admin.group_offsets(group_id)).items()} == {P0: 3, P1: 5}
        groups.make("busy", 3, ANNA, CLASSIC)
        with pytest.raises(NonEmptyGroupError) as refused:
            await admin.alter_group_offsets("busy", {P0: 3})
        assert str(refused.value) == (
            "group 'busy' is not empty: it has 2 members: m-anna (client 'anna' at /10.0.0.1);"
            " m-otto (client 'otto' at /10.0.0.2, instance 'shelf-3'); stop its consumers first"
        )
        assert not groups.offsets["busy"]

    run(story)


def test_a_group_with_members_is_not_deleted_and_the_error_says_who_is_in_it() -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        groups = nodes.cluster.groups
        groups.make("busy", 3, ANNA)
        groups.make("idle", 2)
        results = await admin.delete_groups(["busy", "idle", "none"])
        assert results["idle"] is None and isinstance(results["none"], GroupIdNotFoundError)
        assert isinstance(results["busy"], NonEmptyGroupError) and "it has 1 member: m-anna" in str(results["busy"])
        assert set(groups.groups) == {"busy"}

    run(story)


@pytest.mark.parametrize("lost", [NetworkError("the answer got lost"), CoordinatorNotAvailableError("maybe")])
def test_a_group_that_is_gone_after_a_lost_answer_was_deleted(lost: ApiError) -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        nodes.cluster.groups.make("idle", 2)
        nodes.cluster.groups.refusals["DeleteGroups"].append(lost)
        assert await admin.delete_groups(["idle"]) == {"idle": None}
        assert [node for node, api, _ in nodes.cluster.groups.asked if api == "DeleteGroups"] == [2, 2]

    run(story)


def test_committed_offsets_are_deleted() -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        groups = nodes.cluster.groups
        groups.make("g", 2)
        groups.commit("g", P0, 4)
        groups.commit("g", P1, 4)
        assert await admin.delete_group_offsets("g", [P0]) == {P0: None}
        assert list(await admin.group_offsets("g")) == [P1]
        groups.refusals["OffsetDelete"].append(GroupSubscribedToTopicError("anna reads it"))
        with pytest.raises(GroupSubscribedToTopicError, match="anna reads it"):
            await admin.delete_group_offsets("g", [P1])

    run(story)


BAD: dict[str, tuple[Callable[[Any], Awaitable[Any]], type[Exception], str]] = {
    "empty id": (lambda a: a.describe_group(""), InvalidGroupIdError, "the group id is empty; it has from 1 to 255"),
    "long id": (lambda a: a.group_offsets("g" * 256), InvalidGroupIdError, "has 256 characters"),
    "no id": (lambda a: a.group_lag(None), TypeError, "group_id must be a str, not NoneType"),
    "letters": (lambda a: a.delete_groups("shop"), TypeError, "a list of group ids, like \\['shop'\\], not 'shop'"),
    "negative": (lambda a: a.alter_group_offsets("g", {P0: -1}), ValueError, "offset=-1 must be from 0"),
    "no offset": (lambda a: a.alter_group_offsets("g", {P0: "x"}), TypeError, "offset='x' must be an int"),
    "no partition": (lambda a: a.delete_group_offsets("g", "t"), TypeError, "a list of TopicPartition"),
    "no target": (lambda a: a.reset_group_offsets("g"), ValueError, "give one of to "),
    "two targets": (lambda a: a.reset_group_offsets("g", to="latest", shift_by=1), ValueError, "give one of to "),
    "a word": (lambda a: a.reset_group_offsets("g", to="newest"), ValueError, "'latest', 'current', an offset"),
    "no offsets": (lambda a: a.reset_group_offsets("g", to={}), ValueError, "names no partition"),
    "before 1970": (lambda a: a.reset_group_offsets("g", to_time_ms=-1), ValueError, "to_time_ms=-1 must be from 0"),
}


@pytest.mark.parametrize("row", BAD)
def test_bad_input_is_named_and_nobody_is_asked(row: str) -> None:
    call, error, says = BAD[row]

    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        with pytest.raises(error, match=says):
            await call(admin)
        assert not nodes.cluster.groups.asked

    run(story)
