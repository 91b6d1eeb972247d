"""A story's faults come when and where its plan says, and a whole cluster has to ack."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.node.node import Node
from broker.replication.leader.leader_appends import LeaderAppends
from penstock.errors import InvariantViolation
from penstock.spark.log_client import LogClient
from tests.simulation.cluster.client_invariants import ClientInvariants
from tests.simulation.cluster.clients.checkpointed import KnownAnswers
from tests.simulation.cluster.mutants.edit import Edit, Mutant, switched_on
from tests.simulation.cluster.neighbour_invariants import NeighbourInvariants
from tests.simulation.cluster.plan import Aim, Fault, Kind, NodePlan, OperatorPlan, ReaderPlan, Task, TopicKind
from tests.simulation.cluster.small_plan import small_plan
from tests.simulation.cluster.world import World


def test_a_cluster_that_is_whole_and_acks_nothing_is_found_as_it_works_and_as_it_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wait = "waiters_of(partition, acks).add(info.last_offset + 1, waiter)"
    mutant = Mutant("nothing is acked", "", (Edit(LeaderAppends.when_acked, wait, "pass"),))
    monkeypatch.setattr(NeighbourInvariants, "deep", lambda self, now_s: None)  # I55 would see it sooner
    with switched_on(mutant):
        assert World(small_plan(seconds=1.0)).run().failures[0].startswith("I34: ")
        monkeypatch.setattr(ClientInvariants, "answered", lambda self, topic, waited_s, now_s: None)
        failures = World(small_plan(seconds=1.0)).run().failures
    assert any(" ms for an ack of topic-0 of a whole cluster" in failure for failure in failures)


def test_a_fault_that_waits_comes_when_the_cluster_works_again_and_those_behind_it_so_much_later() -> None:
    dark = Fault(1.0, Kind.POWER_ALL, 0, 1, 1.0, 0.5)
    faults = dark, Fault(1.2, Kind.COLD, 0, 1, 0.1, 0.5, waits_s=6.0), Fault(1.3, Kind.WALL_JUMP, 0, 1, 0.1, 0.5)
    outcome = World(small_plan(*faults, seconds=7.0)).run()
    assert not outcome.failures
    assert outcome.met["COLD", "NO_CONTROLLER"] == outcome.met["COLD", "NO_LEADER"] == 0
    begun = [float(text.split()[0]) for text in outcome.log if " fault: " in text]
    assert begun[1] > begun[0] + 1.0 and abs(begun[2] - begun[1] - 0.1) < 0.01


def test_a_fault_finds_the_node_that_it_is_aimed_at() -> None:
    faults = Fault(1.0, Kind.COLD, 0, 1, 0.1, 0.5, Aim.CONTROLLER), Fault(1.0, Kind.BREAK, 0, 1, 0.1, 0.5, Aim.LEADER)
    met = World(small_plan(*faults)).run().met
    assert met["COLD", "ON_CONTROLLER"] == met["BREAK", "ON_LEADER"] == 1


def test_a_topic_gets_partitions_which_its_clients_find_while_they_work() -> None:
    plan = replace(small_plan(seconds=6.0), operators=(OperatorPlan(Task.GROW, "topic-0", 0.4),))
    plan = replace(plan, readers=(ReaderPlan("topic-0", 0.05),))
    world = World(plan)
    assert not world.run().failures
    clients = world.clients
    assert clients.calls["partitions added"] == clients.counts["topic-0"] - plan.topics[0].partitions > 1
    assert clients.ends is not None
    written = [tp.partition for tp, end in clients.ends.items() if end and tp.partition >= plan.topics[0].partitions]
    assert written, "producers have found the new partitions"


def test_a_topic_that_grows_and_is_made_anew_has_lost_no_partition() -> None:
    """The new topic begins with its first number of partitions: operators count those of one topic, not of one name."""
    operators = OperatorPlan(Task.REMAKE, "topic-0", 0.7), OperatorPlan(Task.GROW, "topic-0", 0.3)
    plan = replace(small_plan(seconds=5.0), operators=operators)
    plan = replace(plan, topics=tuple(replace(topic, kind=TopicKind.REMADE) for topic in plan.topics))
    world = World(plan)
    assert not world.run().failures
    assert len(world.invariants.metadata.ids_of("topic-0")) > 2 and world.clients.calls["partitions added"] > 2


def test_an_operator_who_makes_topics_of_two_brokers_spares_the_last_one_in_service() -> None:
    """Else every broker is out of service by his own order, and the refusal of his topics is right."""
    nodes = tuple(
        NodePlan(is_broker=number > 0, is_voter=number == 0, log_dirs=1, clock_rate=1.0) for number in (0, 1, 2)
    )
    plan = replace(small_plan(seconds=8.0), nodes=nodes, operators=(OperatorPlan(Task.MAKE, "topic-0", 0.3),))
    world = World(plan)
    assert not world.run().failures
    assert world.clients.calls["last brokers spared"] and world.clients.calls["made with a broker out"]


def test_a_node_that_ends_by_an_invariant_of_its_own_fails_the_story_though_it_is_started_again() -> None:
    world = World(small_plan())
    machine = world.machines[0]

    def break_down() -> None:
        assert machine.process is not None and machine.node is not None
        found = InvariantViolation("told by a test")
        world.scheduler.at(
            world.scheduler.now_s, machine.process, lambda: machine.node and machine.node.failures.on_fatal(found)
        )

    world.at(world.scheduler.now_s + 2.0, break_down)
    outcome = world.run()
    assert outcome.failures == ["node-0 found a mistake of its own: told by a test"]
    assert machine.lives == 2


def test_a_start_that_ends_by_an_unexpected_error_fails_the_story_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: Node) -> None:
        raise KeyError("nobody expects this")

    monkeypatch.setattr(Node, "start", start)
    world = World(small_plan(seconds=1.0))
    assert "nobody has caught KeyError('nobody expects this')" in world.run().failures[0]
    assert world.outcome.seconds < 1.0


def test_clients_of_a_second_listener_go_to_its_addresses_alone_through_a_leader_that_is_killed() -> None:
    plan = replace(small_plan(Fault(1.0, Kind.KILL, 1, 0, 1.0, 0.5, Aim.LEADER)), outside=True)
    outcome = World(plan).run()
    assert not outcome.failures and outcome.acked > 20


def test_the_planning_code_of_spark_may_ask_whatever_it_asks_there() -> None:
    questions = {name for name in vars(LogClient) if not name.startswith("_")}
    assert questions > {"seen"} and questions <= vars(KnownAnswers).keys()
