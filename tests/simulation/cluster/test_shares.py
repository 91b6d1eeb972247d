"""Flooders hold nobody up but themselves, and the invariants notice a broker that lets them (I86 to I88)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.simulation.cluster.drawn_plan import draw_plan
from tests.simulation.cluster.flood_plan import FloodKind, FloodOrigin
from tests.simulation.cluster.kafka.flooder import Flooder
from tests.simulation.cluster.kafka.sockets import SOCKET_BYTES
from tests.simulation.cluster.mutants.edit import Mutant, switched_on
from tests.simulation.cluster.mutants.shares import SHARES, flooded
from tests.simulation.cluster.plan import Plan, SecurityPlan
from tests.simulation.cluster.world import Outcome, World
from tests.support.amount import usually


def outcome_of(plan: Plan) -> Outcome:
    return World(plan).run()


@pytest.mark.parametrize("kind", usually([FloodKind.DRIP, FloodKind.RUSH], long=[*FloodKind]))
def test_beside_flooders_all_is_acked_in_time(kind: FloodKind) -> None:
    (plan,) = flooded(kind, parties=2, origin=FloodOrigin.ONE_64, seconds=6.0)
    outcome = outcome_of(plan)
    assert not outcome.failures and outcome.acked > 100


@pytest.mark.parametrize("mutant", usually(SHARES[:1], long=SHARES), ids=lambda mutant: mutant.name)
def test_a_mistake_in_what_is_shared_is_noticed_in_its_first_story(mutant: Mutant) -> None:
    with switched_on(mutant):
        failures = outcome_of(mutant.stories[0]).failures
    assert any(number in " ".join(failures) for number in ("I86", "I87", "I88", "I55"))


def test_a_tenant_that_logs_in_is_one_party_from_all_of_its_addresses() -> None:
    (plan,) = flooded(FloodKind.HOLD, origin=FloodOrigin.MANY, security=SecurityPlan(1, 1.0, forges=False))
    world = World(replace(plan, floods=tuple(replace(flood, logs_in=True) for flood in plan.floods)))
    parties: set[str] = set()
    _each_second(world, lambda: parties.update(_parties_of_users(world)))
    assert not world.run().failures
    assert "User:tenant" in parties and not any(name.startswith("10.") for name in parties)


def test_a_client_that_reads_nothing_leaves_its_answers_with_the_broker_until_it_is_cut() -> None:
    (plan,) = flooded(FloodKind.DEAF, 300_000, connections=2)
    world, unread = World(plan), list[int]()
    _each_second(world, lambda: unread.append(_unread(world)))
    assert not world.run().failures
    assert max(unread) > SOCKET_BYTES and 0 in unread[unread.index(max(unread)) :]


def test_floods_are_drawn_of_every_kind_and_origin_and_most_seeds_have_none() -> None:
    plans = [draw_plan(seed) for seed in range(300)]
    floods = [flood for plan in plans for flood in plan.floods]
    assert {flood.kind for flood in floods} == set(FloodKind)
    assert {flood.origin for flood in floods} == set(FloodOrigin)
    assert 15 <= sum(bool(plan.floods) for plan in plans) <= 60
    assert any(plan.floods and plan.faults for plan in plans) and all(plan.has_kafka for plan in plans if plan.floods)


def test_one_flooder_of_a_64_has_many_addresses() -> None:
    (plan,) = flooded(FloodKind.RUSH, origin=FloodOrigin.ONE_64)
    flooder = Flooder(World(plan).clients, 0, plan.floods[0])
    assert [flooder.host(number) for number in range(2)] == ["2001:db8:0:1::1", "2001:db8:0:1::2"]


def _each_second(world: World, look: Callable[[], object]) -> None:
    for second in range(1, 12):
        world.at(world.scheduler.now_s + second, look)


def _parties_of_users(world: World) -> set[str]:
    shares = [life.shares for life in world.invariants.living()]
    return {name for each in shares if each is not None for name in each.of_users["small requests"].parties}


def _unread(world: World) -> int:
    return sum(connection.unwritten for connection in world.machines[0].kafka_connections())
