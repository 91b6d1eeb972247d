"""A plan says what it costs, leaves alone what it must not touch, and names why a broker cannot be drained."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.balance.cluster import BalancedBroker, BalancedPartition, ClusterState, DrainImpossibleError, Goal
from penstock.balance.plan import PreferredElection, Reassignment, spread
from penstock.balance.planner import make_plan

BROKERS = tuple(BalancedBroker(number) for number in (1, 2, 3))
EVEN = frozenset({Goal.REPLICAS, Goal.LEADERS})


def skewed(sizes: tuple[int | None, ...] = (10, 20, 30)) -> ClusterState:
    """Broker 3 has nothing yet."""
    partitions = (BalancedPartition("t", number, (1, 2), 1, size) for number, size in enumerate(sizes))
    return ClusterState(BROKERS, tuple(partitions))


def test_a_plan_has_its_cost_and_the_numbers_before_and_after() -> None:
    plan = make_plan(skewed(), EVEN)
    assert [(load.replicas, load.leaders, load.size_bytes) for load in plan.before] == [
        (3, 3, 60),
        (3, 0, 60),
        (0, 0, 0),
    ]
    assert [(load.replicas, load.leaders) for load in plan.after] == [(2, 1), (2, 1), (2, 1)]
    assert plan.replicas_moved == len(plan.moves) == 2
    assert plan.bytes_to_copy == sum(each.size_bytes or 0 for each in plan.moves) == plan.after[2].size_bytes
    assert spread(plan.before, lambda load: load.replicas) == 3 and spread(plan.after, lambda load: load.replicas) == 0


def test_the_cost_is_not_known_where_the_size_of_a_partition_that_is_copied_is_not_known() -> None:
    assert make_plan(skewed((None, None, None)), EVEN).bytes_to_copy is None
    assert make_plan(skewed((None,)), {Goal.LEADERS}).bytes_to_copy == 0


def test_what_copies_data_comes_before_what_only_changes_an_order() -> None:
    plan = make_plan(skewed((1,) * 12), EVEN)
    copies = [bool(each.added) for each in plan.reassignments]
    assert copies == sorted(copies, reverse=True) and set(copies) == {True, False}


def test_leaders_alone_copy_nothing() -> None:
    plan = make_plan(skewed(), {Goal.LEADERS})
    assert plan.reassignments == (Reassignment("t", 0, (1, 2), (2, 1), 10),)
    assert plan.elections == (PreferredElection("t", 0, 2),) and plan.replicas_moved == 0


def test_a_preferred_leader_that_does_not_lead_is_elected_by_a_plan_for_leaders_and_by_no_other() -> None:
    state = ClusterState(BROKERS, (BalancedPartition("t", 0, (1, 2), 2),))
    assert make_plan(state, {Goal.LEADERS}).elections == (PreferredElection("t", 0, 1),)
    assert make_plan(state, {Goal.REPLICAS}).is_empty


def test_a_partition_that_moves_already_is_counted_where_it_goes_and_left_alone() -> None:
    state = skewed((1, 1, 1))
    moving = tuple(replace(p, replicas=(3, 2), moving=True) for p in state.partitions[:2])
    plan = make_plan(ClusterState(BROKERS, (*moving, state.partitions[2])), EVEN)
    assert [load.replicas for load in plan.before] == [1, 3, 2] and plan.is_empty
    done = tuple(replace(p, moving=False) for p in moving)
    assert not make_plan(ClusterState(BROKERS, (*done, state.partitions[2])), EVEN).is_empty


def test_nothing_goes_to_a_broker_out_of_service_and_what_it_has_stays_there() -> None:
    brokers = (*BROKERS[:2], replace(BROKERS[2], in_service=False))
    partitions = (
        BalancedPartition("t", 0, (3, 1), 1),
        BalancedPartition("t", 1, (1,), 1),
        BalancedPartition("t", 2, (1,), 1),
    )
    plan = make_plan(ClusterState(brokers, partitions), {Goal.REPLICAS})
    assert plan.replicas_moved == 1 and all(3 not in each.added for each in plan.reassignments)
    assert plan.after[2].replicas == 1 and not plan.after[2].takes


def test_two_replicas_in_one_rack_part_where_another_rack_has_none() -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    state = ClusterState(
        tuple(BalancedBroker(number, rack) for number, rack in racks.items()), (BalancedPartition("t", 0, (1, 2), 1),)
    )
    (only,) = make_plan(state, {Goal.REPLICAS}).reassignments
    assert {racks[replica] for replica in only.after} == {"a", "b"} and len(only.added) == 1


def test_a_path_over_a_third_broker_is_taken_where_racks_forbid_the_direct_move() -> None:
    """Each partition of broker 1 has another replica in the rack of 3 and 4, so 1 gives to 2, and 2 to 3 or 4."""
    brokers = (BalancedBroker(1, "a"), BalancedBroker(2, "b"), BalancedBroker(3, "c"), BalancedBroker(4, "c"))
    replicas = [(1, 3), (1, 3), (1, 4), (1, 4), (2,), (2,), (2,)]
    partitions = tuple(BalancedPartition("t", number, each) for number, each in enumerate(replicas))
    plan = make_plan(ClusterState(brokers, partitions), {Goal.REPLICAS})
    assert [load.replicas for load in plan.before] == [4, 3, 2, 2] and plan.replicas_moved == 2
    assert sorted(load.replicas for load in plan.after) == [2, 3, 3, 3]
    assert all(len({1, 2} & set(each.after)) == 1 for each in plan.reassignments if len(each.after) == 2)


@pytest.mark.parametrize("in_service", [True, False])
def test_a_drained_broker_gives_away_its_leaderships_too_even_when_it_is_out_of_service(in_service: bool) -> None:
    state = skewed()
    drained = replace(BROKERS[0], draining=True, in_service=in_service)
    plan = make_plan(replace(state, brokers=(drained, *BROKERS[1:])), frozenset())
    assert all(set(each.after) == {2, 3} for each in plan.reassignments)
    assert plan.after[0].replicas == plan.after[0].leaders == 0 and plan.replicas_moved == 3
    assert abs(plan.after[1].leaders - plan.after[2].leaders) <= 1


def test_a_drain_that_leaves_too_few_brokers_is_refused_and_says_what_to_do() -> None:
    state = ClusterState((replace(BROKERS[0], draining=True), *BROKERS[1:]), (BalancedPartition("t", 0, (1, 2, 3), 1),))
    with pytest.raises(DrainImpossibleError, match=r"broker 1 .* t-0 .*\[2, 3\].*start another broker first"):
        make_plan(state, frozenset())


def test_a_drain_that_leaves_a_rack_empty_names_the_partitions_that_lose_it() -> None:
    brokers = (BalancedBroker(1, "a", draining=True), BalancedBroker(2, "b"), BalancedBroker(3, "b"))
    plan = make_plan(ClusterState(brokers, (BalancedPartition("t", 0, (1, 2), 1),)), frozenset())
    assert plan.fewer_racks == ("t-0",)


def test_an_empty_cluster_and_one_of_a_single_broker_need_nothing() -> None:
    assert make_plan(ClusterState((), ()), frozenset(Goal)).is_empty
    assert make_plan(ClusterState(BROKERS[:1], (BalancedPartition("t", 0, (1,), 1, 5),)), frozenset(Goal)).is_empty
