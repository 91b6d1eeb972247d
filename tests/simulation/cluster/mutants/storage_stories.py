"""Stories by hand for the mistakes of the storage engine (storage.py): each has the one history that its mistake needs.

Not here: what a story is made of (stories.py).
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from itertools import permutations

from tests.simulation.cluster.disk import SHORT_WRITE
from tests.simulation.cluster.mutants.stories import directed, failing
from tests.simulation.cluster.plan import Aim, Fault, Kind, TopicPlan, WriterPlan

SMALL_SEGMENTS = (TopicPlan("topic-0", 1, 3, {"segment.bytes": 1024}),)
"""Some ten records each."""
ONE_COPY = (TopicPlan("topic-0", 1, 1, {}),)
UNEVEN = (
    WriterPlan("topic-0", 0, 0.01, 1, is_keyed=False),
    WriterPlan("topic-0", 0, 0.03, 7, is_keyed=False, in_bulk=True),
)
"""Batches of two sizes, so that segments are full at different places each time."""
POWER_CUTS = directed(
    *(Fault(1.0 + n, Kind.POWER, 1, 0, 0.3, 0.5, Aim.LEADER) for n in range(4)),
    sync_seconds=0.04,
    log_flush_offset_checkpoint_interval_ms=20,
)
"""Recovery points are written all the time, while flushes are slow."""

SLOW_SYNCS = directed(
    copies=1,
    topics=(TopicPlan("topic-0", 1, 1, {"segment.bytes": 1024}),),
    writers=(WriterPlan("topic-0", 0, 0.2, 30, is_keyed=False, in_bulk=True),) * 4,
    sync_seconds=0.01,
)
"""Each batch fills a segment, and a flush has several of them."""

THREE_STARTS = directed(
    *(Fault(1.0 + 1.5 * n, Kind.KILL, 1, 0, 0.3, 0.5, Aim.LEADER) for n in range(3)),
    copies=1,
    log_flush_offset_checkpoint_interval_ms=50,
)
"""The first start writes the epochs that it finds. A later one finds a later epoch below its recovery point."""

ALONE_AND_SHORT_OF_DESCRIPTORS = tuple(
    story
    for follower in (1, 2, 3)
    for story in directed(
        *(Fault(1.0, Kind.CUT, follower, other, 2.0, 0.5) for other in (1, 2, 3) if other != follower),
        Fault(2.9, Kind.FAIL_CALL, follower, 0, 2.0, failing("dup", errno.EMFILE)),
        tellings=1,
    )
)
"""The first flush of a follower that comes back finds no descriptor. It is out of the ISR, so nothing else asks for
another flush."""

LEADER_IS_FENCED = tuple(
    story
    for seconds in (0.9, 1.2, 1.5)
    for story in directed(
        Fault(1.0, Kind.CUT, 1, 0, seconds, 0.5, Aim.LEADER),
        writers=tuple(WriterPlan("topic-0", 0, 0.1, 1, is_keyed=False, acks="1") for _ in range(3)),
        sync_seconds=0.4,
        tellings=3,
    )
)
"""A leader that is fenced takes records until it hears so. Then it has a flush under way, and records behind that."""


def _two_tails_twice(behind: int, ahead: int) -> Iterator[Fault]:
    """The faults of TWO_TAILS (replication.py), and again after 5 s."""
    for begin_s in (1.0, 6.0):
        yield Fault(begin_s, Kind.CUT, 1, behind, 3.0, 0.5, Aim.LEADER)
        yield Fault(begin_s + 0.3, Kind.CUT, behind, ahead, 2.7, 0.5)
        yield Fault(begin_s + 0.35, Kind.KILL, 1, 0, 4.0, 0.5, Aim.LEADER)
        yield Fault(begin_s + 1.5, Kind.KILL, 1, 0, 1.5, 0.5, Aim.LEADER)


TORN_AND_ROLLED = directed(
    *(
        each
        for n in range(7)
        for each in (
            Fault(1.0 + n, Kind.SLOW_DISK, 1, 0, 0.4, 0.1, Aim.LEADER),
            Fault(1.3 + n, Kind.POWER, 1, 0, 0.2, 0.5, Aim.LEADER),
        )
    ),
    copies=1,
    topics=(TopicPlan("topic-0", 1, 1, {"segment.bytes": 2048}),),
    writers=UNEVEN * 2,
    log_flush_offset_checkpoint_interval_ms=60_000,
    seconds=9.0,
    tellings=6,
)
"""Stories in which bytes behind the good part of a torn segment stay there when the segment is full before it is
overwritten."""

CUT_DURING_A_FLUSH = tuple(
    story
    for behind, ahead in ((3, 2), (1, 3), (2, 1))
    for story in directed(
        Fault(2.1, Kind.CUT, 1, behind, 4.0, 0.5, Aim.LEADER),
        Fault(2.1, Kind.CUT, behind, ahead, 1.8, 0.5),
        Fault(2.35, Kind.KILL, 1, 0, 4.0, 0.5, Aim.LEADER),
        Fault(2.36, Kind.SLOW_DISK, ahead, 0, 4.0, 0.95),
        Fault(3.1, Kind.CUT, 0, ahead, 0.8, 0.5),
        writers=(WriterPlan("topic-0", 0, 2.2, 3, is_keyed=False, acks="1"),),
        replica_lag_time_max_ms=4000,
        log_dirs=2,
        seconds=8.0,
        tellings=3,
    )
)
"""A leader writes its new epoch to a slow disk. Before that is over, it follows another, and its log is cut.
Records come after 2.2 s, and not while it leads."""

SHORT_WRITES = tuple(
    story
    for follower in (1, 2, 3)
    for story in directed(
        Fault(1.0, Kind.KILL, follower, 0, 0.5, 0.5),
        Fault(1.4, Kind.FAIL_CALL, follower, 0, 2.0, failing(SHORT_WRITE, errno.ENOSPC)),
        tellings=1,
    )
)
"""A follower that comes back fetches many batches at once, and its disk has room for half of them."""

CHECKPOINTS_DURING_CUTS = tuple(
    story
    for behind, ahead in permutations((1, 2, 3), 2)
    for story in directed(
        *_two_tails_twice(behind, ahead),
        replica_lag_time_max_ms=3000,
        log_flush_offset_checkpoint_interval_ms=1,
        log_flush_start_offset_checkpoint_interval_ms=1,
        replica_high_watermark_checkpoint_interval_ms=1,
        sync_seconds=0.01,
        topics=(TopicPlan("topic-0", 9, 3, {}),),
        writers=tuple(WriterPlan("topic-0", 0, 0.01, 3, is_keyed=True, acks="1") for _ in range(2)),
        seconds=12.0,
        tellings=2,
    )
)
"""Many logs are cut, and each time threads wait to write checkpoints. A log dir has two threads for three checkpoints,
so one of them may come behind the cut."""
