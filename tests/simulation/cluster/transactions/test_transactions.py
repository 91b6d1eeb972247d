"""Transactions of each kind of client live through the death of every node, and are read whole."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.cluster.drawn_plan import draw_plan
from tests.simulation.cluster.plan import (
    Fault,
    Kind,
    Plan,
    StableReaderPlan,
    TopicKind,
    TopicPlan,
    TransactorKind,
    TransactorPlan,
)
from tests.simulation.cluster.small_plan import small_plan
from tests.simulation.cluster.world import World

CONFIG = {
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 1,
}


def transacted(*faults: Fault) -> Plan:
    """Two topics, a writer of each kind, readers of each kind."""
    plan = small_plan(*faults)
    topics = (
        TopicPlan("transacted-0", 2, 2, {}, TopicKind.TRANSACTED),
        TopicPlan("transacted-1", 1, 2, {}, TopicKind.TRANSACTED),
    )
    names = tuple(topic.name for topic in topics)
    readers = tuple(
        StableReaderPlan(name, 0.05, is_committed, by_ranges)
        for name in names
        for is_committed, by_ranges in ((True, False), (True, True), (False, False))
    )
    return replace(
        plan,
        topics=(*plan.topics, *topics),
        config={**plan.config, **CONFIG},
        transactors=tuple(TransactorPlan(kind, names, 0.1, 4, 1_000) for kind in TransactorKind),
        stable_readers=readers,
    )


def test_transactions_are_read_whole_though_each_node_dies() -> None:
    world = World(transacted(*(Fault(1.0 + 1.7 * node, Kind.KILL, node, 0, 0.3, 0.5) for node in range(3))))
    assert not world.run().failures
    assert world.clients.calls["transactions committed"] > 20
    assert world.clients.calls["transactions aborted"] > 1


def test_the_transactions_of_a_seed_leave_the_rest_of_its_plan_as_it_is() -> None:
    plans = [draw_plan(seed) for seed in range(100)]
    found = [plan for plan in plans if plan.transactors]
    assert 25 <= len(found) <= 45
    assert {each.kind for plan in found for each in plan.transactors} == set(TransactorKind)
    assert {(each.is_committed, each.by_ranges) for plan in found for each in plan.stable_readers} == {
        (is_committed, by_ranges) for is_committed in (False, True) for by_ranges in (False, True)
    }
    others = [p for p in plans if not (p.transactors or p.processings or p.sinks or p.calendars)]
    keys = {key for plan in others for key in plan.config}
    assert not any(key.startswith("transaction.") for key in keys)
