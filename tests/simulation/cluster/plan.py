"""What one seed is: a cluster, its clients, and the faults that meet them, drawn before anything runs.

A plan is data: it can be printed, cut down (fewer faults, fewer clients, fewer nodes), and run again. Not here: what a
fault does (faults.py).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from tests.simulation.cluster.network import Weather


class Kind(StrEnum):
    """The faults, each with a beginning and, where `seconds` counts, an end."""

    KILL = "kill -9, then a start"
    STOP = "an ordered stop, then a start"
    PAUSE = "SIGSTOP, then SIGCONT"
    POWER = "a power cut of one machine, then a start"
    POWER_ALL = "a power cut of every machine, then a start of all"
    CUT = "a link cut in both directions"
    CUT_ONE_WAY = "a link cut in one direction"
    ISOLATE = "a machine cut off from every other"
    BREAK = "every exchange between two machines broken"
    STORM = "slow messages everywhere"
    SLOW_DISK = "a slow log dir"
    FULL_DISK = "a full log dir"
    DEAD_DISK = "a log dir that fails, until the node was stopped and its disk answers again"
    FAIL_CALL = "one call to a disk that fails"
    STRIKE_CALL = "a machine that loses its power, or a process killed, at a call to its disk"
    LATE_MESSAGE = "a message of a kind that comes late"
    COLD = "a page cache that holds nothing"
    WALL_JUMP = "a calendar that jumps"
    LOSE_DIR = "a log dir lost for good, and replaced"
    REPLACE_DISK = "every log dir of a node lost for good, and replaced"
    LOSE_IN_CUT = "a power cut of every machine, after which one has lost its log dirs for good"
    SWAP_DIRS = "a log dir of each of two nodes in the other, until they are put back"
    TEAR_METADATA = "a batch of a voter's metadata log damaged while the node is down"
    RESTORE_COPY = "a copy of a node's log dirs made, and put back later while the node is out of every ISR and ELR"
    ROT = "a bit of a replica changed while its node is down, until its disk corrects it"
    ROLL = "a restart of every node in order, one after the other"
    MOMENT = "a leader struck in the middle of something"


class Aim(StrEnum):
    """Whom a fault meets."""

    NODE = "its target"
    LEADER = "the leader of a partition"
    FOLLOWER = "a follower in an ISR"
    CONTROLLER = "the active controller"


@dataclass(frozen=True, slots=True)
class Fault:
    """`at_s` is counted from the time when the cluster was whole; `target` and `other` are positions of nodes.

    It waits up to `waits_s` for a cluster that works, and what comes behind it comes so much later. `aim` finds another
    target when it begins.
    """

    at_s: float
    kind: Kind
    target: int
    other: int
    seconds: float
    amount: float
    aim: Aim = Aim.NODE
    waits_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind}: node-{self.target} (node-{self.other}), at {self.at_s:.2f} s for {self.seconds:.2f} s"


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node."""

    is_broker: bool
    is_voter: bool
    log_dirs: int
    clock_rate: float


class TopicKind(StrEnum):
    """What happens to a topic's records."""

    PLAIN = "everything stays"
    REMADE = "it is deleted and made anew"
    TRIMMED = "its oldest records are deleted on demand"
    RETAINED = "its oldest segments are deleted by size or age"
    COMPACTED = "of each key the newest record stays"
    LOSSY = "an unclean election may lose its newest records, and then its readers are told"


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, object]
    kind: TopicKind = TopicKind.PLAIN


class Task(StrEnum):
    """What an operator does, again and again."""

    ASK = "describes topics, configurations and the cluster"
    ALTER = "alters the configuration of a topic"
    ELECT = "gives partitions their preferred leader back"
    REMAKE = "deletes a topic and makes it anew"
    TRIM = "deletes the oldest records of a partition"
    IDENTIFY = "gets producer ids of all brokers"


@dataclass(frozen=True, slots=True)
class OperatorPlan:
    """A person, or a program, who works on a topic about each `pause_s`."""

    task: Task
    topic: str
    pause_s: float


@dataclass(frozen=True, slots=True)
class WriterPlan:
    """A producer of a topic. Each `pause_s` it sends `records` records, one by one or `in_bulk`. `is_idempotent`
    says nothing about one with acks other than all, which is not."""

    topic: str
    linger_ms: int
    pause_s: float
    records: int
    is_keyed: bool
    acks: str = "all"
    in_bulk: bool = False
    is_idempotent: bool = True


class ReaderKind(StrEnum):
    """How a reader reads."""

    FOLLOW = "by polls from the beginning"
    RESTART = "by polls from the beginning, and now and then again from a little before"
    RANGES = "by raw ranges of offsets"
    SHORT = "by polls from the beginning, some of which fail for want of memory"


@dataclass(frozen=True, slots=True)
class ReaderPlan:
    """A consumer of a topic."""

    topic: str
    pause_s: float
    kind: ReaderKind = ReaderKind.FOLLOW


@dataclass(frozen=True, slots=True)
class Plan:
    """See the module."""

    seed: int
    seconds: float
    nodes: tuple[NodePlan, ...]
    config: Mapping[str, object]
    topics: tuple[TopicPlan, ...]
    writers: tuple[WriterPlan, ...]
    readers: tuple[ReaderPlan, ...]
    faults: tuple[Fault, ...]
    weather: Weather
    cold_share: float
    operators: tuple[OperatorPlan, ...] = ()
    sync_seconds: float = 0.0015
    """A sync of a healthy disk takes up to so long."""

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(index for index, node in enumerate(self.nodes) if node.is_broker)

    @property
    def voters(self) -> tuple[int, ...]:
        return tuple(index for index, node in enumerate(self.nodes) if node.is_voter)


QUIET_SHARE = 0.1
"""Of the seeds, so many have no fault: a healthy cluster must lose nothing either (Bufstream's lesson)."""
IDEMPOTENT_SHARE = 0.7
"""Of the writers; what the others write twice is counted."""
SECONDS = 30.0
WAITS_SECONDS = 6.0
"""Of faults that wait for a cluster that works."""
FAULT_WEIGHTS: Mapping[Kind, int] = MappingProxyType(
    {
        Kind.KILL: 6,
        Kind.STOP: 4,
        Kind.PAUSE: 4,
        Kind.POWER: 5,
        Kind.POWER_ALL: 2,
        Kind.CUT: 4,
        Kind.CUT_ONE_WAY: 4,
        Kind.ISOLATE: 4,
        Kind.BREAK: 4,
        Kind.STORM: 2,
        Kind.SLOW_DISK: 3,
        Kind.FULL_DISK: 2,
        Kind.DEAD_DISK: 2,
        Kind.FAIL_CALL: 2,
        Kind.STRIKE_CALL: 5,
        Kind.LATE_MESSAGE: 5,
        Kind.COLD: 2,
        Kind.WALL_JUMP: 2,
        Kind.LOSE_DIR: 3,
        Kind.REPLACE_DISK: 3,
        Kind.SWAP_DIRS: 1,
        Kind.TEAR_METADATA: 3,
        Kind.RESTORE_COPY: 3,
        Kind.ROT: 3,
        Kind.ROLL: 1,
        Kind.MOMENT: 8,
    }
)


TOPIC_CONFIGS: Mapping[TopicKind, tuple[Mapping[str, object], ...]] = MappingProxyType(
    {
        TopicKind.RETAINED: (
            {"segment.bytes": 4096, "retention.bytes": 16_384},
            {"segment.bytes": 4096, "retention.ms": 4000},
            {"segment.ms": 1000, "retention.ms": 2000},
        ),
        TopicKind.COMPACTED: (
            {
                "cleanup.policy": "compact",
                "segment.bytes": 4096,
                "min.cleanable.dirty.ratio": "0.01",
                "delete.retention.ms": 2000,
            },
        ),
    }
)


def draw_plan(seed: int, seconds: float = SECONDS) -> Plan:
    """Everything follows from the seed."""
    draw = random.Random(f"cluster {seed}")
    nodes = _draw_nodes(draw)
    brokers = sum(node.is_broker for node in nodes)
    replication = min(brokers, draw.choice((1, 2, 3, 3, 3, 3)))
    topics = _draw_topics(draw, replication)
    plan = Plan(
        seed,
        seconds,
        nodes,
        _draw_config(draw, replication),
        topics,
        _draw_writers(draw, topics),
        tuple(_draw_reader(draw, topic) for topic in topics if topic.kind is not TopicKind.COMPACTED),
        () if draw.random() < QUIET_SHARE else _draw_faults(draw, seconds, nodes),
        Weather(draw.choice((0.0005, 0.002, 0.01)), draw.choice((0.02, 0.2, 1.0)), draw.choice((0, 2, 10))),
        draw.choice((0.0, 0.05, 0.5)),
        tuple(_draw_operators(draw, topics)),
        draw.choice((0.0015, 0.0015, 0.01, 0.04)),
    )
    if draw.random() < 0.3:
        elector = OperatorPlan(Task.ELECT, draw.choice(topics).name, draw.choice((0.5, 3.0)))
        plan = replace(plan, operators=(*plan.operators, elector))
    if draw.random() < 0.5:
        plan = replace(plan, operators=(*plan.operators, OperatorPlan(Task.IDENTIFY, topics[0].name, 0.5)))
    writers = (replace(writer, is_idempotent=draw.random() < IDEMPOTENT_SHARE) for writer in plan.writers)
    return replace(plan, writers=tuple(writers))


def _draw_nodes(draw: random.Random) -> tuple[NodePlan, ...]:
    """One to seven; the roles together, or apart."""
    count = draw.choice((1, 3, 3, 3, 3, 3, 3, 4, 5, 7))
    if count >= 4 and draw.random() < 0.6:
        voters = 3 if count > 4 else 1
        roles = [(index >= voters, index < voters) for index in range(count)]
    else:
        voters = 3 if count in (3, 4) else count if count == 1 else draw.choice((3, 5))
        roles = [(True, index < voters) for index in range(count)]
    rates = (1.0, 1.0, 1.0005, 0.9995, 1.01, 0.99)
    return tuple(
        NodePlan(is_broker, is_voter, draw.choice((1, 1, 2, 3)) if is_broker else 1, draw.choice(rates))
        for is_broker, is_voter in roles
    )


def _draw_config(draw: random.Random, replication: int) -> dict[str, object]:
    return {
        "controller.quorum.election.timeout.ms": 500,
        "controller.quorum.fetch.timeout.ms": draw.choice((1000, 1500)),
        "broker.heartbeat.interval.ms": 200,
        "broker.session.timeout.ms": draw.choice((1500, 3000)),
        "replica.lag.time.max.ms": draw.choice((1000, 3000)),
        "replica.fetch.wait.max.ms": draw.choice((50, 500)),
        "replica.high.watermark.checkpoint.interval.ms": draw.choice((500, 5000)),
        "log.flush.offset.checkpoint.interval.ms": draw.choice((500, 5_000, 60_000)),
        "num.replica.fetchers": draw.choice((1, 1, 2)),
        "num.io.threads": draw.choice((1, 4)),
        "default.replication.factor": replication,
        "min.insync.replicas": max(1, replication - draw.choice((1, 1, 2))),
        "log.segment.bytes": draw.choice((16_384, 65_536, 1_073_741_824)),
        "log.retention.check.interval.ms": 2000,
        "log.segment.delete.delay.ms": draw.choice((500, 60_000)),
        "log.cleaner.backoff.ms": 1000,
        "log.cleaner.dedupe.buffer.size": 1_048_576,
    }


def _draw_topics(draw: random.Random, replication: int) -> tuple[TopicPlan, ...]:
    """One or two; the second is often of a kind of its own."""
    topics = [TopicPlan("topic-0", draw.choice((1, 1, 2, 4)), replication, {})]
    if draw.random() < 0.6:
        kind = draw.choice([kind for kind in TopicKind if kind is not TopicKind.LOSSY])
        config = draw.choice(TOPIC_CONFIGS.get(kind, ({},)))
        topics.append(TopicPlan("topic-1", draw.choice((1, 1, 2)), replication, config, kind))
    return tuple(topics)


def _draw_writers(draw: random.Random, topics: tuple[TopicPlan, ...]) -> tuple[WriterPlan, ...]:
    """Each topic has one; one that is compacted brings its own (clients/keyed.py)."""
    written = [topic for topic in topics if topic.kind is not TopicKind.COMPACTED]
    more = [draw.choice(written) for _ in range(draw.choice((0, 0, 1)))]
    return tuple(_draw_writer(draw, topic) for topic in written + more)


def _draw_writer(draw: random.Random, topic: TopicPlan) -> WriterPlan:
    return WriterPlan(
        topic.name,
        draw.choice((0, 1, 20)),
        draw.choice((0.05, 0.2, 0.5) if topic.name == "topic-0" else (0.2, 0.5)),
        draw.choice((1, 2, 10)),
        draw.random() < 0.5,
        "1" if draw.random() < 0.2 else "all",
        draw.random() < 0.25,
    )


def _draw_operators(draw: random.Random, topics: tuple[TopicPlan, ...]) -> Iterator[OperatorPlan]:
    for topic in topics:
        task = {TopicKind.REMADE: Task.REMAKE, TopicKind.TRIMMED: Task.TRIM}.get(topic.kind)
        if task is not None:
            yield OperatorPlan(task, topic.name, draw.choice((1.0, 4.0)))
        elif draw.random() < 0.3:
            yield OperatorPlan(Task.ALTER, topic.name, draw.choice((1.0, 4.0)))
    if draw.random() < 0.4:
        yield OperatorPlan(Task.ASK, draw.choice(topics).name, draw.choice((0.3, 2.0)))


def _draw_reader(draw: random.Random, topic: TopicPlan) -> ReaderPlan:
    kinds = [ReaderKind.FOLLOW, ReaderKind.FOLLOW, ReaderKind.RESTART]
    if topic.kind in (TopicKind.PLAIN, TopicKind.REMADE):
        kinds.append(ReaderKind.RANGES)
    return ReaderPlan(topic.name, draw.choice((0.0, 0.05, 0.5)), draw.choice(kinds))


def _draw_faults(draw: random.Random, seconds: float, nodes: tuple[NodePlan, ...]) -> tuple[Fault, ...]:
    """Seldom or often, short or long; some seeds have only two kinds, which then meet themselves and each other.

    They come in groups: the first of a group mostly waits for a cluster that works, the others come on top of it.
    """
    kinds = list(FAULT_WEIGHTS)
    if draw.random() < 0.4:
        kinds = draw.sample(kinds, 2)
    weights = [FAULT_WEIGHTS[kind] for kind in kinds]
    pause_s, longest_s = draw.choice((0.5, 1.5, 4.0)), draw.choice((0.3, 2.0, 8.0))
    most, waits_s = draw.choice((1, 2, 3)), draw.choice((0.0, WAITS_SECONDS, WAITS_SECONDS))
    faults: list[Fault] = []
    at_s = draw.uniform(0.0, pause_s)
    while at_s < seconds:
        for place in range(draw.randint(1, most)):
            kind = draw.choices(kinds, weights)[0]
            target = draw.randrange(len(nodes))
            other = draw.choice([index for index in range(len(nodes)) if index != target] or [target])
            long = draw.uniform(0.01, longest_s)
            aim = draw.choice((Aim.NODE, Aim.LEADER, Aim.LEADER, Aim.FOLLOWER, Aim.CONTROLLER))
            faults.append(Fault(at_s, kind, target, other, long, draw.random(), aim, 0.0 if place else waits_s))
            at_s += draw.expovariate(5.0)
        at_s += draw.expovariate(1 / pause_s)
    return tuple(faults)
