"""Kills a node (-9) in the middle of cleaning a compacted topic that is being written, again and again.

    python -m tests.compaction --history GIT_DIR [--history …] --kills 5

Every commit of the git repositories becomes keyed updates, path to blob id; without a repository, made-up ones are
sent. It is wrong when a key has not its last value, or when a kill met no cleaning.

A writer sends a history of keyed updates, in order, at a steady rate, to a topic with small segments, on nodes whose
cleaner is always at work and slow. Each round waits until a log of the victim is being cleaned, which its files tell
(`.cleaned`: being written; `.swap`: being put in place), and kills the node. The kill counts when such a file is still
there afterwards: that is the proof. The node is started again, and the writer goes on. In the end everything is
cleaned, the nodes are stopped, and compaction_check.py, which uses nothing of ours, says whether each key has its last
value.

Retries must not bring an older value after a newer one. The producer has one batch of a partition with a broker at a
time, and does not give up a request that is under way: its time-out is longer than any restart. So an earlier attempt
is appended either before its answer, or never, because its process is dead. A batch may then be in the log twice in a
row, which does not change the result of compaction.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from penstock import Admin, Producer
from penstock.testing import Cluster
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.options import option
from tests.support.keyed_history import Update, git_updates, made_up_updates, write_updates
from tests.support.waiting import wait_until

TOPIC = "history"
ROOT = Path(__file__).resolve().parents[2]
MARKS = (".log.cleaned", ".log.swap")
ROUND_TIMEOUT_S = 60.0
CLEANED_TIMEOUT_S = 120.0
WRITTEN_TIMEOUT_S = 3600.0
LOOK_S = 0.0005
LATER_S_MAX = 0.3
"""A kill comes up to so long after the cleaning was noticed: it may be anywhere in it."""
SWAP_PATIENCE_S = 5.0
"""A swap is short; when none is met in this time, any cleaning will do."""
PATIENT = {"request_timeout_ms": 120_000, "delivery_timeout_ms": 600_000}
CLEANED_LINE = re.compile(r": cleaned: ")


@dataclass(frozen=True, slots=True)
class Options:
    """Without a history, there are `updates` made-up ones of so many `keys`."""

    seed: int = 1
    history: tuple[str, ...] = option((), "a git directory; may be repeated")
    kills: int = option(5, "of a node in the middle of cleaning")
    nodes: int = option(1, "of the cluster, each with every replica")
    rate: int = option(20_000, "updates a second")
    updates: int = 200_000
    keys: int = 5_000
    partitions: int = 3
    segment_bytes: int = 1024 * 1024
    cleaner_bytes_per_s: int = 24 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class MidClean:
    """A kill, and the files of an unfinished cleaning that it left."""

    node: int
    updates_sent: int
    files: tuple[str, ...]


@dataclass(slots=True)
class Writer:
    """Sends the history; `sent` is how far it is."""

    bootstrap: str
    options: Options
    stopped: threading.Event = field(default_factory=threading.Event)
    sent: int = 0
    bytes_sent: int = 0

    def write(self, updates: Iterable[Update]) -> None:
        """Writes the whole history; raises if a record is not acked."""
        chunk_records = max(1, self.options.rate // 20)
        stream, began = iter(updates), time.monotonic()
        with Producer(self.bootstrap, acks="all", **PATIENT) as producer:
            futures = []
            while (chunk := list(islice(stream, chunk_records))) and not self.stopped.is_set():
                keys, values = zip(*chunk, strict=True)
                futures.append(producer.send_many(TOPIC, values, keys=keys))
                self.sent += len(chunk)
                self.stopped.wait(max(0.0, began + self.sent / self.options.rate - time.monotonic()))
            for future in futures:
                future.result(PATIENT["delivery_timeout_ms"] / 1000)
            self.bytes_sent = producer.statistics().bytes_sent


class Killer:
    """The rounds."""

    def __init__(self, cluster: Cluster, run: Run[Options]) -> None:
        self._cluster, self._say, self._random = cluster, run.say, run.draw
        self._pause = threading.Event()
        self.kills: list[MidClean] = []

    def play_round(self, writer: Writer) -> None:
        """Kills the node until its files prove that it was in mid-clean."""
        deadline = time.monotonic() + ROUND_TIMEOUT_S
        wants_swap = self._random.random() < 0.4
        victim = self._random.randrange(len(self._cluster))
        while True:
            self._wait_for_cleaning(victim, wants_swap, deadline)
            if not wants_swap:
                self._pause.wait(self._random.random() ** 2 * LATER_S_MAX)
            self._cluster.kill(victim)
            files = tuple(sorted(self._marks(victim)))
            sent = writer.sent
            self._cluster.start(victim)
            if files:
                self.kills.append(MidClean(victim, sent, files))
                self._say(f"kill {len(self.kills)}: node {victim} after {sent} updates, it left {' '.join(files)}")
                return
            self._say(f"node {victim} was killed between two cleanings; that does not count")

    def _wait_for_cleaning(self, victim: int, wants_swap: bool, deadline: float) -> None:
        wanted, impatient_at = MARKS[1:] if wants_swap else MARKS, time.monotonic() + SWAP_PATIENCE_S
        while not any(name.endswith(wanted) for name in self._marks(victim)):
            now = time.monotonic()
            if now > impatient_at:
                wanted = MARKS
            if now > deadline:
                raise TimeoutError(f"node {victim} has cleaned nothing for {ROUND_TIMEOUT_S:g} s")
            self._pause.wait(0 if wants_swap else LOOK_S)

    def _marks(self, node: int) -> Iterator[str]:
        for partition in self._cluster.directory(node).glob(f"{TOPIC}-*"):
            yield from (f"{partition.name}/{path.name}" for path in partition.iterdir() if path.name.endswith(MARKS))


def play(run: Run[Options]) -> None:
    options, updates = run.options, run.directory / "updates"
    if not options.history:
        write_updates(updates, made_up_updates(options.seed, options.updates, options.keys))
    cluster = run.cluster(options.nodes, _node_config(options))
    data = [cluster.directory(index) for index in range(options.nodes)]
    writer, killer = Writer(cluster.bootstrap, options), Killer(cluster, run)
    _create_topic(cluster, options)
    _play(options, writer, killer)
    run.say(f"{writer.sent} updates are acked; waiting for the cleaner")
    with Admin(cluster.bootstrap) as admin:
        wait_until(lambda: _isrs_are_whole(admin, options.nodes), ROUND_TIMEOUT_S)
        admin.alter_topic_config(TOPIC, {"min.cleanable.dirty.ratio": "0"})
    wait_until(lambda: all(_is_cleaned(path, options.partitions) for path in data), CLEANED_TIMEOUT_S)
    cleanings = sum(len(CLEANED_LINE.findall(cluster.log_path(index).read_text())) for index in range(options.nodes))
    for index in range(options.nodes):
        cluster.stop(index)
    checked = _check(data, options, updates)
    for node in checked["nodes"]:
        run.report.all_wrong("compacted", node["examples"])
    if checked["wrong"] and run.report.ok:
        run.report.wrong("compacted", f"{checked['wrong']} records")
    if len(killer.kills) != options.kills:
        run.report.wrong("proves-too-little", f"{len(killer.kills)} kills met a cleaning")
    first = checked["nodes"][0]
    run.report.figures |= {
        "updates": writer.sent,
        "keys": first["keys"],
        "deleted_keys": first["deleted_keys"],
        "tombstones_left": first["tombstones"],
        "records_left": first["records"],
        "superseded_left": first["superseded"],
        "bytes_before": writer.bytes_sent,
        "bytes_after": first["bytes"],
        "cleanings": cleanings,
        "kills_in_mid_clean": len(killer.kills),
        "proofs": [f"node {kill.node} after {kill.updates_sent}: {' '.join(kill.files)}" for kill in killer.kills],
        "nodes_checked": len(checked["nodes"]),
        "wrong": checked["wrong"],
    }


def _play(options: Options, writer: Writer, killer: Killer) -> None:
    """The writer's whole history, and the kills spread over it."""
    total = sum(1 for _ in _history(options))
    with ThreadPoolExecutor(1) as executor:
        writing = executor.submit(writer.write, _history(options))
        try:
            for number in range(options.kills):
                due = total * (number + 1) // (options.kills + 2)
                wait_until(lambda due=due: writer.sent >= due or writing.done(), WRITTEN_TIMEOUT_S)  # type: ignore[misc]
                killer.play_round(writer)
        except BaseException:
            writer.stopped.set()
            raise
        writing.result()


def _history(options: Options) -> Iterator[Update]:
    if not options.history:
        yield from made_up_updates(options.seed, options.updates, options.keys)
    for git_directory in options.history:
        yield from git_updates(Path(git_directory))


def _node_config(options: Options) -> dict[str, object]:
    return {
        "log.cleaner.backoff.ms": 50,
        "log.cleaner.io.max.bytes.per.second": options.cleaner_bytes_per_s,
        "log.segment.delete.delay.ms": 1_000,
    }


def _create_topic(cluster: Cluster, options: Options) -> None:
    topic = {
        "cleanup.policy": "compact",
        "segment.bytes": options.segment_bytes,
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": 1_000,
        "file.delete.delay.ms": 1_000,
    }
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(TOPIC, options.partitions, replication_factor=options.nodes, config=topic)


def _isrs_are_whole(admin: Admin, nodes: int) -> bool:
    """True if every node has every acked record."""
    return all(len(partition.isr) == nodes for partition in admin.describe_topic(TOPIC).partitions)


def _is_cleaned(data: Path, partitions: int) -> bool:
    """True if the cleaner's checkpoint has every partition up to its active segment."""
    try:
        rows = [line.split() for line in (data / "cleaner-offset-checkpoint").read_text().splitlines()]
    except FileNotFoundError:
        return False
    cleaned = {(row[0], row[1]): int(row[2]) for row in rows if len(row) == 3}
    for number in range(partitions):
        active = max((data / f"{TOPIC}-{number}").glob("*.log"))
        if cleaned.get((TOPIC, str(number)), 0) < int(active.stem):
            return False
    return True


def _check(data: list[Path], options: Options, updates: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.compaction_check", "--topic", TOPIC]
    for path in data:
        command += ["--data", str(path)]
    for history in options.history:
        command += ["--history", history]
    command += ["--updates", str(updates)] if not options.history else []
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"the check failed: {done.stderr[-1000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


CAMPAIGN = Campaign("tests.compaction", __doc__, Options, play)
