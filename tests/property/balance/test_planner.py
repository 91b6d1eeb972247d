"""A plan keeps every rule of placement, makes no move without gain, and is over: the state after it needs none."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import combinations, product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.balance.byte_counts import BYTES_TOLERANCE
from penstock.balance.cluster import BalancedBroker, BalancedPartition, ClusterState, DrainImpossibleError, Goal
from penstock.balance.plan import BrokerLoad, Plan, after_plan, loads_of, spread
from penstock.balance.planner import make_plan
from tests.support.amount import usually

EXAMPLES = settings(max_examples=usually(15, long=60), deadline=None, derandomize=True)
ALL = frozenset(Goal)
EVEN = frozenset({Goal.REPLICAS, Goal.LEADERS})


CORDONED = st.sampled_from((False, False, False, True))


@st.composite
def clusters(
    draw: st.DrawFn, racks: int = 3, out_of_service: bool = True, moving: bool = True, draining: bool = False
) -> ClusterState:
    ids = draw(st.lists(st.integers(0, 20), min_size=1, max_size=7, unique=True))
    rack = st.sampled_from(["", *(f"r{number}" for number in range(racks))]) if racks else st.just("")
    in_service = st.booleans() if out_of_service else st.just(True)
    brokers = tuple(
        BalancedBroker(
            id_,
            draw(rack),
            draw(in_service) or draw(in_service),
            draining and draw(st.booleans()),
            out_of_service and draw(CORDONED),
        )
        for id_ in ids
    )
    rng = random.Random(draw(st.integers(0, 1 << 30)))
    partitions = []
    for topic in range(draw(st.integers(0, 3))):
        factor, skew = rng.randint(1, len(ids)), rng.choice((0.0, 1.0, 3.0))
        for index in range(rng.randint(1, 12)):
            weights = {id_: rng.random() / (1 + skew * place) for place, id_ in enumerate(ids)}
            replicas = tuple(sorted(ids, key=lambda id_: -weights[id_])[:factor])
            size = rng.choice((None, 0, rng.randint(1, 1000), 500))
            is_moving = moving and rng.random() < 0.1
            partitions.append(BalancedPartition(f"t{topic}", index, replicas, rng.choice(replicas), size, is_moving))
    rng.shuffle(partitions)
    return ClusterState(brokers, tuple(partitions))


goals = st.sets(st.sampled_from(sorted(Goal))).map(frozenset)


def racks_of(state: ClusterState, replicas: tuple[int, ...]) -> set[str]:
    racks = {broker.broker_id: broker.rack for broker in state.brokers}
    return {racks[replica] or f"own {replica}" for replica in replicas}


def takers(state: ClusterState) -> set[int]:
    return {
        broker.broker_id for broker in state.brokers if broker.in_service and not (broker.draining or broker.cordoned)
    }


def check_rules(state: ClusterState, plan: Plan) -> None:
    able = takers(state)
    draining = {broker.broker_id for broker in state.brokers if broker.draining}
    before = {(p.topic, p.index): p for p in state.partitions}
    assert len({(each.topic, each.index) for each in plan.reassignments}) == len(plan.reassignments)
    for each in plan.reassignments:
        partition = before[each.topic, each.index]
        assert not partition.moving and each.before == partition.replicas != each.after
        assert len(set(each.after)) == len(each.after) == len(each.before)
        assert set(each.added) <= able
        gone = set(each.before) - set(each.after)
        assert gone <= able | draining, "what a broker out of service has stays there"
        if len(racks_of(state, each.after)) < len(racks_of(state, each.before)):
            assert partition.name in plan.fewer_racks and gone & draining
            unused = {broker_id for broker_id in able if broker_id not in each.after}
            assert not any(racks_of(state, (broker_id,)) - racks_of(state, each.after) for broker_id in unused)
    for election in plan.elections:
        partition = before[election.topic, election.index]
        assert not partition.moving and election.leader_id in able and election.leader_id != partition.leader_id


@EXAMPLES
@given(clusters(draining=True), goals)
def test_a_plan_keeps_every_rule_and_the_state_after_it_needs_none(
    state: ClusterState, wanted: frozenset[Goal]
) -> None:
    try:
        plan = make_plan(state, wanted)
    except DrainImpossibleError:
        able = takers(state)
        draining = {broker.broker_id for broker in state.brokers if broker.draining}
        assert any(
            draining & set(p.replicas) and len(able - set(p.replicas)) < len(draining & set(p.replicas))
            for p in state.partitions
        )
        return
    check_rules(state, plan)
    done = after_plan(state, plan)
    assert (plan.before, plan.after) == (loads_of(state), loads_of(done))
    assert make_plan(done, wanted).is_empty
    for broker in state.brokers:
        if broker.draining:
            assert all(p.moving for p in done.partitions if broker.broker_id in p.replicas)


@EXAMPLES
@given(clusters(), goals, st.randoms(use_true_random=False))
def test_a_plan_is_decided_by_the_state_alone(state: ClusterState, wanted: frozenset[Goal], rng: random.Random) -> None:
    brokers, partitions = list(state.brokers), list(state.partitions)
    rng.shuffle(brokers)
    rng.shuffle(partitions)
    assert make_plan(ClusterState(tuple(brokers), tuple(partitions)), wanted) == make_plan(state, wanted)


def fewest_moves(state: ClusterState, able: set[int]) -> int:
    """No plan evens the counts with fewer: each move takes one from a broker and gives one to another."""
    counts = Counter(dict.fromkeys(able, 0))
    counts.update(r for p in state.partitions for r in p.replicas if r in able)
    least, more = divmod(counts.total(), len(able))
    return max(
        sum(max(0, count - least - (more > 0)) for count in counts.values()),
        sum(max(0, least - count) for count in counts.values()),
    )


@EXAMPLES
@given(clusters(racks=0, out_of_service=False, moving=False))
def test_without_racks_replicas_and_leaders_are_evened_with_the_fewest_moves_that_can_do_it(
    state: ClusterState,
) -> None:
    plan = make_plan(state, EVEN)
    assert plan.replicas_moved == fewest_moves(state, takers(state))
    assert spread(plan.after, lambda load: load.replicas) <= 1
    factors = {len(partition.replicas) for partition in state.partitions}
    if factors and min(factors) == len(state.brokers):
        assert spread(plan.after, lambda load: load.leaders) <= 1


def rack_sets(state: ClusterState, size: int) -> list[tuple[int, ...]]:
    sets = list(combinations(sorted(takers(state)), size))
    most = max(len(racks_of(state, each)) for each in sets)
    return [each for each in sets if len(racks_of(state, each)) == most]


def squares(numbers: Counter[int]) -> int:
    return sum(number * number for number in numbers.values())


@settings(max_examples=usually(15, long=40), deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=2, max_size=4), st.integers(1, 3), st.integers(0, 1 << 20)
)
def test_with_racks_no_placement_of_the_same_partitions_is_more_even(racks: list[str], factor: int, seed: int) -> None:
    assume(factor <= len(racks))
    rng = random.Random(seed)
    brokers = tuple(BalancedBroker(number, rack) for number, rack in enumerate(racks))
    drawn = (rng.sample(range(len(racks)), factor) for _ in range(rng.randint(1, 4)))
    partitions = [BalancedPartition("t", number, tuple(each), each[0]) for number, each in enumerate(drawn)]
    state = ClusterState(brokers, tuple(partitions))
    done = after_plan(state, make_plan(state, EVEN))
    sets = rack_sets(state, factor)
    best = min(squares(Counter(r for each in chosen for r in each)) for chosen in product(sets, repeat=len(partitions)))
    assert squares(Counter(r for p in done.partitions for r in p.replicas)) == best
    leaders = Counter(p.replicas[0] for p in done.partitions)
    least_led = min(squares(Counter(chosen)) for chosen in product(*(p.replicas for p in done.partitions)))
    assert squares(leaders) == least_led


@EXAMPLES
@given(clusters(), goals)
def test_no_move_is_without_gain(state: ClusterState, wanted: frozenset[Goal]) -> None:
    """Each goal is better than before, or as good; and where data is copied, one of those that need it is better."""
    plan = make_plan(state, wanted)
    if not plan.replicas_moved:
        return
    assert wanted & {Goal.REPLICAS, Goal.BYTES}, "an order of replicas copies nothing"

    def unevenness(loads: tuple[BrokerLoad, ...]) -> tuple[int, ...]:
        counted = [load for load in loads if load.takes]
        return sum(load.replicas**2 for load in counted), sum(load.size_bytes**2 for load in counted)

    def lost_racks(partitions: tuple[BalancedPartition, ...]) -> int:
        return -sum(len(racks_of(state, partition.replicas)) for partition in partitions)

    before = (lost_racks(state.partitions), *unevenness(plan.before))
    after = (lost_racks(after_plan(state, plan).partitions), *unevenness(plan.after))
    if Goal.REPLICAS in wanted:
        assert after < before
    else:
        assert after[2] < before[2] and after[0] <= before[0]


@EXAMPLES
@given(st.integers(1, 60), st.integers(1, 3), st.integers(3, 6), st.integers(0, 1 << 20))
def test_a_broker_that_joins_takes_its_share_and_nothing_else_moves(
    count: int, factor: int, brokers: int, seed: int
) -> None:
    rng = random.Random(seed)
    start = ClusterState(
        tuple(BalancedBroker(number) for number in range(brokers)),
        tuple(
            BalancedPartition(f"t{number % 4}", number // 4, tuple(rng.sample(range(brokers), factor)))
            for number in range(count)
        ),
    )
    even = after_plan(start, make_plan(start, EVEN))
    grown = replace(even, brokers=(*even.brokers, BalancedBroker(brokers)))
    plan = make_plan(grown, EVEN)
    share = count * factor // (brokers + 1)
    assert plan.replicas_moved == share
    assert all(each.added == (brokers,) for each in plan.moves)
    assert plan.after[-1].replicas == share and spread(plan.after, lambda load: load.replicas) <= 1
    assert spread(plan.after, lambda load: load.leaders) <= 1
    for topic in range(4):
        mine = [p for p in after_plan(grown, plan).partitions if p.topic == f"t{topic}"]
        assert abs(sum(brokers in p.replicas for p in mine) - len(mine) * factor / (brokers + 1)) <= 3


@EXAMPLES
@given(clusters(out_of_service=False, moving=False), st.integers(0, 6))
def test_a_drain_moves_what_the_broker_has_and_nothing_else(state: ClusterState, which: int) -> None:
    drained = state.brokers[which % len(state.brokers)].broker_id
    marked = replace(state, brokers=tuple(replace(b, draining=b.broker_id == drained) for b in state.brokers))
    has = [p for p in state.partitions if drained in p.replicas]
    if any(len(p.replicas) == len(state.brokers) for p in has):
        with pytest.raises(DrainImpossibleError, match="start another broker first"):
            make_plan(marked, frozenset())
        return
    plan = make_plan(marked, frozenset())
    assert {(each.topic, each.index) for each in plan.moves} == {(p.topic, p.index) for p in has}
    assert plan.replicas_moved == len(has) and len(plan.reassignments) == len(has)
    done = after_plan(marked, plan)
    assert not any(drained in p.replicas or p.leader_id == drained for p in done.partitions)


@EXAMPLES
@given(st.integers(0, 1 << 20), st.booleans())
def test_bytes_come_within_the_tolerance_where_there_are_small_replicas_enough(seed: int, with_replicas: bool) -> None:
    rng = random.Random(seed)
    partitions = []
    for number in range(120):
        replicas = tuple(sorted(range(5), key=lambda id_: rng.random() * (1 + 2 * id_))[:2])
        partitions.append(BalancedPartition("t", number, replicas, replicas[0], rng.randint(1, 100)))
    state = ClusterState(tuple(BalancedBroker(number) for number in range(5)), tuple(partitions))
    plan = make_plan(state, ALL if with_replicas else {Goal.BYTES})
    sizes = [load.size_bytes for load in plan.after]
    mean = sum(sizes) / len(sizes)
    assert all(abs(size - mean) <= BYTES_TOLERANCE * mean for size in sizes)
    assert not with_replicas or spread(plan.after, lambda load: load.replicas) <= 1
