"""Placement: even leaders, even replicas, racks apart, and absent brokers only where they are needed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.controller.topics.placement import place_more_replicas, place_replicas
from metadata.registrations import BrokerRegistration


def broker(broker_id: int, rack: str, fenced: bool = False, stopping: bool = False) -> BrokerRegistration:
    return BrokerRegistration(broker_id, "p", 0, "host", 9192, rack, fenced, stopping, ())


def brokers(*racks: str, absent: Collection[int] = ()) -> list[BrokerRegistration]:
    return [broker(broker_id, rack, broker_id in absent) for broker_id, rack in enumerate(racks, start=1)]


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


# -- absent brokers ----------------------------------------------------------------------------------------------------

STATUSES = ((False, False), (True, False), (False, True), (True, True))
"""A broker is fenced, or not, and shuts down, or not; the first is in service."""


@st.composite
def clusters(draw: st.DrawFn) -> list[BrokerRegistration]:
    """Up to nine brokers, one of them in service at least."""
    drawn = draw(st.lists(st.tuples(st.sampled_from(("", "a", "b", "c")), st.sampled_from(STATUSES)), max_size=8))
    drawn.insert(draw(st.integers(0, len(drawn))), (draw(st.sampled_from(("", "a", "b", "c"))), STATUSES[0]))
    return [broker(broker_id, rack, *fields) for broker_id, (rack, fields) in enumerate(drawn, start=1)]


def racks_of(nodes: Sequence[BrokerRegistration]) -> Mapping[int, str]:
    return {node.broker_id: node.rack or f"alone-{node.broker_id}" for node in nodes}


def check_placed(nodes: Sequence[BrokerRegistration], placed: Sequence[tuple[int, ...]], factor: int) -> None:
    """All that holds for each partition by itself."""
    rack_of, active = racks_of(nodes), {node.broker_id for node in nodes if node.is_active}
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert replicas[0] in active, "an absent broker is the preferred leader"
        racks = {rack_of[replica] for replica in replicas}
        assert len(racks) == min(factor, len(set(rack_of.values()))), "racks apart come before brokers in service"
        for absent in set(replicas) - active:
            for instead in active.difference(replicas):
                others = {rack_of[replica] for replica in (*replicas, instead) if replica != absent}
                assert len(others) < len(racks), f"{instead} is in service, and absent {absent} is in its place"


@given(clusters(), st.integers(1, 30), st.data())
def test_an_absent_broker_never_leads_and_is_taken_only_where_none_in_service_does_as_well(
    nodes: list[BrokerRegistration], partitions: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(nodes)))
    placed = place_replicas(nodes, partitions, factor, random.Random(data.draw(st.integers(0, 99))))
    check_placed(nodes, placed, factor)
    firsts = Counter({node.broker_id: 0 for node in nodes if node.is_active})
    firsts.update(replicas[0] for replicas in placed)
    assert max(firsts.values()) - min(firsts.values()) <= 1, "leaders are even over the brokers in service"


@given(clusters(), st.integers(1, 12), st.data())
def test_new_partitions_of_a_topic_are_placed_by_the_same_rule(
    nodes: list[BrokerRegistration], added: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(nodes)))
    everybody = [broker(node.broker_id, node.rack) for node in nodes]
    rng = random.Random(data.draw(st.integers(0, 99)))
    existing = place_replicas(everybody, data.draw(st.integers(0, 9)), factor, rng)
    placed = place_more_replicas(nodes, existing, added, factor, rng)
    assert len(placed) == added
    check_placed(nodes, placed, factor)
    active = [node.broker_id for node in nodes if node.is_active]
    after = Counter(replicas[0] for replicas in (*existing, *placed))
    for first in {replicas[0] for replicas in placed}:
        assert after[first] <= min(after[broker_id] for broker_id in active) + 1


@given(clusters(), st.integers(1, 12), st.data())
def test_where_enough_racks_are_in_service_it_is_as_if_the_absent_brokers_were_not_there(
    nodes: list[BrokerRegistration], partitions: int, data: st.DataObject
) -> None:
    active = [node for node in nodes if node.is_active]
    factor = data.draw(st.integers(1, len({racks_of(nodes)[node.broker_id] for node in active})))
    seed = data.draw(st.integers(0, 99))
    placed = place_replicas(nodes, partitions, factor, random.Random(seed))
    assert placed == place_replicas(active, partitions, factor, random.Random(seed))


def test_one_of_three_is_away_and_every_partition_has_it_behind_the_two_others() -> None:
    placed = place_replicas(brokers("", "", "", absent=(2,)), 4, 3, random.Random(1))
    assert placed in ([(1, 3, 2), (3, 1, 2)] * 2, [(3, 1, 2), (1, 3, 2)] * 2)


def test_absent_brokers_share_the_replicas_that_they_are_needed_for() -> None:
    placed = place_replicas(brokers("", "", "", "", absent=(3, 4)), 8, 3, random.Random(1))
    assert Counter(replicas[2] for replicas in placed) == {3: 4, 4: 4}


def test_a_rack_that_is_away_as_a_whole_keeps_its_share_of_the_copies() -> None:
    placed = place_replicas(brokers("a", "a", "b", "b", absent=(3, 4)), 8, 2, random.Random(1))
    assert {replicas[0] for replicas in placed} == {1, 2}
    assert {replicas[1] for replicas in placed} == {3, 4}


def test_a_broker_that_is_back_leads_the_next_partitions_of_a_topic_made_without_it() -> None:
    without = place_replicas(brokers("", "", "", absent=(2,)), 4, 3, random.Random(1))
    assert 2 not in {replicas[0] for replicas in without}
    more = place_more_replicas(brokers("", "", ""), without, 2, 3, random.Random(1))
    assert [replicas[0] for replicas in more] == [2, 2]
