"""Draws the transactions of a seed, from a randomness of their own: the rest of the plan stays as it is.

They have topics of their own, some of which are made anew, compacted or trimmed, and which every fault and every
operator that is drawn for all topics meets, too. What a plan can hold is in plan.py.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulation.cluster.plan import (
    OperatorPlan,
    Plan,
    StableReaderPlan,
    Task,
    TopicKind,
    TopicPlan,
    TransactorKind,
    TransactorPlan,
)

TRANSACTIONS_SHARE = 0.4
"""In so many of the plans there are transactions, but for those in which brokers may know too few producers."""
KAFKA_SHARE, PLAIN_SHARE, TROUBLED_SHARE = 0.3, 0.3, 0.8
REMADE_SHARE, TRIMMED_SHARE, COMPACTED_SHARE, SMALL_SHARE = 0.2, 0.15, 0.2, 0.3
MOVED_SHARE = 0.3
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": 4096, "min.cleanable.dirty.ratio": "0.01"}
QUIET_RETENTION_MS = 2_000
"""Where there are no faults. A replica that is away for longer than it may miss a marker (docs/data-directory.md)."""


def with_transactions(plan: Plan) -> Plan:
    """One or two topics, one to three writers and as many readers; not where brokers may know too few producers."""
    draw = random.Random(f"transactions {plan.seed}")
    if draw.random() >= TRANSACTIONS_SHARE or any(key.startswith("producer.id.max") for key in plan.config):
        return plan
    topics = tuple(_draw_topic(draw, plan, f"transacted-{number}") for number in range(draw.choice((1, 2, 2))))
    names = tuple(topic.name for topic in topics)
    writers = [_draw_writer(draw, names) for _ in range(draw.choice((1, 1, 2, 3)))]
    if draw.random() < PLAIN_SHARE:
        writers.append(TransactorPlan(TransactorKind.PLAIN, names, draw.choice((0.2, 0.5)), 3))
    readers = [_draw_reader(draw, name) for name in names]
    readers += [_draw_reader(draw, draw.choice(names)) for _ in range(draw.choice((0, 1)))]
    return replace(
        plan,
        topics=(*plan.topics, *topics),
        operators=(*plan.operators, *_draw_operators(draw, topics)),
        transactors=tuple(writers),
        stable_readers=tuple(readers),
        config={**plan.config, **transaction_config(draw, len(plan.brokers))},
    )


def transaction_config(draw: random.Random, brokers: int) -> dict[str, object]:
    return {
        "transaction.state.log.num.partitions": draw.choice((1, 2, 3)),
        "transaction.state.log.replication.factor": min(3, brokers),
        "transaction.state.log.min.isr": draw.choice((1, 2)),
        "transaction.state.log.segment.bytes": draw.choice((4_096, 65_536, 100 << 20)),
    }


def _draw_topic(draw: random.Random, plan: Plan, name: str) -> TopicPlan:
    config: dict[str, object] = {}
    if draw.random() < SMALL_SHARE:
        config = {"segment.bytes": 4096}
    if draw.random() < COMPACTED_SHARE:
        config = COMPACTED if plan.faults else COMPACTED | {"delete.retention.ms": QUIET_RETENTION_MS}
    replication = min(plan.topics[0].replication_factor, len(plan.brokers))
    return TopicPlan(name, draw.choice((1, 1, 2, 3)), replication, config, TopicKind.TRANSACTED)


def _draw_writer(draw: random.Random, names: tuple[str, ...]) -> TransactorPlan:
    kind = TransactorKind.KAFKA if draw.random() < KAFKA_SHARE else TransactorKind.OURS
    return TransactorPlan(
        kind,
        names,
        draw.choice((0.1, 0.3, 0.7)),
        draw.choice((1, 3, 6)),
        draw.choice((1_000, 2_500)),
        draw.random() < TROUBLED_SHARE,
    )


def _draw_reader(draw: random.Random, topic: str) -> StableReaderPlan:
    return StableReaderPlan(topic, draw.choice((0.02, 0.1, 0.5)), draw.random() < 0.75, draw.random() < 0.35)


def _draw_operators(draw: random.Random, topics: tuple[TopicPlan, ...]) -> list[OperatorPlan]:
    """The first topic stays as it is: transactions shall be seen whole."""
    found = []
    last = topics[-1]
    number = draw.random()
    if len(topics) > 1 and number < REMADE_SHARE:
        found.append(OperatorPlan(Task.REMAKE, last.name, draw.choice((1.5, 5.0))))
    elif number < REMADE_SHARE + TRIMMED_SHARE:
        found.append(OperatorPlan(Task.TRIM, last.name, draw.choice((1.0, 4.0))))
    if draw.random() < MOVED_SHARE:
        found.append(OperatorPlan(Task.MOVE, topics[0].name, draw.choice((0.5, 2.0))))
    return found
