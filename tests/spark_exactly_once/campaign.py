"""Spark's sink under faults: python -m tests.spark_exactly_once [--runs N] [--only WORD …] [--mutants].

    a topic of numbers ─► a stream that shuffles them ─► another topic

Kills: the driver is killed (-9) at moments of its micro-batches, each in turn:

    planned      the checkpoint has the micro-batch, the topic nothing of it
    written      the topic has rows of it, which are not committed yet
    committed    the topic has all of it, committed, and the checkpoint does not know

While the second driver runs, a node is killed and comes back. At last the newest entry of the checkpoint's commit log
is deleted, and the query started again: what a crash at the moment `committed` leaves, whatever the kills have met.
Then a reader of committed records must find every number exactly once, and no transaction open. The same with
`--semantics at-least-once` must show duplicates.

Faults: a seed draws one of each kind, lost plans, checkpoints that are set back, failed tasks, names that begin alike,
joined tables and slow batches (faults/table.py). What the query and readers must see after each is its row in the table
of docs/spark.md (faults/promise.py). Nine seeds in a row play all; `--only` plays those whose names have a word
(`--list` prints them, `kills` is one), and `--mutants` plays mistakes of the product, each of which must be noticed.
It is wrong when anything is not as promised, or when no kill met a micro-batch.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.client.admin.admin import Admin
from penstock.testing import Cluster
from tests.spark_exactly_once.checkpoint import forget_last_commit, in_batch, last_batch
from tests.spark_exactly_once.faults import table
from tests.spark_exactly_once.topics import PARTITIONS, add, end, places, reader
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.options import option
from tests.support.campaign.reading import copied, must_be_exactly_once
from tests.support.campaign.sessions import begin_session, end_session, kill_when, last_lines

SOURCE, TARGET = "numbers", "copies"
KILLS = "kills"
MOMENTS = ("committed", "written", "planned")
"""In this order no killed driver has left an open transaction where the end of the committed records is looked at."""
DOWN_S, DRIVER_S = 3.0, 180.0
"""Before a node comes back; in which a driver must have ended."""
PACE_S = 0.4
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"


@dataclass(frozen=True, slots=True)
class Options:
    seed: int = 1
    rows: int = option(12_000, "numbers in the topic of the kills")
    kills: int = option(3, "of the driver")
    nodes: int = option(3, "of the kills' cluster; the faults have one")
    semantics: str = option(
        EXACTLY_ONCE,
        f"{AT_LEAST_ONCE}: the kills alone, which must show duplicates",
        choices=(EXACTLY_ONCE, AT_LEAST_ONCE),
    )
    only: tuple[str, ...] = option((), "parts of the names that are played", nargs="+", metavar="WORD")
    list: bool = option(False, "print the names of the faults, and play nothing")
    mutants: bool = option(False, "mistakes instead; --only then takes words of theirs")
    repeats_last: bool = True

    def __post_init__(self) -> None:
        names = (KILLS, *table.names())
        wrong = [word for word in self.only if not any(word in name for name in names)]
        if wrong and not self.mutants:
            raise ValueError(f"no fault is named so: {', '.join(wrong)}; --list prints their names")

    def faults(self) -> Sequence[table.Fault]:
        """The faults of this seed; none where only kills are wanted."""
        if self.semantics == AT_LEAST_ONCE:
            return ()
        return table.named(self.only, self.seed) if self.only else table.drawn(self.seed)


class Stream:
    """The drivers of one query, one after the other."""

    def __init__(self, directory: Path, bootstrap: str, semantics: str, max_offsets: int) -> None:
        self.checkpoint = directory / "checkpoint"
        self._log = directory / "driver.log"
        words = (bootstrap, SOURCE, TARGET, self.checkpoint, semantics, max_offsets, PACE_S)
        self._command = [sys.executable, "-m", "tests.spark_exactly_once.stream", *map(str, words)]
        self._process: subprocess.Popen[str] | None = None
        self._bootstrap = bootstrap

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()

    def begin(self) -> subprocess.Popen[str]:
        self.end()
        self._process = begin_session(self._command, self._log)
        return self._process

    def finish(self) -> None:
        """SystemExit with the end of the log if the query fails."""
        process = self.begin()
        if process.wait(timeout=DRIVER_S):
            raise SystemExit("\n".join([f"ended with {process.returncode}:", *last_lines(self._log)]))

    def kill_at(self, moment: str, fault: NodeFault | None) -> bool:
        """Runs a driver and kills it at the moment; True if that was within a micro-batch."""
        process, has_come = self.begin(), self._reached(moment)
        meanwhile = fault.look if fault is not None else lambda: None
        return kill_when(process, lambda: next(has_come), meanwhile, DRIVER_S) and in_batch(self.checkpoint)

    def _reached(self, moment: str) -> Iterator[bool]:
        """Looks at what is there now, and yields for each look whether the moment has come since."""
        if moment == "planned":
            before = last_batch(self.checkpoint / "offsets")
            while True:
                yield last_batch(self.checkpoint / "offsets") > before
        with reader(self._bootstrap, committed=moment == "committed") as consumer:
            start = end(consumer, TARGET)
            while True:
                yield end(consumer, TARGET) > start

    def end(self) -> None:
        """Kills what is left of the last driver, and of its workers."""
        if self._process is not None:
            end_session(self._process)
            self._process = None


class NodeFault:
    """A node that is killed at the first look and comes back DOWN_S later."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        self._cluster, self._node = cluster, node
        self._until: float | None = None
        self._is_down = False

    def look(self) -> None:
        if self._until is None:
            self._cluster.kill(self._node)
            self._until, self._is_down = time.monotonic() + DOWN_S, True
        elif self._is_down and time.monotonic() > self._until:
            self.mend()

    def mend(self) -> None:
        if self._is_down:
            self._cluster.start(self._node)
            self._is_down = False


def play(run: Run[Options]) -> None:
    """The kills, and then the faults of this seed."""
    if not run.options.only or any(word in KILLS for word in run.options.only):
        play_kills(run, run.options)
    if faults := run.options.faults():
        table.play(run.directory / "faults", faults, run.report, run.say)


def play_kills(run: Run[Any], options: Options) -> None:
    """One stream; its numbers are drawn from the seed, its moments come in turn."""
    cluster = run.cluster(options.nodes)
    with Admin(cluster.bootstrap) as admin:
        for topic in (SOURCE, TARGET):
            admin.create_topic(topic, PARTITIONS, options.nodes)
    add(cluster.bootstrap, SOURCE, range(options.rows))
    max_offsets = options.rows // run.draw.randint(6, 12)
    stream = run.enter(Stream(run.directory, cluster.bootstrap, options.semantics, max_offsets))
    met = 0
    for number in range(options.kills):
        moment = MOMENTS[number % len(MOMENTS)]
        fault = NodeFault(cluster, run.draw.randrange(options.nodes)) if number == 1 and options.nodes > 1 else None
        is_met = stream.kill_at(moment, fault)
        if fault is not None:
            fault.mend()
        met += is_met
        run.say(f"{run.seconds:6.1f} s: killed at {moment!r}, within a micro-batch: {is_met}")
    stream.finish()
    if options.repeats_last:
        forget_last_commit(stream.checkpoint)
        stream.finish()
    run.say(f"{run.seconds:6.1f} s: all is written")
    _judge(run, options, cluster, met)
    run.report.figures |= {"kills": options.kills, "kills_in_batch": met}
    run.report.figures["batches"] = last_batch(stream.checkpoint / "commits") + 1


def _judge(run: Run[Any], options: Options, cluster: Cluster, met: int) -> None:
    found = copied(cluster.bootstrap, places(TARGET), options.rows)
    if options.kills and not met:
        run.report.wrong("proves-too-little", "no kill met a micro-batch")
    if options.semantics == EXACTLY_ONCE:
        must_be_exactly_once(run.report, found)
    elif found.missing or not found.doubled:  # what the other one spares
        run.report.wrong("at-least-once", f"{found.missing} missing, {found.doubled} doubled")
    run.report.figures |= {"semantics": options.semantics, **found.figures()}


def list_names(options: Options) -> bool:
    print("\n".join((KILLS, *table.names())))
    return True


def try_mutants(options: Options) -> bool:
    from tests.spark_exactly_once.faults.mutants import run_all

    return run_all(options.only, options.seed)


CAMPAIGN = Campaign(
    "tests.spark_exactly_once", __doc__, Options, play, instead={"list": list_names, "mutants": try_mutants}
)
