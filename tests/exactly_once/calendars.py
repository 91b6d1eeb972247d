"""Groups, transactions, atomic batches and records on three nodes whose calendars are days and years apart.

    python -m tests.exactly_once.calendars --minutes 10
    python -m tests.exactly_once.calendars --spark         Spark's sink on such nodes (tests/spark_exactly_once/)

Node 1 begins eight days ahead, and node 2 in 1970. In each round one calendar jumps, or is set right, or is wrong for
an instant; in every second one a leader is killed (-9) and comes back with the calendar that it had. One at most is
ahead at a time, and one behind (clocks.py). Meanwhile a loop by hand copies numbers in transactions (hand_loop.py), and
things are kept that would be days too old by one of the calendars (kept.py). It is wrong when an output is missing or
there twice, a committed offset went back, or anything that is kept was forgotten or deleted. The producers' are right,
and brokers check their times against their own (`log.message.timestamp.after.max.ms` is an hour).
"""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass
from typing import Final

from penstock import Admin
from tests.exactly_once.clocks import Clocks, own_clocks
from tests.exactly_once.hand_loop import BATCH, IN, OUT, Loop
from tests.exactly_once.kept import PARTITIONS, Kept
from tests.spark_exactly_once import campaign as spark
from tests.support.campaign.beside import beside, every
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.options import option

NODES: Final = 3
STEPS: Final = 3
"""Transactions of a round; one more is aborted."""
CONFIG: Final = {
    "broker.session.timeout.ms": 2_000,
    "broker.heartbeat.interval.ms": 300,
    "controller.quorum.election.timeout.ms": 500,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "offsets.retention.minutes": 60,
    "offsets.retention.check.interval.ms": 1_000,
    "transactional.id.expiration.ms": 3_600_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 1_000,
    "log.retention.check.interval.ms": 1_000,
    "log.cleaner.backoff.ms": 1_000,
}
"""Everything is kept for an hour, and looked at every second."""
LED: Final = ("__consumer_offsets", "__transaction_state", "stamped")
"""The leader of the first partition of one of these is killed."""
SPARK_CHANGES_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Options:
    seed: int = 1
    minutes: float = option(10.0, "of rounds")
    spark: bool = option(False, "Spark's sink, and no rounds")
    rounds: int | None = None
    """So many, instead."""


def play(run: Run[Options]) -> None:
    """One round after the other, or Spark's stream."""
    clocks = Clocks(run.directory / "cluster", NODES, random.Random(run.options.seed))  # changed in another thread
    run.enter(own_clocks())
    if run.options.spark:
        with beside(every(SPARK_CHANGES_S, clocks.change)):
            spark.play_kills(run, spark.Options(seed=run.options.seed))
    else:
        _play_rounds(run, clocks)
    run.report.figures["calendars"] = dict(clocks.changes)


def _play_rounds(run: Run[Options], clocks: Clocks) -> None:
    cluster = run.cluster(NODES, CONFIG)
    admin = run.enter(Admin(cluster.bootstrap))
    kept = Kept(run, cluster.bootstrap, admin)
    for topic in (IN, OUT):
        admin.create_topic(topic, PARTITIONS, NODES, {"retention.ms": 3_600_000, "segment.ms": 1_000})
    loop = Loop(run, cluster.bootstrap, PARTITIONS, is_member=True)
    until_s, rounds, kills = time.monotonic() + run.options.minutes * 60, 0, 0
    while rounds < run.options.rounds if run.options.rounds is not None else time.monotonic() < until_s:
        loop.feed(BATCH * STEPS)
        did = clocks.change() if rounds else "as it began"
        killed = cluster.kill_leader(run.draw.choice(LED)) if rounds % 2 else None
        for number in range(STEPS):
            loop.step(aborts=number == 1)
        kept.keep(rounds)
        if killed is not None:
            kills += 1
            cluster.start(killed)
            cluster.wait_in_sync(timeout_s=60)
            admin.elect_leaders()
        loop.drain()
        kept.look()
        rounds += 1
        run.say(f"round {rounds}: {did}; killed {killed}; {clocks}; {loop.committed} copied, {kept}")
    loop.drain()
    clocks.all_right()
    kept.judge()
    loop.judge()
    run.report.figures |= {"rounds": rounds, "kills": kills, "kept": dict(kept.counts())}


CAMPAIGN = Campaign("tests.exactly_once.calendars", __doc__, Options, play)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
