"""Promises of the port of a kind of groups: what is asked of a group goes to its kind, whatever others there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from broker.coordination.turn import Client, Handlers, KnownTopics, Ticket, Turn
from broker.groups.kind import GroupKind, GroupsOfKind
from broker.groups.lag.lag_pass import GroupFacts
from broker.groups.offsets.offset_groups import OffsetExpiry
from broker.groups.shard.shard_groups import ShardGroups
from penstock.errors import ApiError, NonEmptyGroupError, UnknownMemberIdError
from penstock.messages.groups.classic_protocol import LeaveGroupRequest, LeavingMember
from penstock.messages.groups.listing import DescribedGroup, GroupType, ListedGroup
from penstock.messages.groups.offsets import OffsetCommitRequest, OffsetFetchGroup
from penstock.messages.transactions.producers import TxnOffsetCommitRequest
from penstock.types import TopicPartition
from tests.support.shard_core import ShardCore

TURN: Any = object()
OWNER, STRANGER = Client("app", "/10.0.0.1"), Client("tool", "/10.0.0.2")
HELD = TopicPartition("t", 3)


@dataclass
class Crew:
    """A group of a kind that only this test knows."""

    group_id: str
    members: dict[str, Client] = field(default_factory=dict)


class Crews:
    """Its members read the topic t, and only they may commit."""

    def __init__(self, groups: GroupsOfKind[Crew]) -> None:
        self.groups = groups
        self.handlers: Handlers = {}
        self.taken_over: Handlers = {}
        self.replays: dict[type[Any], Any] = {}
        self.rebalances = 0

    def loaded(self, turn: Turn, groups: Iterable[Crew]) -> None: ...

    def unloaded(self) -> Sequence[tuple[Ticket, ApiError]]:
        return ()

    def image_changed(self, turn: Turn, names: Iterable[str]) -> None: ...

    def check_commit(self, turn: Turn, group: Crew, request: OffsetCommitRequest) -> None:
        if request.member_id not in group.members:
            raise UnknownMemberIdError("commit")

    def check_transactional_commit(self, turn: Turn, group: Crew, request: TxnOffsetCommitRequest) -> None:
        if request.member_id not in group.members:
            raise UnknownMemberIdError("transaction")

    def check_fetch(self, group: Crew, request: OffsetFetchGroup) -> None:
        raise UnknownMemberIdError("fetch")

    def check_offset_delete(self, group: Crew) -> None:
        raise NonEmptyGroupError("delete")

    def is_subscribed(self, group: Crew, topic: str) -> bool:
        return topic == "t"

    def offset_expiry(self, group: Crew) -> OffsetExpiry | None:
        return OffsetExpiry(7, is_empty=True)

    def is_empty(self, group: Crew) -> bool:
        return not group.members

    def delete(self, turn: Turn, group: Crew) -> None:
        self.groups.remove(group)

    def listed(self, group: Crew) -> ListedGroup:
        return ListedGroup(group.group_id, "crew", "Sailing", GroupType.CONSUMER)

    def described(self, turn: Turn, group: Crew) -> DescribedGroup:
        return DescribedGroup(group.group_id, state="Sailing")

    def facts(self, group: Crew) -> GroupFacts:
        return GroupFacts("crew", "Sailing", len(group.members), 5)

    def held(self, group: Crew, topics: KnownTopics) -> Iterator[TopicPartition]:
        yield HELD

    def holder(self, group: Crew, member_id: str, instance_id: str | None) -> Client | None:
        return group.members.get(member_id)


def with_a_crew() -> tuple[ShardGroups, dict[str, Any]]:
    """A shard's groups of three kinds, one of them a crew."""
    core = ShardCore()
    core.classic_member("classic")
    groups = core.shard.groups
    crews: GroupKind[Crew] = Crews(GroupsOfKind(groups, Crew))
    groups["crew"] = Crew("crew", {"one": OWNER})
    return ShardGroups(groups, {**core.shard.kinds, Crew: crews}), groups


def test_a_third_kind_of_groups_is_one_implementation() -> None:
    kinds, groups = with_a_crew()
    topics: Any = None
    assert kinds.listed("crew").state == kinds.described(TURN, "crew").state == "Sailing"
    assert kinds.facts("crew") == GroupFacts("crew", "Sailing", 1, 5)
    assert list(kinds.held("crew", topics)) == [HELD]
    assert kinds.is_subscribed("crew", "t") and not kinds.is_subscribed("crew", "u")
    assert kinds.offset_expiry("crew") == OffsetExpiry(7, is_empty=True)
    leave = LeaveGroupRequest("crew", (LeavingMember("one"),))
    assert kinds.removes_another(leave, STRANGER) and not kinds.removes_another(leave, OWNER)
    kinds.delete_if_empty(TURN, "crew")
    assert "crew" in groups, "it has a member"
    groups["crew"].members.clear()
    kinds.delete_if_empty(TURN, "crew")
    assert list(groups) == ["classic"]


def test_a_third_kind_refuses_what_its_groups_do_not_take() -> None:
    kinds, _ = with_a_crew()
    kinds.check_commit(TURN, OffsetCommitRequest("crew", (), member_id="one"))
    with pytest.raises(UnknownMemberIdError, match="commit"):
        kinds.check_commit(TURN, OffsetCommitRequest("crew", (), member_id="two"))
    with pytest.raises(UnknownMemberIdError, match="fetch"):
        kinds.check_fetch(TURN, OffsetFetchGroup("crew", (), True, "", -1))
    with pytest.raises(NonEmptyGroupError, match="delete"):
        kinds.check_offset_delete("crew")


def test_the_groups_of_one_kind_are_found_among_all_and_no_others() -> None:
    groups: dict[str, Any] = {"a": Crew("a"), "b": object()}
    crews = GroupsOfKind(groups, Crew)
    assert crews.get("a") is groups["a"] and crews.get("b") is None and crews.get("c") is None
    assert list(crews) == [groups["a"]]
    crews.put(Crew("b"))
    assert [crew.group_id for crew in crews] == ["a", "b"], "another kind's group of the id gives way"
    crews.remove(crews["a"])
    assert list(groups) == ["b"]
