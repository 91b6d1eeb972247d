"""Stories by hand for the mistakes of leaders and followers (replication.py).

Not here: what a story is made of (stories.py).
"""

from __future__ import annotations

from errno import ENOSPC

from tests.simulation.cluster.disk import SHORT_WRITE
from tests.simulation.cluster.mutants.stories import directed, failing
from tests.simulation.cluster.plan import Aim, Fault, Kind, OperatorPlan, Task, TopicKind, TopicPlan, WriterPlan

SLOW_FOLLOWERS = directed(
    *(Fault(1.0 + 2 * n, Kind.STOP, 1, 0, 1.0, 0.5, Aim.LEADER) for n in range(3)),
    sync_seconds=0.1,
    replica_lag_time_max_ms=3000,
    seconds=8.0,
)
"""A leader that is told to stop hands over while its followers are flushing."""

STOPS_UNDER_SENDERS = directed(
    *(Fault(1.0 + 1.3 * n, Kind.STOP, 1, 0, 0.6, 0.5, Aim.LEADER) for n in range(4)),
    writers=(WriterPlan("topic-0", 0, 0.01, 3, is_keyed=False, is_idempotent=False),) * 2,
    sync_seconds=0.01,
    min_isr=2,
)
"""Leaders stop in order while records of producers that are not idempotent wait for followers."""

FULL_FOLLOWERS = directed(Fault(1.0, Kind.FULL_DISK, 1, 0, 0.5, 0.9, Aim.FOLLOWER))
"""A follower's disk has no room for a while, and nothing else happens."""

STEP_BY_STEP = directed(
    *(Fault(1.0, Kind.CUT, 3, other, 1.5, 0.5) for other in (1, 2)),
    *(Fault(1.0, Kind.CUT, 2, other, 1.5, 0.5) for other in (1, 3)),
    writers=(WriterPlan("topic-0", 0, 0.01, 1, is_keyed=False, acks="1"),) * 2,
    replica_fetch_max_bytes=1,
    sync_seconds=0.02,
)
"""A follower that was behind gets one batch with each fetch, and so is below the leader's high watermark for long."""

SHORT_INSIDE_A_BATCH = tuple(
    story
    for follower in (1, 2, 3)
    for story in directed(
        Fault(1.0, Kind.KILL, follower, 0, 2.0, 0.5),
        Fault(2.9, Kind.FAIL_CALL, follower, 0, 3.0, failing(SHORT_WRITE, ENOSPC)),
        topics=(TopicPlan("topic-0", 1, 3, {}, TopicKind.TRIMMED),),
        writers=(WriterPlan("topic-0", 0, 0.05, 40, is_keyed=False, in_bulk=True),),
        operators=(OperatorPlan(Task.TRIM, "topic-0", 0.1),),
        tellings=2,
    )
)
"""A follower that comes back begins anew inside a batch, and its disk has no room for that batch at first."""

TAIL_BELOW_THE_LOG_START = tuple(
    story
    for leader in (1, 2, 3)
    for story in directed(
        Fault(0.2, Kind.ISOLATE, leader, 0, 1.8, 0.9),
        Fault(1.7, Kind.KILL, leader, 0, 0.05, 0.5),
        topics=(TopicPlan("topic-0", 1, 3, {}, TopicKind.TRIMMED),),
        writers=(WriterPlan("topic-0", 0, 0.01, 1, is_keyed=False, acks="1"),),
        operators=(OperatorPlan(Task.TRIM, "topic-0", 0.05),),
        tellings=1,
    )
)
"""A leader that is cut off writes on alone. The next one deletes all that is older than itself before that one is back,
with a tail of records that were never committed."""
