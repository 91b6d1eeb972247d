"""A classic group's rules that no request shows by itself: its states, its choice of a protocol, its record's size."""

from __future__ import annotations

from random import Random

import pytest

from broker.coordination.turn import Client
from broker.groups.classic.group import ClassicGroup, chosen_protocol
from broker.groups.classic.member import ClassicMember
from broker.groups.classic.sizes import _bytes_at_most, refusal_of
from broker.groups.classic.states import GroupState
from broker.groups.group_config import GroupConfig
from broker.groups.records.classic_records import GroupMetadataKey
from broker.groups.records.record_codec import encoded_size
from penstock.errors import InvariantViolation
from penstock.messages.groups.classic_protocol import JoinGroupProtocol
from tests.support.classic_group_core import protocols


def member(name: str, protocols_of_it: tuple[JoinGroupProtocol, ...], instance: str | None = None) -> ClassicMember:
    return ClassicMember(name, instance, Client(name, f"/{name}"), 60_000, 10_000, protocols_of_it)


@pytest.mark.parametrize("state", [GroupState.COMPLETING_REBALANCE, GroupState.STABLE, GroupState.EMPTY])
def test_a_group_enters_no_state_that_may_not_follow(state: GroupState) -> None:
    with pytest.raises(InvariantViolation, match="goes from Empty"):
        ClassicGroup("g").enter(state, 0)


def test_of_equal_votes_the_first_one_wins_and_a_name_told_twice_counts_once() -> None:
    members = [member("a", protocols("x", "y", "x")), member("b", protocols("y", "x"))]
    assert chosen_protocol(members) == "x"
    assert chosen_protocol([]) is None


def test_the_quick_estimate_of_a_record_is_never_below_its_size() -> None:
    random = Random(7)
    for _ in range(200):
        group = ClassicGroup("g" * random.randint(1, 255))
        for number in range(random.randint(0, 5)):
            text = random.choice(("a", "é", "漢", "😀")) * random.randint(0, 40)
            metadata = JoinGroupProtocol("range", b"m" * random.randint(0, 500))
            group.add(member(f"{text}{number}", (metadata,), random.choice((None, f"{text}{number}"))))
        group.protocol_name, group.protocol_type = "range", "consumer"
        key = GroupMetadataKey(group=group.group_id)
        value = group.record(1, {one: b"a" * random.randint(0, 300) for one in group.members})
        size = encoded_size(key, value)
        assert size <= _bytes_at_most(key, value)
        assert refusal_of(GroupConfig(record_bytes_max=size), key, value) is None
        assert refusal_of(GroupConfig(record_bytes_max=size - 1), key, value) is not None
