"""Stories by hand for the mistakes about idempotent producers (producers.py).

Not here: what a story is made of (stories.py).
"""

from __future__ import annotations

from itertools import permutations

from tests.simulation.cluster.mutants.stories import directed
from tests.simulation.cluster.network import Weather
from tests.simulation.cluster.plan import Aim, Fault, Kind, OperatorPlan, Task, TopicKind, TopicPlan, WriterPlan

MANY = WriterPlan("topic-0", 0, 0.05, 12, is_keyed=False, batch_bytes=400)
"""Some batches of it are on their way at a time."""
SELDOM = WriterPlan("topic-0", 0, 0.4, 1, is_keyed=False)
"""Its newest batches go back for seconds."""
NOISE = WriterPlan("topic-0", 0, 0.02, 3, is_keyed=False, acks="1")
"""Batches without a producer; they go on while nothing can be committed."""
BURSTS = WriterPlan("topic-0", 0, 3.0, 200, is_keyed=False, acks="1", in_bulk=True, batch_bytes=1000)
SMALL_SEGMENTS = (TopicPlan("topic-0", 1, 3, {"segment.bytes": 2048}),)
TWO_BROKERS = ((False, True), (True, False), (True, False))

BROKEN_STREAMS = directed(
    *(Fault(1.0 + 0.31 * n, Kind.BREAK, 1, 0, 0.05, 0.8, Aim.LEADER) for n in range(12)),
    writers=(MANY, SELDOM),
    sync_seconds=0.04,
)
"""The stream of a producer breaks with several batches on it."""

LOST_REQUESTS = directed(
    *(Fault(1.0 + 0.31 * n, Kind.BREAK, 1, 0, 0.05, 0.8, Aim.LEADER) for n in range(12)),
    writers=(MANY,),
    weather=Weather(0.02, 0.02, 0),
)
"""The same, and the broker has not got them yet."""

BROKEN_BEFORE_THE_COMMIT = directed(
    *(
        each
        for begin_s in (1.0, 3.0)
        for each in (
            Fault(begin_s, Kind.CUT, 1, 2, 1.5, 0.5),
            Fault(begin_s + 0.5, Kind.BREAK, 1, 0, 0.05, 0.8, Aim.LEADER),
        )
    ),
    roles=TWO_BROKERS,
    copies=2,
    writers=(MANY,),
    replica_lag_time_max_ms=60_000,
)
"""Nothing can be committed while the followers are cut off, and the producer sends again what the leader has."""


def _cut_tail(at_s: float, behind: int, ahead: int) -> tuple[Fault, ...]:
    """A leader dies while `behind` lacks its newest records. If `behind` leads next, `ahead` is cut."""
    return (
        Fault(at_s, Kind.CUT, 1, behind, 3.0, 0.5, Aim.LEADER),
        Fault(at_s + 0.5, Kind.CUT, behind, ahead, 1.0, 0.5),
        Fault(at_s + 0.55, Kind.KILL, 1, 0, 4.0, 0.5, Aim.LEADER),
    )


CUT_TAILS = tuple(
    story
    for behind, ahead in permutations((2, 3, 1), 2)
    for story in directed(
        *_cut_tail(1.0, behind, ahead),
        replica_lag_time_max_ms=3000,
        topics=SMALL_SEGMENTS,
        writers=(SELDOM, SELDOM, NOISE),
        tellings=1,
    )
)
"""Stories in which the part of the log that is cut has rolled."""

CUT_AND_KILLED = tuple(
    story
    for behind, ahead in permutations((2, 3, 1), 2)
    for story in directed(
        *_cut_tail(2.7, behind, ahead),
        *(Fault(4.6 + 0.5 * n, Kind.KILL, ahead, 0, 0.05, 0.5) for n in range(4)),
        replica_lag_time_max_ms=3000,
        topics=(TopicPlan("topic-0", 1, 3, {"segment.bytes": 4096}),),
        writers=(SELDOM, SELDOM, WriterPlan("topic-0", 0, 0.03, 1, is_keyed=False, acks="1"), BURSTS),
        seconds=7.0,
        tellings=1,
    )
)
"""The tail is long and has rolled. Single records come instead of it, so the log rolls at other offsets than before,
and for a while the newest snapshot would be one of the tail."""

ROLLED_AND_KILLED = directed(
    *(Fault(2.0 + n, Kind.KILL, 1 + n % 3, 0, 0.3, 0.5) for n in range(4)),
    topics=SMALL_SEGMENTS,
    writers=(MANY, SELDOM, SELDOM),
    seconds=7.0,
)

CLEANED = directed(
    Fault(6.0, Kind.REPLACE_DISK, 1, 0, 1.0, 0.5, Aim.FOLLOWER),
    Fault(6.5, Kind.REPLACE_DISK, 2, 0, 1.0, 0.5, Aim.FOLLOWER),
    topics=(
        TopicPlan(
            "topic-0",
            1,
            3,
            {
                "cleanup.policy": "compact",
                "segment.bytes": 2048,
                "min.cleanable.dirty.ratio": "0.01",
                "delete.retention.ms": 2000,
            },
            TopicKind.COMPACTED,
        ),
    ),
    seconds=12.0,
    log_cleaner_backoff_ms=300,
    log_cleaner_dedupe_buffer_size=1_048_576,
)
"""A replica is made anew from a cleaned log."""

OLD_RECORDS = directed(
    writers=(WriterPlan("topic-0", 0, 0.1, 1, is_keyed=False, is_dated=True),),
    seconds=9.0,
    delivery_timeout_ms=3_000,
    producer_id_expiration_ms=4_000,
)

ONE_PRODUCER_TOO_MANY = directed(
    writers=(MANY, MANY),
    delivery_timeout_ms=3_000,
    producer_id_max_per_partition=1,
)

RESTARTED_AT_THE_BOUND = directed(
    *(
        fault
        for at_s in (1.5, 4.0)
        for fault in (
            Fault(at_s, Kind.STOP, 1, 0, 0.6, 0.5),
            *(Fault(at_s + 0.3, Kind.WALL_JUMP, 1, 0, 0.1, 1.0) for _ in range(2)),
        )
    ),
    roles=((False, True), (True, False)),
    copies=1,
    writers=(WriterPlan("topic-0", 0, 0.4, 1, is_keyed=False), MANY),
    delivery_timeout_ms=3_000,
    producer_id_max_per_partition=1,
)
"""Producers are as many as a partition may know. Its broker stops in order, and its calendar is set forward by twenty
minutes before it is back."""

REMADE = directed(
    topics=(TopicPlan("topic-0", 1, 3, {}, TopicKind.REMADE),),
    operators=(OperatorPlan(Task.REMAKE, "topic-0", 1.0),),
    writers=(MANY,),
)

SELDOM = directed(
    topics=(TopicPlan("topic-0", 1, 3, {}), TopicPlan("topic-1", 1, 3, {})),
    operators=(OperatorPlan(Task.GROW, "topic-1", 5.0),),  # so that clients ask for the metadata often
    writers=(WriterPlan("topic-0", 0, 6.5, 1, is_keyed=False),),
    seconds=15.0,
)
"""A producer forgets its topic between any two records."""

GIVEN_UP = directed(
    Fault(1.0, Kind.CUT, 1, 2, 5.0, 0.5),
    roles=TWO_BROKERS,
    copies=2,
    writers=(WriterPlan("topic-0", 0, 0.02, 1, is_keyed=False), MANY),
    seconds=8.0,
    delivery_timeout_ms=2_000,
    replica_lag_time_max_ms=60_000,
)
"""The leader has batches that it cannot commit until long after their producer has given them up."""

REFUSED_FOR_LONG = directed(
    Fault(1.0, Kind.KILL, 1, 0, 4.0, 0.5, Aim.FOLLOWER),
    roles=TWO_BROKERS,
    copies=2,
    min_isr=2,
    writers=(WriterPlan("topic-0", 0, 0.02, 1, is_keyed=False), MANY),
    seconds=8.0,
    delivery_timeout_ms=2_000,
)
"""Too few are in sync for longer than a producer tries."""
