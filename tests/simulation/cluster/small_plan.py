"""A plan by hand, for tests of the simulator's own tools: it stays as it is when `draw_plan` changes."""

from __future__ import annotations

from tests.simulation.cluster.network import Weather
from tests.simulation.cluster.plan import Fault, NodePlan, Plan, ReaderPlan, TopicPlan, WriterPlan


def small_plan(*faults: Fault, seed: int = 1, seconds: float = 6.0) -> Plan:
    """Three combined nodes, a topic of two partitions on two of them each, a writer and a reader."""
    return Plan(
        seed,
        seconds,
        (NodePlan(True, True, 1, 1.0),) * 3,
        {
            "controller.quorum.election.timeout.ms": 500,
            "controller.quorum.fetch.timeout.ms": 1000,
            "broker.heartbeat.interval.ms": 200,
            "broker.session.timeout.ms": 1500,
            "replica.lag.time.max.ms": 1000,
            "default.replication.factor": 2,
            "min.insync.replicas": 1,
        },
        (TopicPlan("topic-0", 2, 2, {}),),
        (WriterPlan("topic-0", 1, 0.2, 2, is_keyed=False),),
        (ReaderPlan("topic-0", 0.05),),
        faults,
        Weather(),
        0.0,
    )
