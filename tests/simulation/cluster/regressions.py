"""Stories that once failed, as plans: `draw_plan` changes, so a seed does not tell the same story for ever.

A new one comes from `python -m tests.simulation.cluster --shrink SEED`. What differs from run to run is drawn from the
plan's seed, so a change of the product or of the simulator may make a story a harmless one; it costs little to keep.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.cluster.flood_plan import FloodKind, FloodOrigin, FloodPlan
from tests.simulation.cluster.network import Weather
from tests.simulation.cluster.plan import (
    Aim,
    Fault,
    GroupPlan,
    Kind,
    MemberKind,
    MemberPlan,
    NodePlan,
    OperatorPlan,
    Plan,
    ReaderKind,
    ReaderPlan,
    StableReaderPlan,
    Task,
    TopicKind,
    TopicPlan,
    TransactorKind,
    TransactorPlan,
    WriterPlan,
)


@dataclass(frozen=True, slots=True)
class Regression:
    """`why`: what was wrong, in a sentence."""

    name: str
    why: str
    plan: Plan


def calendar_jumps(seed: int, *jumps: Fault) -> Plan:
    """One node, and a writer of transactions of version 1, while the calendar jumps."""
    return Plan(
        seed=seed,
        seconds=5.0,
        nodes=(NodePlan(is_broker=True, is_voter=True, log_dirs=1, clock_rate=1.0),),
        config={
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "controller.quorum.election.timeout.ms": 500,
            "controller.quorum.fetch.timeout.ms": 1500,
            "broker.heartbeat.interval.ms": 200,
            "broker.session.timeout.ms": 3000,
            "default.replication.factor": 1,
            "min.insync.replicas": 1,
        },
        topics=(TopicPlan("transacted-0", 1, 1, {}, TopicKind.TRANSACTED),),
        writers=(),
        readers=(),
        faults=jumps,
        weather=Weather(),
        cold_share=0.0,
        transactors=(TransactorPlan(TransactorKind.KAFKA, ("transacted-0",), 0.1, 3, 2500),),
        stable_readers=(StableReaderPlan("transacted-0", 0.1),),
    )


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
    Regression(
        "records that fail while a disk is slow",
        "A producer's record failed up to a second after its delivery time-out.",
        Plan(
            seed=1000130,
            seconds=26.011995207413616,
            nodes=(
                NodePlan(is_broker=False, is_voter=True, log_dirs=1, clock_rate=0.9995),
                NodePlan(is_broker=False, is_voter=True, log_dirs=1, clock_rate=1.0),
                NodePlan(is_broker=False, is_voter=True, log_dirs=1, clock_rate=1.0),
                NodePlan(is_broker=True, is_voter=False, log_dirs=1, clock_rate=1.0),
                NodePlan(is_broker=True, is_voter=False, log_dirs=1, clock_rate=1.0),
            ),
            config={
                "controller.quorum.election.timeout.ms": 500,
                "controller.quorum.fetch.timeout.ms": 1000,
                "broker.heartbeat.interval.ms": 200,
                "broker.session.timeout.ms": 1500,
                "replica.lag.time.max.ms": 1000,
                "replica.fetch.wait.max.ms": 50,
                "replica.high.watermark.checkpoint.interval.ms": 5000,
                "num.replica.fetchers": 1,
                "num.io.threads": 4,
                "default.replication.factor": 2,
                "min.insync.replicas": 1,
                "log.segment.bytes": 16384,
                "log.retention.check.interval.ms": 2000,
                "log.segment.delete.delay.ms": 500,
                "log.cleaner.backoff.ms": 1000,
                "log.cleaner.dedupe.buffer.size": 1048576,
            },
            topics=(
                TopicPlan(name="topic-0", partitions=2, replication_factor=2, config={}),
                TopicPlan(name="topic-1", partitions=1, replication_factor=2, config={}, kind=TopicKind.REMADE),
            ),
            writers=(
                WriterPlan(topic="topic-0", linger_ms=1, pause_s=0.2, records=2, is_keyed=False, in_bulk=True),
                WriterPlan(topic="topic-1", linger_ms=20, pause_s=0.5, records=2, is_keyed=True, in_bulk=True),
                WriterPlan(topic="topic-0", linger_ms=0, pause_s=0.5, records=2, is_keyed=True, in_bulk=True),
            ),
            readers=(
                ReaderPlan(topic="topic-0", pause_s=0.5),
                ReaderPlan(topic="topic-1", pause_s=0.0, kind=ReaderKind.RANGES),
            ),
            faults=(
                Fault(
                    at_s=1.6808094844423442,
                    kind=Kind.STOP,
                    target=1,
                    other=2,
                    seconds=8.297364621707693,
                    amount=0.5038570320595106,
                ),
                Fault(
                    at_s=4.017056244603494,
                    kind=Kind.SLOW_DISK,
                    target=3,
                    other=4,
                    seconds=0.7216119047875205,
                    amount=0.9152501882371193,
                ),
                Fault(
                    at_s=4.6998592892983675,
                    kind=Kind.CUT_ONE_WAY,
                    target=0,
                    other=1,
                    seconds=4.113744216405825,
                    amount=0.6389529416909698,
                ),
                Fault(
                    at_s=4.735101496459535,
                    kind=Kind.CUT_ONE_WAY,
                    target=3,
                    other=0,
                    seconds=10.947398350671886,
                    amount=0.309997252274955,
                ),
                Fault(
                    at_s=14.884285922612621,
                    kind=Kind.POWER_ALL,
                    target=2,
                    other=4,
                    seconds=5.3779084879020065,
                    amount=0.7783006218255302,
                ),
                Fault(
                    at_s=22.277405674385054,
                    kind=Kind.MOMENT,
                    target=4,
                    other=3,
                    seconds=2.829483383815832,
                    amount=0.7886823054595086,
                ),
                Fault(
                    at_s=25.011995207413616,
                    kind=Kind.POWER,
                    target=4,
                    other=1,
                    seconds=0.31680237174130504,
                    amount=0.7875154744035545,
                ),
            ),
            weather=Weather(usual_seconds=0.002, late_seconds=0.02, late_per_mille=2),
            cold_share=0.5,
            operators=(
                OperatorPlan(task=Task.ALTER, topic="topic-0", pause_s=4.0),
                OperatorPlan(task=Task.REMAKE, topic="topic-1", pause_s=1.0),
            ),
        ),
    ),
    Regression(
        "a broker that starts on a full disk",
        "It could not open its only replica, led, and called the partition unknown; after five seconds a consumer took"
        " it for deleted, and never asked again.",
        Plan(
            seed=16054,
            seconds=16.0,
            nodes=(
                NodePlan(is_broker=False, is_voter=True, log_dirs=1, clock_rate=1.0),
                NodePlan(is_broker=True, is_voter=False, log_dirs=1, clock_rate=1.0),
                NodePlan(is_broker=True, is_voter=False, log_dirs=1, clock_rate=1.0),
            ),
            config={
                "controller.quorum.election.timeout.ms": 500,
                "controller.quorum.fetch.timeout.ms": 1500,
                "broker.heartbeat.interval.ms": 200,
                "broker.session.timeout.ms": 1500,
                "replica.lag.time.max.ms": 1000,
                "log.flush.offset.checkpoint.interval.ms": 5000,
                "default.replication.factor": 1,
                "min.insync.replicas": 1,
                "log.retention.check.interval.ms": 2000,
                "log.segment.delete.delay.ms": 60000,
                "log.cleaner.backoff.ms": 1000,
                "log.cleaner.dedupe.buffer.size": 1048576,
            },
            topics=(TopicPlan(name="topic-0", partitions=1, replication_factor=1, config={}),),
            writers=(WriterPlan(topic="topic-0", linger_ms=1, pause_s=0.2, records=1, is_keyed=False),),
            readers=(ReaderPlan(topic="topic-0", pause_s=0.05),),
            faults=(
                Fault(
                    at_s=1.0,
                    kind=Kind.STOP,
                    target=2,
                    other=0,
                    seconds=1.0,
                    amount=0.6,
                    aim=Aim.LEADER,
                    waits_s=6.0,
                ),
                Fault(
                    at_s=1.8,
                    kind=Kind.FULL_DISK,
                    target=0,
                    other=1,
                    seconds=0.8,
                    amount=0.68,
                    aim=Aim.LEADER,
                    waits_s=6.0,
                ),
                Fault(
                    at_s=2.0,
                    kind=Kind.POWER_ALL,
                    target=1,
                    other=2,
                    seconds=0.3,
                    amount=0.76,
                    aim=Aim.LEADER,
                    waits_s=6.0,
                ),
            ),
            weather=Weather(),
            cold_share=0.0,
        ),
    ),
    Regression(
        "records that share the batch of one from before",
        "a writer sent so seldom that each record which it sent to the whole cluster joined a batch from before, whose"
        " delivery time-out was near; its check took that for a cluster that takes no record",
        Plan(
            seed=69,
            seconds=8.878685788857602,
            nodes=(NodePlan(is_broker=True, is_voter=True, log_dirs=1, clock_rate=1.0),) * 3,
            config={
                "controller.quorum.election.timeout.ms": 500,
                "controller.quorum.fetch.timeout.ms": 1000,
                "broker.heartbeat.interval.ms": 200,
                "broker.session.timeout.ms": 1500,
                "replica.lag.time.max.ms": 1000,
                "default.replication.factor": 2,
                "min.insync.replicas": 1,
            },
            topics=(TopicPlan(name="topic-0", partitions=1, replication_factor=2, config={}),),
            writers=(WriterPlan(topic="topic-0", linger_ms=0, pause_s=0.5, records=1, is_keyed=True),),
            readers=(ReaderPlan(topic="topic-0", pause_s=0.05),),
            faults=(Fault(at_s=0.5, kind=Kind.POWER_ALL, target=0, other=1, seconds=7.916484663676783, amount=0.5),),
            weather=Weather(),
            cold_share=0.0,
            delivery_timeout_ms=5_000,
        ),
    ),
    Regression(
        "transactions of version 1 after a calendar was set back",
        "A leader took the ends of a producer's transactions for calls that come late, because they were decided before"
        " the last one by the calendar. It answered that they were written, and readers of committed records waited for"
        " ever.",
        calendar_jumps(1000036, Fault(1.0, Kind.WALL_JUMP, 0, 0, 0.8, 0.22)),
    ),
    Regression(
        "transactions of version 1 after a calendar was set back and right again",
        "After such ends had been passed over, the next one that was written decided their transactions with its own:"
        " what was committed could be read as aborted.",
        calendar_jumps(1, *(Fault(1.0 + 0.8 * n, Kind.WALL_JUMP, 0, 0, 0.1, 0.8 if n % 2 else 0.2) for n in range(4))),
    ),
    Regression(
        "a stream that takes nothing yet, beside frames of many networks",
        "a frame that was overtaken often let no other lease begin, also none of nothing: so while flooders held the"
        " memory, no stream of gRPC was read until they were cut.",
        Plan(
            seed=2000028,
            seconds=4.0,
            nodes=(NodePlan(is_broker=True, is_voter=True, log_dirs=1, clock_rate=1.0),),
            config={
                "controller.quorum.election.timeout.ms": 500,
                "controller.quorum.fetch.timeout.ms": 1000,
                "broker.heartbeat.interval.ms": 200,
                "broker.session.timeout.ms": 3000,
                "replica.lag.time.max.ms": 1000,
                "default.replication.factor": 1,
                "min.insync.replicas": 1,
                "socket.request.max.bytes": 1_310_720,
                "queued.max.request.bytes": 1_310_720,
                "queued.max.response.bytes": 8_388_608,
                "connections.max.write.stall.ms": 30_000,
            },
            topics=tuple(
                TopicPlan(name, partitions=1, replication_factor=1, config={}) for name in ("topic-0", "topic-1")
            ),
            writers=(
                WriterPlan("topic-0", linger_ms=20, pause_s=0.05, records=10, is_keyed=False, is_idempotent=False),
            ),
            readers=(ReaderPlan(topic="topic-0", pause_s=0.05),),
            faults=(),
            weather=Weather(),
            cold_share=0.0,
            operators=(
                OperatorPlan(task=Task.IDENTIFY, topic="topic-0", pause_s=0.5),
                OperatorPlan(task=Task.MOVE, topic="topic-0", pause_s=0.3),
            ),
            floods=(FloodPlan(FloodKind.HOLD, FloodOrigin.MANY, connections=12, frame_bytes=60_000),),
        ),
    ),
    Regression(
        "a member that comes late to a log of small segments",
        "A fetch ends with its segment, and a slow member took one at a time with its pause: it could not read what was"
        " there within the time for that (seed 1700092 of --voters).",
        Plan(
            seed=1700092,
            seconds=10.0,
            nodes=(NodePlan(is_broker=True, is_voter=True, log_dirs=1, clock_rate=1.0),),
            config={
                "log.segment.bytes": 4_096,
                "offsets.topic.num.partitions": 1,
                "offsets.topic.replication.factor": 1,
                "group.initial.rebalance.delay.ms": 0,
                "group.min.session.timeout.ms": 1_000,
                "group.consumer.session.timeout.ms": 2_500,
                "group.consumer.heartbeat.interval.ms": 300,
            },
            topics=(TopicPlan("topic-0", 1, 1, {}),),
            writers=(
                WriterPlan(
                    "topic-0",
                    linger_ms=20,
                    pause_s=0.05,
                    records=16,
                    is_keyed=False,
                    in_bulk=True,
                    is_idempotent=False,
                ),
            ),
            readers=(),
            faults=(),
            weather=Weather(late_per_mille=0),
            cold_share=0.0,
            outside=True,
            groups=(GroupPlan("group-0", ("topic-0",), (MemberPlan(MemberKind.CONSUMER, pause_s=1.5),)),),
        ),
    ),
)
