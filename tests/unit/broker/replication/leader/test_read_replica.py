"""A consumer is sent to an in-sync follower in its rack that is sure to have its offset, else to the leader."""

from __future__ import annotations

import pytest

from broker.replication.leader.read_replica import ReplicaView, choose_replica


def view(broker_id: int, rack: str = "b", start: int = 0, end: int = 100, caught_up_ms: int = 0) -> ReplicaView:
    return ReplicaView(broker_id, rack, start, end, caught_up_ms)


def test_the_follower_in_the_consumers_rack_is_chosen() -> None:
    assert choose_replica("b", "a", 50, [view(2, "c"), view(3, "b")]) == 3


@pytest.mark.parametrize(
    ("rack", "leader_rack", "followers"),
    [
        ("", "a", [view(2, "")]),
        ("a", "a", [view(2, "a")]),
        ("b", "a", []),
        ("b", "a", [view(2, "c")]),
    ],
    ids=["a consumer without a rack", "the leader's own rack", "no follower", "another rack"],
)
def test_else_the_leader_serves(rack: str, leader_rack: str, followers: list[ReplicaView]) -> None:
    assert choose_replica(rack, leader_rack, 50, followers) == -1


@pytest.mark.parametrize(("offset", "chosen"), [(9, -1), (10, 2), (20, 2), (21, -1)])
def test_a_follower_without_the_offset_is_not_chosen(offset: int, chosen: int) -> None:
    assert choose_replica("b", "a", offset, [view(2, start=10, end=20)]) == chosen


def test_the_most_caught_up_is_chosen_and_the_choice_is_the_same_each_time() -> None:
    assert choose_replica("b", "a", 50, [view(2, end=90), view(3, end=99), view(4, end=98)]) == 3
    assert choose_replica("b", "a", 50, [view(2, caught_up_ms=5), view(3, caught_up_ms=9)]) == 3
    assert choose_replica("b", "a", 50, [view(3), view(2), view(4)]) == 2
