"""Groups, transactions, atomic batches and records on three nodes whose calendars are days and years apart.

    python -m tests.exactly_once.calendars --minutes 10
    python -m tests.exactly_once.calendars --spark         Spark's sink on such nodes (tests/spark_exactly_once/)

Node 1 begins eight days ahead, and node 2 in 1970. In each round one calendar jumps, or is set right, or is wrong for
an instant; in every second one a leader is killed (-9) and comes back with the calendar that it had. One at most is
ahead at a time, and one behind (clocks.py). Meanwhile a loop by hand copies numbers in transactions, and things are
kept that would be days too old by one of the calendars (kept.py). Exit code 1 if an output is missing or there twice,
if a committed offset went back, or if anything that is kept was forgotten or deleted. The producers' calendar is right,
and brokers check their times against their own (`log.message.timestamp.after.max.ms` is an hour).
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.errors import TransactionAbortedError
from penstock.testing import Cluster
from tests.exactly_once.clocks import Clocks, own_clocks
from tests.exactly_once.kept import PARTITIONS, Kept, values_of
from tests.spark_exactly_once import campaign as spark
from tests.support.campaign_directory import in_directory

NODES: Final = 3
BATCH, STEPS = 30, 3
"""Records of a transaction, and transactions of a round; one more is aborted."""
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
PLACES: Final = [TopicPartition("in", number) for number in range(PARTITIONS)]
DRAIN_S: Final = 120.0
SPARK_ROWS, SPARK_KILLS, SPARK_CHANGES_S = 12_000, 3, 5.0


class Disliked(Exception):
    """The program aborts its transaction."""


@dataclass(slots=True)
class Outcome:
    rounds: int
    calendars: Counter[str]
    """How often a calendar was set, and how."""
    kills: int
    copied: int
    transactions: int
    aborted: int
    kept: Counter[str]
    wrong: list[str]

    @property
    def ok(self) -> bool:
        return not self.wrong


class Loop:
    """The program: a member of a group, and a transactional producer."""

    def __init__(self, feeder: Producer, consumer: Consumer, producer: Producer, watcher: Consumer) -> None:
        self._feeder, self._consumer, self._producer, self._watcher = feeder, consumer, producer, watcher
        self.fed = self.committed = self.transactions = self.aborted = 0
        self.wrong: list[str] = []

    def feed(self, count: int) -> None:
        """More numbers, one partition after the other. Raises if one is not taken."""
        numbers = range(self.fed, self.fed + count)
        sent = [self._feeder.send("in", b"%d" % number, partition=number % PARTITIONS) for number in numbers]
        self._feeder.flush()
        for future in sent:
            future.result()
        self.fed += count

    def drain(self) -> None:
        """Until every number is copied."""
        deadline = time.monotonic() + DRAIN_S
        while self.committed < self.fed:
            if time.monotonic() >= deadline:
                ends = self._watcher.end_offsets(PLACES)
                stands = {place: (self._consumer.position(place), ends[place]) for place in PLACES}
                self.wrong.append(f"{self.committed} of {self.fed} are copied; positions and ends: {stands}")
                return
            self.step()

    def step(self, *, aborts: bool = False) -> None:
        """One transaction, if there is anything to copy."""
        records = self._consumer.poll(timeout_ms=500, max_records=BATCH)
        if not records:
            return
        try:
            with self._producer.transaction() as transaction:
                for record in records:
                    transaction.send("out", record.value, partition=record.partition)
                transaction.send_offsets(self._consumer)
                if aborts:
                    raise Disliked
        except (Disliked, TransactionAbortedError):
            self.aborted += 1
            self._consumer.seek_to_committed()
            return
        self.transactions += 1
        self.committed += len(records)
        for partition in {TopicPartition(record.topic, record.partition) for record in records}:
            last = max(record.offset for record in records if record.partition == partition.partition)
            told = self._watcher.committed([partition])[partition]
            if told is None or told.offset <= last:
                self.wrong.append(f"{partition}: committed beyond {last}, told {told}")


def run(goes_on: Callable[[int], bool], directory: Path, seed: int, say: Callable[[str], None]) -> Outcome:
    """One round after the other, as long as `goes_on` (with their number) says so."""
    draw = random.Random(seed)
    with ExitStack() as stack:
        cluster = Cluster(NODES, CONFIG, directory=directory / "cluster")
        clocks = Clocks(directory / "cluster", NODES, draw)
        stack.enter_context(own_clocks())
        stack.enter_context(cluster)
        admin = stack.enter_context(Admin(cluster.bootstrap))
        kept = Kept(cluster.bootstrap, admin, stack)
        for topic in ("in", "out"):
            admin.create_topic(topic, PARTITIONS, NODES, {"retention.ms": 3_600_000, "segment.ms": 1_000})
        options = {"group_id": "g", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        consumer, watcher = (stack.enter_context(Consumer(cluster.bootstrap, **options)) for _ in range(2))
        consumer.subscribe(["in"])
        feeder, producer = (
            stack.enter_context(Producer(cluster.bootstrap, transactional_id=name)) for name in (None, "loop")
        )
        loop, rounds, kills = Loop(feeder, consumer, producer, watcher), 0, 0
        while goes_on(rounds):
            loop.feed(BATCH * STEPS)
            did = clocks.change() if rounds else "as it began"
            killed = cluster.kill_leader(draw.choice(LED)) if rounds % 2 else None
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
            say(f"round {rounds}: {did}; killed {killed}; {clocks}; {loop.committed} copied, {kept}")
        loop.drain()
        clocks.all_right()
        wrong = loop.wrong + kept.ends()
        starts = watcher.beginning_offsets(PLACES)
        wrong += [f"{place}: the log begins at {start}" for place, start in starts.items() if start]
        copied = Counter(int(value) for value in values_of(cluster.bootstrap, "out"))
        wrong += [f"output {number}: {copied[number]} times" for number in range(loop.fed) if copied[number] != 1]
        wrong += [f"output {number} is strange" for number in copied if not 0 <= number < loop.fed]
        return Outcome(
            rounds=rounds,
            calendars=clocks.changes,
            kills=kills,
            copied=loop.committed,
            transactions=loop.transactions,
            aborted=loop.aborted,
            kept=kept.counts(),
            wrong=wrong,
        )


def run_spark(directory: Path, seed: int, say: Callable[[str], None]) -> spark.Outcome:
    """Spark's sink, its drivers and a node killed, while calendars change every few seconds."""
    clocks = Clocks(directory / "cluster", NODES, random.Random(seed))
    with own_clocks(), clocks.changing(SPARK_CHANGES_S):
        return spark.run(directory, "exactly-once", seed, SPARK_ROWS, SPARK_KILLS, say, NODES)


def main() -> int:
    """Runs rounds until the time is over, or Spark's stream; exit code 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spark", action="store_true", help="Spark's sink, and no rounds")
    given = parser.parse_args()
    until_s = time.monotonic() + given.minutes * 60
    say = partial(print, flush=True)
    if given.spark:
        copied = in_directory("calendars", say, lambda directory: run_spark(directory, given.seed, say))
        print(copied.facts())
        return 0 if copied.ok else 1
    outcome = in_directory(
        "calendars", say, lambda directory: run(lambda rounds: time.monotonic() < until_s, directory, given.seed, say)
    )
    for text in outcome.wrong[:20]:
        print(f"WRONG: {text}")
    print(
        f"{outcome.rounds} rounds, calendars {dict(outcome.calendars)}, {outcome.kills} leaders killed,"
        f" {outcome.transactions} transactions and {outcome.aborted} aborted; kept {dict(outcome.kept)};"
        f" {len(outcome.wrong)} wrong"
    )
    return 0 if outcome.ok else 1


if __name__ == "__main__":
    sys.exit(main())
