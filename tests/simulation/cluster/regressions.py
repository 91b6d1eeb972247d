"""Stories that once failed, as plans: `draw_plan` changes, so a seed does not tell the same story for ever.

A new one comes from `python -m tests.simulation.cluster --shrink SEED`. What differs from run to run is drawn from the
plan's seed, so a change of the product or of the simulator may make a story a harmless one; it costs little to keep.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.cluster.network import Weather
from tests.simulation.cluster.plan import NodePlan, OperatorPlan, Plan, Task, TopicKind, TopicPlan, WriterPlan


@dataclass(frozen=True, slots=True)
class Regression:
    """`why`: what was wrong, in a sentence."""

    name: str
    why: str
    plan: Plan


REGRESSIONS = (
    Regression(
        "an ack of a topic that is being remade",
        "I14's check knew nothing of the records that a leader commits after the controller has deleted their topic and"
        " before the leader hears of it.",
        Plan(
            seed=1000051,
            seconds=16.0,
            nodes=(NodePlan(True, True, 1, 1.0),) * 2,
            config={
                "controller.quorum.election.timeout.ms": 500,
                "controller.quorum.fetch.timeout.ms": 1500,
                "broker.heartbeat.interval.ms": 200,
                "broker.session.timeout.ms": 1500,
                "replica.lag.time.max.ms": 1000,
                "default.replication.factor": 2,
                "min.insync.replicas": 1,
                "log.retention.check.interval.ms": 2000,
                "log.segment.delete.delay.ms": 60_000,
                "log.cleaner.backoff.ms": 1000,
                "log.cleaner.dedupe.buffer.size": 1_048_576,
            },
            topics=(TopicPlan("topic-1", 2, 2, {}, TopicKind.REMADE),),
            writers=(WriterPlan("topic-1", 0, 0.05, 2, is_keyed=True),),
            readers=(),
            faults=(),
            weather=Weather(),
            cold_share=0.0,
            operators=(OperatorPlan(Task.REMAKE, "topic-1", 1.0),),
        ),
    ),
)
