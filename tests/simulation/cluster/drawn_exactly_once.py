"""Draws who writes exactly once: groups that read, process and write, and applications of atomic batches.

From a randomness of their own, so the rest of the plan stays as it is. Both write to a topic of transactions of their
own, which stays. What a plan can hold is in plan.py.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulation.cluster.drawn_groups import group_config
from tests.simulation.cluster.drawn_transactions import transaction_config
from tests.simulation.cluster.plan import Plan, ProcessingPlan, SinkPlan, TopicKind, TopicPlan

PROCESSING_SHARE, SINK_SHARE = 0.1, 0.1
"""In so many of the plans; not where brokers may know too few producers."""
TROUBLED_SHARE = 0.8


def with_exactly_once(plan: Plan) -> Plan:
    draw = random.Random(f"exactly once {plan.seed}")
    number = draw.random()
    if number >= PROCESSING_SHARE + SINK_SHARE or any(key.startswith("producer.id") for key in plan.config):
        return plan
    replication = min(plan.topics[0].replication_factor, len(plan.brokers))
    made = TopicPlan("made", draw.choice((1, 2, 3)), replication, {}, TopicKind.TRANSACTED)
    brokers = len(plan.brokers)
    config = {**transaction_config(draw, brokers), **group_config(draw, brokers), **plan.config}
    plan = replace(plan, topics=(*plan.topics, made), config=config)
    is_troubled = draw.random() < TROUBLED_SHARE
    if number < SINK_SHARE:
        sink = SinkPlan(
            "sink",
            made.name,
            draw.choice((1, 3, 6)),
            draw.choice((0.1, 0.5)),
            draw.choice((2, 8)),
            draw.choice((1_000, 2_500)),
            is_troubled,
        )
        return replace(plan, sinks=(sink,))
    topics = _inputs(plan)
    processing = ProcessingPlan(
        "processing",
        (draw.choice(topics),),
        made.name,
        draw.choice((1, 2, 3)),
        draw.choice((0.1, 0.4)),
        draw.choice((20, 100)),
        draw.choice((2_000, 8_000)),
        is_troubled,
    )
    return replace(plan, processings=(processing,))


def _inputs(plan: Plan) -> list[str]:
    """Topics that stay, and have a record at each offset."""
    return [topic.name for topic in plan.topics if topic.kind is TopicKind.PLAIN]
