"""Draws the consumer groups of a seed, from a randomness of their own: the rest of the plan stays as it is.

The groups read topics that stay, or are made anew where all of their members name topics by id. What a plan can hold is
in plan.py.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulation.cluster.plan import GroupPlan, MemberKind, MemberPlan, Plan, TopicKind

GROUPS_SHARE = 0.3
"""In so many of the plans there are groups."""
STATIC_SHARE, RANGE_SHARE, BY_NAME_SHARE = 0.3, 0.3, 0.5
BOOKKEEPER_SHARE = 0.5
MEMBERS_MAX = 6
SESSION_MS, HEARTBEAT_MS, CHECK_MS = 2_500, 300, 1_000
MIXES = (
    (MemberKind.CONSUMER,),
    (MemberKind.CLASSIC,),
    (MemberKind.OURS,),
    (MemberKind.OURS, MemberKind.CONSUMER),
    (MemberKind.CONSUMER, MemberKind.CLASSIC),
    (MemberKind.OURS, MemberKind.CLASSIC),
)
"""Kinds of members that are in one group. One of both protocols moves between them while members come and go."""


def with_groups(plan: Plan) -> Plan:
    """One or two groups of one to six members."""
    draw = random.Random(f"groups {plan.seed}")
    if draw.random() >= GROUPS_SHARE:
        return plan
    topics = [topic.name for topic in plan.topics if topic.kind is TopicKind.PLAIN]
    remade = [topic.name for topic in plan.topics if topic.kind is TopicKind.REMADE]
    groups = tuple(_draw_group(draw, number, topics, remade) for number in range(draw.choice((1, 1, 2))))
    if draw.random() < BOOKKEEPER_SHARE:
        keeper = MemberPlan(MemberKind.BOOKKEEPER, draw.choice((0.05, 0.3)))
        groups = (*groups, GroupPlan("books", (draw.choice(topics),), (keeper,)))
    return replace(plan, groups=groups, config={**plan.config, **group_config(draw, len(plan.brokers))})


def group_config(draw: random.Random, brokers: int) -> dict[str, object]:
    return {
        "offsets.topic.num.partitions": draw.choice((1, 2, 3)),
        "offsets.topic.replication.factor": min(3, brokers),
        "offsets.topic.segment.bytes": draw.choice((4_096, 65_536, 100 << 20)),
        "offsets.retention.minutes": draw.choice((1, 10_080)),
        "offsets.retention.check.interval.ms": CHECK_MS,
        "group.initial.rebalance.delay.ms": draw.choice((0, 300)),
        "group.min.session.timeout.ms": 1_000,
        "group.consumer.session.timeout.ms": SESSION_MS,
        "group.consumer.heartbeat.interval.ms": HEARTBEAT_MS,
    }


def _draw_group(draw: random.Random, number: int, topics: list[str], remade: list[str]) -> GroupPlan:
    kinds, count = draw.choice(MIXES), draw.randint(1, MEMBERS_MAX)
    chosen = draw.sample(topics, draw.randint(1, min(2, len(topics))))
    strategy, by_id = draw.choice(("range", "cooperative-sticky")), draw.random() < BY_NAME_SHARE
    if remade and kinds == (MemberKind.CONSUMER,) and draw.random() < BY_NAME_SHARE:
        chosen, by_id = [*chosen[:1], draw.choice(remade)], True
    members = tuple(
        MemberPlan(
            draw.choice(kinds),
            draw.choice((0.05, 0.2, 0.5)),
            draw.random() < STATIC_SHARE,
            draw.choice((None, "uniform", "range")),
            by_name=not by_id,
        )
        for _ in range(count)
    )
    return GroupPlan(f"group-{number}", tuple(chosen), members, strategy)
