"""Short stories for mutants: small clusters under the faults that bring a mistake out, drawn from a number.

They are plans like all others, and pass without a mistake. A plan of the simulator's own (plan.py) is of everything,
and 30 s long; most of it has nothing to do with one mistake. Here is one topic of one or two partitions with much
traffic, and a few faults within some seconds, so that a story takes about a second of a processor. Which kinds of
faults, and what the cluster is like, says the mutant.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from tests.simulation.cluster.faults import FAILING_CALLS, LATE_MESSAGES, STRUCK_CALLS
from tests.simulation.cluster.network import Weather
from tests.simulation.cluster.plan import (
    DELIVERY_TIMEOUT_MS,
    Aim,
    Fault,
    Kind,
    NodePlan,
    OperatorPlan,
    Plan,
    ReaderKind,
    ReaderPlan,
    Task,
    TopicKind,
    TopicPlan,
    WriterPlan,
)

SECONDS = 7.0
WAITS_SECONDS = 3.0
CALM, LATE_WEATHER = Weather(), Weather(0.002, 2.0, 40)
APART = ((False, True),) * 3 + ((True, False),) * 3
"""Three controllers, and brokers 3 to 5."""
TOGETHER = ((True, True),) * 3
READERS = (ReaderKind.FOLLOW, ReaderKind.RESTART, ReaderKind.RANGES)
SNAPSHOTS_SOON: Mapping[str, object] = MappingProxyType(
    {"metadata.log.max.record.bytes.between.snapshots": 500, "metadata.max.retention.bytes": 1}
)
NO_CONFIG: Mapping[str, object] = MappingProxyType({})
MOMENT_SHARE = 0.4
"""So many of the faults wait for a moment."""


class Scene(StrEnum):
    """The purpose of a story's cluster."""

    REPLICAS = "one topic on three nodes, each a broker and a voter"
    ONE_COPY = "the same, and often one replica of each partition only"
    QUORUM = "the same, and much to write for the controller"
    SNAPSHOTS = "the same, and snapshots of the metadata after a few records"
    CLIENTS = "two topics; one of them is deleted and made anew again and again"
    LATE = "a network on which one message in 25 comes up to two seconds late"


def draw_story(number: int, scene: Scene, kinds: Sequence[Kind]) -> Plan:
    """Everything follows from what is given."""
    draw = random.Random(f"story {number} {scene.name} {' '.join(kind.name for kind in kinds)}")
    copies = draw.choice((1, 1, 2)) if scene is Scene.ONE_COPY else draw.choice((2, 3, 3, 3))
    topics = [TopicPlan("topic-0", draw.choice((1, 1, 2)), copies, {})]
    operators = [OperatorPlan(Task.ALTER, "topic-0", 0.1)] if scene in (Scene.QUORUM, Scene.SNAPSHOTS) else []
    if scene is Scene.CLIENTS and draw.random() < 0.5:
        topics.append(TopicPlan("topic-1", 1, copies, {}, TopicKind.REMADE))
        operators.append(OperatorPlan(Task.REMAKE, "topic-1", draw.choice((0.3, 1.0))))
    roles = _roles(draw, scene)
    dirs = 2 if {Kind.LOSE_DIR, Kind.SWAP_DIRS, Kind.DEAD_DISK}.intersection(kinds) else 1
    weather = Weather(draw.choice((0.0005, 0.002, 0.01)), draw.choice((0.02, 0.2)), draw.choice((0, 5)))
    return Plan(
        2_000_000 + number,
        SECONDS,
        tuple(NodePlan(is_broker, is_voter, dirs if is_broker else 1, 1.0) for is_broker, is_voter in roles),
        _config(draw, copies) | (SNAPSHOTS_SOON if scene is Scene.SNAPSHOTS else {}),
        tuple(topics),
        tuple(_writer(draw, topic) for topic in topics for _ in range(draw.choice((1, 1, 2)))),
        tuple(_reader(draw, topic) for topic in topics),
        tuple(_faults(draw, kinds, len(roles))),
        LATE_WEATHER if scene is Scene.LATE else weather,
        draw.choice((0.0, 0.0, 0.3)),
        tuple(operators),
        draw.choice((0.0015, 0.01, 0.04)),
    )


def _roles(draw: random.Random, scene: Scene) -> list[tuple[bool, bool]]:
    """The roles of each node: broker, voter. One controller alone survives the faults of all brokers."""
    if scene in (Scene.QUORUM, Scene.SNAPSHOTS):
        return [(True, True)] * (5 if draw.random() < 0.2 else 3)
    return [(True, True)] * 3 if draw.random() < 0.5 else [(False, True), *[(True, False)] * 3]


def _config(draw: random.Random, copies: int) -> dict[str, object]:
    return {
        "controller.quorum.election.timeout.ms": 300,
        "controller.quorum.fetch.timeout.ms": 600,
        "broker.heartbeat.interval.ms": 100,
        "broker.session.timeout.ms": draw.choice((600, 1500)),
        "replica.lag.time.max.ms": draw.choice((500, 2000)),
        "replica.fetch.wait.max.ms": draw.choice((50, 500)),
        "replica.high.watermark.checkpoint.interval.ms": draw.choice((200, 5000)),
        "default.replication.factor": copies,
        "min.insync.replicas": max(1, copies - draw.choice((1, 1, 2))),
        "log.segment.bytes": draw.choice((16_384, 16_384, 1_073_741_824)),
    }


def _writer(draw: random.Random, topic: TopicPlan) -> WriterPlan:
    pause_s = draw.choice((0.01, 0.03, 0.1))
    acks = "1" if draw.random() < 0.2 else "all"
    return WriterPlan(topic.name, draw.choice((0, 1, 20)), pause_s, draw.choice((1, 3)), draw.random() < 0.5, acks)


def _reader(draw: random.Random, topic: TopicPlan) -> ReaderPlan:
    return ReaderPlan(topic.name, draw.choice((0.0, 0.05)), draw.choice(READERS))


def _faults(draw: random.Random, kinds: Sequence[Kind], nodes: int) -> list[Fault]:
    """Groups, as in plan.py, closer together."""
    faults: list[Fault] = []
    longest_s, most = draw.choice((0.2, 1.0, 4.0)), draw.choice((1, 2, 3))
    at_s = draw.uniform(0.2, 1.0)
    while at_s < SECONDS:
        for place in range(draw.randint(1, most)):
            is_moment = not kinds or draw.random() < MOMENT_SHARE
            kind = Kind.MOMENT if is_moment else draw.choice(kinds)
            target, other = draw.sample(range(nodes), 2)
            aim = draw.choice((Aim.LEADER, Aim.LEADER, Aim.FOLLOWER, Aim.CONTROLLER, Aim.NODE))
            waits_s = 0.0 if place else WAITS_SECONDS
            faults.append(Fault(at_s, kind, target, other, draw.uniform(0.01, longest_s), draw.random(), aim, waits_s))
            at_s += draw.expovariate(5.0)
        at_s += draw.expovariate(1.0)
    return faults


def directed(
    *faults: Fault,
    tellings: int = 4,
    copies: int = 3,
    min_isr: int = 1,
    roles: Sequence[tuple[bool, bool]] = ((False, True), (True, False), (True, False), (True, False)),
    sync_seconds: float = 0.0015,
    seconds: float = 6.0,
    weather: Weather = CALM,
    operators: tuple[OperatorPlan, ...] = (),
    topics: tuple[TopicPlan, ...] = (),
    writers: tuple[WriterPlan, ...] = (),
    log_dirs: int = 1,
    readers: tuple[ReaderPlan, ...] = (),
    delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS,
    **config: object,
) -> tuple[Plan, ...]:
    """A story by hand, told some times: by other seeds, so with other times between its steps.

    One controller, and brokers 1 to 3, unless `roles` says more. In `config` underscores stand for dots. A compacted
    topic has clients of its own.
    """
    settings = {
        "controller.quorum.election.timeout.ms": 300,
        "controller.quorum.fetch.timeout.ms": 600,
        "broker.heartbeat.interval.ms": 100,
        "broker.session.timeout.ms": 600,
        "replica.lag.time.max.ms": 500,
        "replica.fetch.wait.max.ms": 50,
        "default.replication.factor": copies,
        "min.insync.replicas": min_isr,
    } | {key.replace("_", "."): value for key, value in config.items()}
    plans = topics or (TopicPlan("topic-0", 1, copies, {}),)
    nodes = tuple(NodePlan(is_broker, is_voter, log_dirs if is_broker else 1, 1.0) for is_broker, is_voter in roles)
    plain = [topic.name for topic in plans if topic.kind not in (TopicKind.COMPACTED, TopicKind.TRANSACTED)]
    writing = writers or tuple(WriterPlan(name, 0, 0.02, 1, is_keyed=False) for name in plain)
    reading = readers or tuple(ReaderPlan(name, 0.02) for name in plain)
    return tuple(
        Plan(
            seed,
            seconds,
            nodes,
            settings,
            plans,
            writing,
            reading,
            faults,
            weather,
            0.0,
            operators,
            sync_seconds,
            delivery_timeout_ms,
        )
        for seed in range(3_000_000, 3_000_000 + tellings)
    )


def with_parts(stories: Iterable[Plan], config: Mapping[str, object] = NO_CONFIG, **parts: Any) -> tuple[Plan, ...]:
    """The stories with other parts, by the names of a plan's fields, and these settings beside or instead of theirs."""
    return tuple(replace(story, config={**story.config, **config}, **parts) for story in stories)


def at_call(call: str, part: str, *, is_after: bool, is_kill: bool = False) -> float:
    """The amount of a STRIKE_CALL."""
    return (STRUCK_CALLS.index((call, part, is_after)) + (0.75 if is_kill else 0.25)) / len(STRUCK_CALLS)


def late(call: str, *, is_answer: bool = False) -> float:
    """The amount of a LATE_MESSAGE."""
    return (LATE_MESSAGES.index((call, is_answer)) + 0.5) / len(LATE_MESSAGES)


def failing(call: str, code: int) -> float:
    """The amount of a FAIL_CALL."""
    return (FAILING_CALLS.index((call, code)) + 0.5) / len(FAILING_CALLS)
