"""Plans with one story: a power cut of the whole cluster, after which the disk of any one machine is gone.

Three replicas, `min.insync.replicas=2`, `flush.policy=fsync`. The cut comes at a drawn moment under load, often while
other faults have taken replicas out of the ISRs. Before the lost disk is replaced, the other machines must lead every
partition with all acked records (ADR 0017). Three seeds in a row differ in which of three machines it is.
"""

from __future__ import annotations

import random

from tests.simulation.cluster.network import Weather
from tests.simulation.cluster.plan import Fault, Kind, NodePlan, Plan, ReaderPlan, TopicPlan, WriterPlan

REPLICAS = 3
WITHOUT_SECONDS = 15.0
"""So long the machine with the lost disk is down: some five sessions and elections."""
BEFORE = (Kind.KILL, Kind.STOP, Kind.PAUSE, Kind.POWER, Kind.CUT, Kind.CUT_ONE_WAY, Kind.ISOLATE, Kind.SLOW_DISK)
"""None of them loses a disk: then the promise holds whatever else they did."""


def draw_lost_disk_plan(seed: int) -> Plan:
    """Everything follows from the seed."""
    draw = random.Random(f"lost disk {seed}")
    nodes = _draw_nodes(draw)
    brokers = [index for index, node in enumerate(nodes) if node.is_broker]
    cut_s = draw.uniform(1.0, 12.0)
    lost = brokers[seed % REPLICAS]
    faults = _draw_before(draw, len(nodes), cut_s) if draw.random() < 0.8 else []
    faults.append(Fault(cut_s, Kind.LOSE_IN_CUT, lost, lost, WITHOUT_SECONDS, draw.random()))
    return Plan(
        seed,
        cut_s + WITHOUT_SECONDS + 3.0,
        nodes,
        {
            "controller.quorum.election.timeout.ms": 500,
            "controller.quorum.fetch.timeout.ms": 1000,
            "broker.heartbeat.interval.ms": 200,
            "broker.session.timeout.ms": draw.choice((1500, 3000)),
            "replica.lag.time.max.ms": draw.choice((1000, 3000)),
            "replica.fetch.wait.max.ms": draw.choice((50, 500)),
            "default.replication.factor": REPLICAS,
            "min.insync.replicas": REPLICAS - 1,
            "log.segment.bytes": draw.choice((16_384, 1_073_741_824)),
        },
        (TopicPlan("topic-0", draw.choice((1, 2, 4)), REPLICAS, {}),),
        tuple(_draw_writer(draw) for _ in range(draw.choice((1, 2)))),
        (ReaderPlan("topic-0", 0.05),),
        tuple(faults),
        Weather(draw.choice((0.0005, 0.002, 0.01)), draw.choice((0.02, 0.2)), draw.choice((0, 2, 10))),
        draw.choice((0.0, 0.5)),
    )


def _draw_nodes(draw: random.Random) -> tuple[NodePlan, ...]:
    """Three voters: the brokers themselves, or some of them, or none of them."""
    shape = draw.choice(("together", "together", "apart", "more brokers"))
    dirs = draw.choice((1, 1, 2))
    if shape == "apart":
        return (NodePlan(False, True, 1, 1.0),) * 3 + (NodePlan(True, False, dirs, 1.0),) * REPLICAS
    more = draw.choice((1, 2)) if shape == "more brokers" else 0
    return (NodePlan(True, True, dirs, 1.0),) * REPLICAS + (NodePlan(True, False, dirs, 1.0),) * more


def _draw_before(draw: random.Random, nodes: int, cut_s: float) -> list[Fault]:
    faults = []
    for _ in range(draw.choice((1, 2, 4))):
        target = draw.randrange(nodes)
        other = draw.choice([index for index in range(nodes) if index != target])
        at_s = draw.uniform(0.0, cut_s)
        faults.append(Fault(at_s, draw.choice(BEFORE), target, other, draw.uniform(0.5, 8.0), draw.random()))
    return sorted(faults, key=lambda fault: fault.at_s)


def _draw_writer(draw: random.Random) -> WriterPlan:
    return WriterPlan("topic-0", draw.choice((0, 1, 20)), draw.choice((0.02, 0.05, 0.2)), draw.choice((1, 5)), False)
