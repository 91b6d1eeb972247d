"""Placement: even leaders, even replicas, and racks apart."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from metadata.controller.topics.placement import place_more_replicas, place_replicas
from metadata.registrations import BrokerRegistration


def brokers(*racks: str) -> list[BrokerRegistration]:
    return [
        BrokerRegistration(broker_id, "p", 0, "host", 9192, rack, False, False, ())
        for broker_id, rack in enumerate(racks, start=1)
    ]


def test_replica_j_of_partition_i_is_at_start_plus_i_plus_j() -> None:
    placed = place_replicas(brokers("", "", "", ""), 8, 3, random.Random(7))
    start = placed[0][0] - 1
    for i, replicas in enumerate(placed):
        assert replicas == tuple((start + i + j) % 4 + 1 for j in range(3))


def test_start_is_random_so_that_small_topics_do_not_pile_up() -> None:
    rng = random.Random(7)
    starts = Counter(place_replicas(brokers("", "", ""), 1, 1, rng)[0][0] for _ in range(300))
    assert set(starts) == {1, 2, 3} and min(starts.values()) > 70


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "racks", [("a", "b", "c"), ("a", "a", "b", "b"), ("a", "a", "a", "b"), ("a", "a", "b", "c", ""), ("a",) * 4]
)
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_replicas_are_different_brokers_in_as_many_racks_as_there_can_be(
    racks: tuple[str, ...], factor: int, seed: int
) -> None:
    nodes = brokers(*racks)
    rack_of = {node.broker_id: node.rack or f"alone-{node.broker_id}" for node in nodes}
    placed = place_replicas(nodes, 12, factor, random.Random(seed))
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert len({rack_of[replica] for replica in replicas}) == min(factor, len(set(rack_of.values())))


@pytest.mark.parametrize("racks", [("a", "b", "c"), ("a", "a", "b"), ("", "", "", "", "")])
def test_leaders_are_even_and_with_even_racks_replicas_too(racks: tuple[str, ...]) -> None:
    placed = place_replicas(brokers(*racks), 10 * len(racks), 2, random.Random(3))
    assert set(Counter(replicas[0] for replicas in placed).values()) == {10}
    if len(set(racks)) != 2:
        assert set(Counter(replica for replicas in placed for replica in replicas).values()) == {20}


@pytest.mark.parametrize("before", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("racks", [("", "", "", ""), ("a", "a", "b", "b"), ("a", "a", "b", "c")])
def test_more_partitions_go_on_as_if_all_had_been_placed_at_once(racks: tuple[str, ...], before: int) -> None:
    nodes = brokers(*racks)
    whole = place_replicas(nodes, 13, 2, random.Random(5))
    assert place_more_replicas(nodes, whole[:before], 13 - before, 2, random.Random(6)) == whole[before:]


@pytest.mark.parametrize("seed", range(20))
def test_more_partitions_make_leaders_as_even_as_their_number_allows(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 6)
    nodes = brokers(*(rng.choice(("a", "b", "")) for _ in range(count)))
    existing = [(rng.randint(1, count),) for _ in range(rng.randint(0, 9))]
    added = rng.randint(1, 12)
    placed = place_more_replicas(nodes, existing, added, 1, rng)
    before, after = (Counter(first for (first,) in replicas) for replicas in (existing, existing + placed))
    assert len(placed) == added and after.total() == len(existing) + added
    for first in {first for (first,) in placed}:  # a broker that got one has no more than any other, and one
        assert after[first] <= min(after[node.broker_id] for node in nodes) + 1
    assert all(after[node.broker_id] >= before[node.broker_id] for node in nodes)


def test_a_broker_that_joined_later_leads_new_partitions_first() -> None:
    assert place_more_replicas(brokers("", "", ""), [(1, 2), (2, 1), (1, 2)], 3, 2, random.Random(1)) == [
        (3, 1),
        (2, 3),
        (3, 1),
    ]


def test_a_topic_whose_leaders_are_all_gone_begins_anywhere() -> None:
    firsts = {place_more_replicas(brokers("", "", ""), [(9,)], 1, 1, random.Random(s))[0][0] for s in range(30)}
    assert firsts == {1, 2, 3}
