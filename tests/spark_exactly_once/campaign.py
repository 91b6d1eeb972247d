"""One run: nodes, a topic of numbers, and a stream whose driver is killed at moments of its micro-batches.

    planned      the checkpoint has the micro-batch, the topic nothing of it
    written      the topic has rows of it, which are not committed yet
    committed    the topic has all of it, committed, and the checkpoint does not know

While the second driver runs, a node is killed and comes back. At last the newest entry of the checkpoint's commit log
is deleted, and the query started again: what a crash at the moment `committed` leaves, whatever the kills have met.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.client.admin.admin import Admin
from penstock.testing import Cluster
from tests.pipelines_under_faults.drivers import end_session
from tests.spark_exactly_once.checkpoint import forget_last_commit, in_batch, last_batch
from tests.spark_exactly_once.topics import PARTITIONS, Found, add, end, judge, reader

SOURCE, TARGET = "numbers", "copies"
MOMENTS = ("committed", "written", "planned")
"""In this order no killed driver has left an open transaction where the end of the committed records is looked at."""
LOOK_S, DOWN_S, DRIVER_S = 0.005, 3.0, 180.0
"""Between two looks; before a node comes back; in which a driver must have ended."""
PACE_S = 0.4
AT_LEAST_ONCE = "at-least-once"
Say = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    found: Found
    semantics: str
    kills: int
    kills_in_batch: int
    batches: int
    seconds: float

    @property
    def ok(self) -> bool:
        found = self.found
        proved = self.kills_in_batch > 0 or not self.kills
        if self.semantics == AT_LEAST_ONCE:  # what the other one spares
            return proved and not found.missing and found.doubled > 0
        return proved and not (found.missing or found.doubled or found.open_transactions)

    def facts(self) -> dict[str, object]:
        more = {name: value for name, value in asdict(self).items() if name != "found"}
        return {**more, "seconds": round(self.seconds, 1), **asdict(self.found)}


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
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, text=True, start_new_session=True)
        return self._process

    def finish(self) -> None:
        """SystemExit with the end of the log if the query fails."""
        process = self.begin()
        if process.wait(timeout=DRIVER_S):
            raise SystemExit("\n".join([f"ended with {process.returncode}:", *self._log.read_text().split("\n")[-20:]]))

    def kill_at(self, moment: str, meanwhile: Callable[[], None] = lambda: None) -> bool:
        """Runs a driver and kills it at the moment; True if that was within a micro-batch."""
        process = self.begin()
        has_come = self._reached(moment)
        deadline = time.monotonic() + DRIVER_S
        while not next(has_come):
            if process.poll() is not None or time.monotonic() > deadline:
                return False
            meanwhile()
            time.sleep(LOOK_S)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return in_batch(self.checkpoint)

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


def run(
    directory: Path,
    semantics: str,
    seed: int,
    rows: int,
    kills: int,
    say: Say,
    nodes: int = 3,
    *,
    repeats_last: bool = True,
) -> Outcome:
    """One run; its numbers are drawn from the seed, its moments come in turn."""
    draw = random.Random(seed)
    began = time.monotonic()
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(nodes, directory=str(directory / "cluster")))
        with Admin(cluster.bootstrap) as admin:
            for topic in (SOURCE, TARGET):
                admin.create_topic(topic, PARTITIONS, nodes)
        add(cluster.bootstrap, SOURCE, range(rows))
        stream = stack.enter_context(Stream(directory, cluster.bootstrap, semantics, rows // draw.randint(6, 12)))
        met = 0
        for number in range(kills):
            moment = MOMENTS[number % len(MOMENTS)]
            fault = NodeFault(cluster, draw.randrange(nodes)) if number == 1 and nodes > 1 else None
            is_met = stream.kill_at(moment, fault.look if fault else lambda: None)
            if fault is not None:
                fault.mend()
            met += is_met
            say(f"{time.monotonic() - began:6.1f} s: killed at {moment!r}, within a micro-batch: {is_met}")
        stream.finish()
        if repeats_last:
            forget_last_commit(stream.checkpoint)
            stream.finish()
        say(f"{time.monotonic() - began:6.1f} s: all is written")
        found = judge(cluster.bootstrap, TARGET, rows)
        batches = last_batch(stream.checkpoint / "commits") + 1
        return Outcome(found, semantics, kills, met, batches, time.monotonic() - began)


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
