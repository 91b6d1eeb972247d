"""Draws the plan of a seed: everything follows from its number, before anything runs.

What a plan can hold is in plan.py. A new draw comes last, so that what was drawn before stays as it was.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from tests.simulation.cluster.calendars.drawn_calendars import with_calendars
from tests.simulation.cluster.drawn_absences import with_absences
from tests.simulation.cluster.drawn_cordons import with_cordons
from tests.simulation.cluster.drawn_exactly_once import with_exactly_once
from tests.simulation.cluster.drawn_floods import with_floods
from tests.simulation.cluster.drawn_groups import with_groups
from tests.simulation.cluster.drawn_quotas import with_quotas
from tests.simulation.cluster.drawn_security import with_security
from tests.simulation.cluster.drawn_transactions import with_transactions
from tests.simulation.cluster.levels.drawn_levels import with_levels
from tests.simulation.cluster.network import Weather
from tests.simulation.cluster.plan import (
    Aim,
    Fault,
    KafkaReaderPlan,
    KafkaWriterPlan,
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
from tests.simulation.cluster.racks.drawn_racks import with_racks
from tests.simulation.cluster.voters.drawn_voters import with_voters

QUIET_SHARE = 0.1
"""So many of the seeds have no fault: a healthy cluster must lose nothing either (Bufstream's lesson)."""
IDEMPOTENT_SHARE = 0.7
"""So many of the writers are idempotent; what the others write twice is counted."""
SMALL_BATCH_SHARE, SMALL_BATCH_BYTES = 0.2, 400
"""So many of the idempotent writers have batches of this size; some three records each."""
SMALL_SEGMENT_SHARE, SMALL_SEGMENT_BYTES = 0.12, 4_096
"""So many of the plans have segments of this size."""
SNAPSHOTS_SHARE = 0.5
"""In so many of the plans, nodes write snapshots of the metadata after a few records; some keep one alone."""
DATED_SHARE = 0.2
HASTY_SHARE, HASTY_MS = 0.3, 3_000
"""In so many of the plans, producers give up early."""
OUTSIDE_SHARE = 0.25
"""In so many of the plans, clients go to a second listener."""
MOVES_SHARE = 0.4
BALANCE_SHARE = 0.5
"""In so many of the plans, leaderships go back to the preferred leaders within seconds, elsewhere not before the
end."""
REPLICA_BALANCE_SHARE = 0.3
"""In so many of the plans, replicas move by schedule within seconds, elsewhere never."""
GROW_SHARE = 0.25
"""In so many of the plans, one of the topics gets more partitions."""
TUNE_SHARE = 0.25
"""In so many of the plans, the configuration of brokers changes."""
COPIES_SHARE = 0.7
"""In so many of such plans with more brokers than a topic has replicas, replicas move, under throttles that come and
go."""
FORGET_SHARE = 0.4
"""In so many of the plans with more brokers than a topic has replicas, brokers are drained, and forgotten."""
RELOCATE_SHARE = 0.6
"""In so many of the plans with several log dirs on a broker, replicas move between them, some slowly."""
MOVE_RATES = (None, None, 20_000, 200_000)
"""Bytes a second of a broker's moves; the lowest lets a log pass in some seconds."""
HANGS_SHARE, HANG_LIMITS_MS = 0.3, (1_000, 2_500, 6_000, 30_000)
"""In so many of the plans with faults, disks hang."""
KAFKA_SHARE = 0.25
"""In so many of the plans, there are clients of Kafka's protocol too."""
NOT_DRAWN = (TopicKind.LOSSY, TopicKind.TRANSACTED)
"""The kinds that no topic of everybody has."""
EXPIRATION_MS = 5_000
"""A producer must not be forgotten while it may send a batch again."""
SECONDS = 30.0
WAITS_SECONDS = 6.0
"""The patience of faults that wait for a cluster that works."""
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
    if draw.random() < MOVES_SHARE:
        mover = OperatorPlan(Task.MOVE, draw.choice(topics).name, draw.choice((0.3, 2.0)))
        plan = replace(plan, operators=(*plan.operators, mover))
    writers = (replace(writer, is_idempotent=draw.random() < IDEMPOTENT_SHARE) for writer in plan.writers)
    plan = _with_snapshots(draw, _with_producers(draw, replace(plan, writers=tuple(writers))))
    plan = _with_growth(draw, _with_balance(draw, plan))
    plan = replace(plan, outside=draw.random() < OUTSIDE_SHARE)
    plan = _with_forgetting(draw, _with_replica_balance(draw, _with_tuning(draw, plan)))
    plan = _with_kafka(draw, _with_hung_disks(draw, _with_log_dir_moves(draw, _with_copies(draw, plan))))
    plan = with_exactly_once(with_transactions(with_groups(plan)))
    plan = with_voters(with_calendars(with_absences(with_floods(with_security(with_quotas(plan))))))
    return with_levels(with_racks(with_cordons(plan)))


def _with_kafka(draw: random.Random, plan: Plan) -> Plan:
    """Clients of Kafka's protocol besides the others; not where brokers may know too few producers."""
    has_kafka, counts = draw.random() < KAFKA_SHARE, (draw.choice((1, 1, 2)), draw.choice((1, 1, 2)))
    plain = [topic for topic in plan.topics if topic.kind is TopicKind.PLAIN]
    readable = [*plain, *(topic for topic in plan.topics if topic.kind is TopicKind.REMADE)]
    writers = tuple(_draw_kafka_writer(draw, draw.choice(plain)) for _ in range(counts[0]))
    readers = tuple(_draw_kafka_reader(draw, draw.choice(readable)) for _ in range(counts[1]))
    if not has_kafka or any(key.startswith("producer.id.max") for key in plan.config):
        return plan
    return replace(plan, kafka_writers=writers, kafka_readers=readers)


def _draw_kafka_writer(draw: random.Random, topic: TopicPlan) -> KafkaWriterPlan:
    acks = draw.choices((-1, 1, 0), (6, 1, 1))[0]
    is_idempotent = draw.random() < IDEMPOTENT_SHARE and acks == -1
    pause_s, records, in_flight = draw.choice((0.05, 0.2, 0.5)), draw.choice((1, 3, 10)), draw.choice((1, 2, 5))
    return KafkaWriterPlan(topic.name, pause_s, records, acks, is_idempotent, in_flight, draw.randint(3, 13))


def _draw_kafka_reader(draw: random.Random, topic: TopicPlan) -> KafkaReaderPlan:
    """Only an id tells apart two topics of one name."""
    oldest = 13 if topic.kind is TopicKind.REMADE else 4
    return KafkaReaderPlan(topic.name, draw.choice((0.0, 0.05, 0.5)), draw.randint(oldest, 17), draw.random() < 0.7)


def _with_hung_disks(draw: random.Random, plan: Plan) -> Plan:
    """One to three log dirs hang, for a while or until the end; and how soon a node gives one up."""
    has_hangs, count, limit_ms = draw.random() < HANGS_SHARE, draw.choice((1, 1, 2, 3)), draw.choice(HANG_LIMITS_MS)
    if not has_hangs or not plan.faults:
        return plan
    hangs = [
        Fault(
            draw.uniform(0.5, plan.seconds),
            Kind.HUNG_DISK,
            draw.randrange(len(plan.nodes)),
            0,
            draw.choice((draw.uniform(0.2, 2.0), draw.uniform(2.0, 20.0), plan.seconds)),
            draw.random(),
            draw.choice((Aim.NODE, Aim.LEADER, Aim.FOLLOWER, Aim.CONTROLLER)),
            draw.choice((0.0, WAITS_SECONDS)),
        )
        for _ in range(count)
    ]
    faults = sorted((*plan.faults, *hangs), key=lambda fault: fault.at_s)
    return replace(plan, faults=tuple(faults), config={**plan.config, "log.dir.hang.ms.max": limit_ms})


def _with_snapshots(draw: random.Random, plan: Plan) -> Plan:
    config = dict(plan.config)
    if draw.random() < SNAPSHOTS_SHARE:
        config["metadata.log.max.record.bytes.between.snapshots"] = draw.choice((500, 2_000, 8_000))
        config["metadata.max.retention.bytes"] = draw.choice((1, 1, 20_000, 100 << 20))
    if draw.random() < SNAPSHOTS_SHARE:
        config["metadata.log.max.snapshot.interval.ms"] = draw.choice((500, 5_000))
    return replace(plan, config=config)


def _with_balance(draw: random.Random, plan: Plan) -> Plan:
    """How soon, and from which share on, leaderships go back to the preferred leaders."""
    is_balanced, seconds, percentage = draw.random() < BALANCE_SHARE, draw.choice((1, 2, 5)), draw.choice((0, 10, 30))
    if not is_balanced:
        return plan
    keys = {
        "leader.imbalance.check.interval.seconds": seconds,
        "leader.imbalance.per.broker.percentage": percentage,
    }
    return replace(plan, config={**plan.config, **keys})


def _with_replica_balance(draw: random.Random, plan: Plan) -> Plan:
    """How soon replicas move by schedule, where they do."""
    is_balanced, seconds = draw.random() < REPLICA_BALANCE_SHARE, draw.choice((1, 1, 3))
    if not is_balanced:
        return plan
    keys = {"auto.replica.balance.enable": True, "auto.replica.balance.check.interval.seconds": seconds}
    return replace(plan, config={**plan.config, **keys})


def _with_growth(draw: random.Random, plan: Plan) -> Plan:
    """One or two operators add partitions to one of its topics."""
    if draw.random() >= GROW_SHARE:
        return plan
    plain = [topic.name for topic in plan.topics if topic.kind is TopicKind.PLAIN]
    grower = OperatorPlan(Task.GROW, draw.choice(plain), draw.choice((0.5, 2.0, 6.0)))
    return replace(plan, operators=(*plan.operators, *(grower,) * draw.choice((1, 1, 2))))


def _with_tuning(draw: random.Random, plan: Plan) -> Plan:
    """An operator changes the configuration of brokers that run."""
    if draw.random() >= TUNE_SHARE:
        return plan
    return replace(plan, operators=(*plan.operators, OperatorPlan(Task.TUNE, "topic-0", draw.choice((0.3, 2.0)))))


def _with_forgetting(draw: random.Random, plan: Plan) -> Plan:
    """An operator forgets brokers; not the only one that could have a replica."""
    is_forgetful, pause_s = draw.random() < FORGET_SHARE, draw.choice((1.0, 3.0))
    if not is_forgetful or len(plan.brokers) <= max(topic.replication_factor for topic in plan.topics):
        return plan
    return replace(plan, operators=(*plan.operators, OperatorPlan(Task.FORGET, plan.topics[0].name, pause_s)))


def _with_copies(draw: random.Random, plan: Plan) -> Plan:
    """An operator moves replicas where throttles change."""
    has_copies, pause_s = draw.random() < COPIES_SHARE, draw.choice((1.0, 3.0))
    tasks, topic = {operator.task for operator in plan.operators}, plan.topics[0]
    can_copy = len(plan.brokers) > topic.replication_factor and Task.TUNE in tasks
    if not (has_copies and can_copy) or Task.MOVE in tasks:
        return plan
    return replace(plan, operators=(*plan.operators, OperatorPlan(Task.MOVE, topic.name, pause_s)))


def _with_log_dir_moves(draw: random.Random, plan: Plan) -> Plan:
    """One operator for each topic moves replicas between the log dirs of their brokers."""
    has_moves, pause_s, rate = draw.random() < RELOCATE_SHARE, draw.choice((0.2, 0.7, 2.0)), draw.choice(MOVE_RATES)
    if not has_moves or all(node.log_dirs == 1 for node in plan.nodes):
        return plan
    key = "replica.alter.log.dirs.io.max.bytes.per.second"
    config = plan.config if rate is None else {**plan.config, key: rate}
    movers = (OperatorPlan(Task.RELOCATE, topic.name, pause_s) for topic in plan.topics)
    return replace(plan, config=config, operators=(*plan.operators, *movers))


def _with_producers(draw: random.Random, plan: Plan) -> Plan:
    """How producers send, and for how long and how many of them brokers remember.

    A calendar that jumps makes brokers forget producers too early, as in Kafka: plans with such a fault keep the
    default limits.
    """
    undated = {topic.name for topic in plan.topics if topic.kind is TopicKind.RETAINED}
    writers = tuple(_with_batches(draw, writer, writer.topic not in undated) for writer in plan.writers)
    config, limits = dict(plan.config), _draw_limits(draw, len(writers))
    if draw.random() < SMALL_SEGMENT_SHARE:
        config["log.segment.bytes"] = SMALL_SEGMENT_BYTES
    plan = replace(plan, writers=writers, config=config)
    if draw.random() >= HASTY_SHARE:
        return plan
    has_jumps = any(fault.kind is Kind.WALL_JUMP for fault in plan.faults)
    return replace(plan, delivery_timeout_ms=HASTY_MS, config=config if has_jumps else config | limits)


def _with_batches(draw: random.Random, writer: WriterPlan, may_be_dated: bool) -> WriterPlan:
    is_small = draw.random() < SMALL_BATCH_SHARE and writer.is_idempotent and writer.acks == "all"
    is_dated = draw.random() < DATED_SHARE and may_be_dated
    return replace(writer, batch_bytes=SMALL_BATCH_BYTES if is_small else writer.batch_bytes, is_dated=is_dated)


def _draw_limits(draw: random.Random, writers: int) -> dict[str, object]:
    """Too few producers for a partition or a node, just enough, or no limit that counts."""
    limits: dict[str, object] = {}
    if draw.random() < 0.5:
        limits["producer.id.expiration.ms"] = EXPIRATION_MS
    scope, fewest = draw.choice((("partition", 1), ("node", 2 * writers), ("", 0)))
    if scope:
        limits[f"producer.id.max.per.{scope}"] = draw.choice((fewest, writers, 4 * writers))
    return limits


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
        kind = draw.choice([kind for kind in TopicKind if kind not in NOT_DRAWN])
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
    if topic.kind is TopicKind.PLAIN:
        kinds.append(ReaderKind.CHECKPOINT)
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
