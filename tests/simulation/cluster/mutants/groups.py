"""Mistakes of the coordinator of groups, and the stories that bring them out: one for each rule of I61 to I64."""

from __future__ import annotations

from broker.coordination.coordinator import Coordinator
from broker.coordination.led_shard import LedShard
from broker.coordination.loading import ShardLoader
from broker.coordination.shard_log import ShardLog
from broker.coordination.turn import Turn
from broker.groups.classic.presence import Presence
from broker.groups.consumer import reconciliation, request_checks
from broker.groups.consumer.assignors import uniform
from broker.groups.consumer.consumer_groups import ConsumerGroups
from broker.groups.offsets.sweep import OffsetSweep
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import directed, with_parts
from tests.simulation.cluster.plan import (
    Fault,
    GroupPlan,
    Kind,
    MemberKind,
    MemberPlan,
    OperatorPlan,
    Plan,
    Task,
    TopicPlan,
    WriterPlan,
)

CONFIG = {
    "offsets.topic.num.partitions": 2,
    "offsets.topic.replication.factor": 3,
    "offsets.retention.minutes": 1,
    "offsets.retention.check.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 2_500,
    "group.consumer.heartbeat.interval.ms": 200,
}
STOPS = tuple(Fault(1.5 + 2.0 * n, Kind.STOP, n + 1, 0, 0.5, 0.5) for n in range(3))
CUTS = tuple(
    Fault(1.5 + 2.5 * n, Kind.CUT, n + 1, other, 1.5, 0.5) for n in range(3) for other in range(4) if other != n + 1
)
"""Each broker is cut off from all nodes, and not from the clients."""
HANGS_EVERYTHING = 0.5
"""The amount of a HUNG_DISK: the second log dir of a node, and whatever is asked of it."""
LOADS_THAT_HANG = (
    *(Fault(0.5, Kind.COLD, n + 1, 0, 10.0, 0.5) for n in range(3)),
    *(Fault(1.5, Kind.HUNG_DISK, n + 1, 0, 2.0, HANGS_EVERYTHING) for n in range(3)),
    Fault(1.55, Kind.KILL, 1, 0, 0.3, 0.5),
    *(Fault(5.0, Kind.HUNG_DISK, n + 1, 0, 2.0, HANGS_EVERYTHING) for n in range(3)),
    Fault(5.05, Kind.KILL, 2, 0, 0.3, 0.5),
)


def grouped(
    *faults: Fault,
    kind: MemberKind,
    members: int = 4,
    pause_s: float = 0.05,
    groups: int = 1,
    tellings: int = 3,
    strategy: str = "range",
    operators: tuple[OperatorPlan, ...] = (),
    **config: object,
) -> tuple[Plan, ...]:
    """A topic of six partitions, read by groups of such members, which come and go."""
    plans = tuple(
        GroupPlan(f"group-{number}", ("topic-0",), (MemberPlan(kind, pause_s),) * members, strategy)
        for number in range(groups)
    )
    topics = (TopicPlan("topic-0", 6, 3, {}),)
    story = directed(*faults, topics=topics, tellings=tellings, operators=operators, **config)
    return with_parts(story, CONFIG, seconds=10.0, groups=plans)


CONSUMERS = grouped(kind=MemberKind.CONSUMER)
CONSUMERS_OF_LEADERS_THAT_STOP = grouped(*STOPS, kind=MemberKind.CONSUMER)
CLASSICS = grouped(kind=MemberKind.CLASSIC)
LEADERS_THAT_LEAD_AGAIN = grouped(
    *CUTS,
    kind=MemberKind.CONSUMER,
    leader_imbalance_check_interval_seconds=1,
    leader_imbalance_per_broker_percentage=0,
)
GROWING = grouped(
    kind=MemberKind.CONSUMER, members=2, pause_s=0.5, tellings=5, operators=(OperatorPlan(Task.GROW, "topic-0", 6.0),)
)
BOOKS_THAT_LOAD_SLOWLY = grouped(
    *LOADS_THAT_HANG,
    kind=MemberKind.BOOKKEEPER,
    members=1,
    groups=6,
    log_dirs=2,
    log_dir_hang_ms_max=30_000,
    replica_lag_time_max_ms=10_000,
)
BOOKS = grouped(*STOPS, kind=MemberKind.BOOKKEEPER, members=1)
QUIET = with_parts(
    grouped(kind=MemberKind.CONSUMER, members=2, pause_s=0.5, tellings=2),
    seconds=110.0,
    writers=(WriterPlan("topic-0", 0, 12.0, 1, is_keyed=False),),
)
"""Some partitions get no record for longer than offsets are retained. No calendar makes offsets old."""

GROUPS = (
    Mutant(
        "a partition is given before its owner has given it up",
        "KIP-848",
        (Edit(reconciliation._give_what_is_free, "if taken.get(partition, member_id) == member_id", "if True"),),
        stories=CONSUMERS,
    ),
    Mutant(
        "a member is taken for one that has given up what it was told to",
        "KIP-848",
        (Edit(reconciliation.reconciled, "if revoking and (held is None or owns_any(held, revoking)):", "if False:"),),
        stories=CONSUMERS,
    ),
    Mutant(
        "whoever has been a member commits",
        "KIP-848: fencing",
        (Edit(request_checks.check_commit, "if request.member_epoch < 0 and not group.members:", "if True:"),),
        stories=CONSUMERS,
    ),
    Mutant(
        "whoever has been a classic member commits",
        "the classic protocol: generations",
        (Edit(Presence.check_commit, "if request.member_epoch < 0 and group.state is GroupState.EMPTY:", "if True:"),),
        stories=CLASSICS,
    ),
    Mutant(
        "offsets expire that a live member reads on from",
        "KIP-211",
        (Edit(OffsetSweep._expiry_of, "if self._groups.is_subscribed(group_id, topic):", "if False:"),),
        stories=QUIET,
    ),
    Mutant(
        "tombstones are not written",
        "seam: the state is what the log says",
        (Edit(Turn.write, "self.records.append((key, value))", "value and self.records.append((key, value))"),),
        stories=BOOKS,
    ),
    Mutant(
        "a load misses the last batch",
        "seam: the state is what the log says",
        (Edit(ShardLoader.load, "found.records, state", "found.records[:-1], state"),),
        stories=(*BOOKS, *CONSUMERS_OF_LEADERS_THAT_STOP),
    ),
    Mutant(
        "a coordinator answers before the commit",
        "seam: an answer promises what is committed",
        (Edit(LedShard._tick, "self._barrier.add(answers)", "answer_all(answers)"),),
        stories=grouped(*CUTS, kind=MemberKind.BOOKKEEPER, members=1, tellings=5),
    ),
    Mutant(
        "members that a new coordinator has loaded have no sessions",
        "KIP-848: a load begins every session anew",
        (
            Edit(
                ConsumerGroups.loaded,
                "for group in groups:",
                "for group in ():",
            ),
        ),
        stories=CONSUMERS_OF_LEADERS_THAT_STOP,
    ),
    Mutant(
        "a member commits in an epoch that is over",
        "KIP-848: fencing",
        (Edit(request_checks._check_epoch, "if epoch == member.epoch:", "if True:"),),
        stories=CONSUMERS,
    ),
    Mutant(
        "a classic member commits in a generation that is over",
        "the classic protocol: generations",
        (Edit(Presence.check_commit, "check_generation(group, request.member_epoch)", "pass"),),
        stories=CLASSICS,
    ),
    Mutant(
        "a group is asked while it loads",
        "seam: the state is what the log says",
        (Edit(LedShard._not_led, "if self.state is ShardState.LOADING:", "if False:"),),
        stories=BOOKS_THAT_LOAD_SLOWLY,
    ),
    Mutant(
        "the timers of a lead that is over go on",
        "seam: a coordinator ends with its lead",
        (
            Edit(Coordinator.ceased_to_lead, "shard.close()", "shard.log"),
            Edit(ShardLog.is_led, "leading.leader_epoch == self._lead.leader_epoch", "True"),
            Edit(
                LedShard._woken,
                "if self._not_led() is not None:",
                "if self._not_led() is not None:\n        self._wake.by(self._ports.clock.now_ms() + HELD_MS)",
            ),
        ),
        stories=LEADERS_THAT_LEAD_AGAIN,
    ),
    Mutant(
        "a group does not hear of partitions that were added",
        "KIP-848: the coordinator assigns",
        (Edit(ConsumerGroups.image_changed, "self._views.changed(self._groups, names)", "pass"),),
        stories=GROWING,
    ),
    Mutant(
        "one member gets everything",
        "KIP-848: the assignor uniform",
        (
            Edit(
                uniform.uniform,
                "_homogeneous(in_fixed_order(candidates)",
                "_homogeneous(in_fixed_order(candidates)[:1]",
            ),
        ),
        stories=CONSUMERS,
    ),
)
